//! What a run reports: time series of the changes since the last point, and its result.

use std::collections::BTreeMap;

use pathmark_cc::{Duration, Instant, LinkMetrics, QuickStartMetrics};
use pathmark_link::DropCause;
use pathmark_link::law_view::LawView;
use serde_json::Value;

use super::Engine;
use super::application::Sink;
use super::endpoint::Endpoint;
use super::measure::{goodput, per_second, queue_stats, seconds};
use crate::observe::{FlowPoint, LawPoint, LinkPoint, Observer, Sample};
use crate::result::{FlowResult, LinkResult, Milestone, QuickStartResult, RunResult, jain};

/// The times of points, and totals at the last one.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// `None`: the observer requests no points.
    every: Option<Duration>,
    last: Instant,
    next: Instant,
    flows: Vec<FlowPoint>,
    links: Vec<LinkPoint>,
    /// Totals per link: bytes sent, bytes that could have been sent, drops, losses, marks.
    totals: Vec<Totals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    capacity: u64,
    drops: u64,
    losses: u64,
    marked: [u64; 4],
}

impl Sampler {
    /// Takes a point at this interval, starting at time 0.
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self {
            every,
            ..Self::default()
        }
    }

    /// When the next point is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.every.map(|_| self.next)
    }
}

impl Engine {
    /// Takes a point if one is due; with `last`, also if any time has passed since the last one.
    pub(super) fn take_sample(&mut self, now: Instant, last: bool, observer: &mut dyn Observer) {
        let Some(every) = self.sampler.every else {
            return;
        };
        if self.sampler.next > now && !(last && now > self.sampler.last) {
            return;
        }
        let mut sampler = std::mem::take(&mut self.sampler);
        sampler.flows.resize(self.flows.len(), FlowPoint::default());
        sampler.links.resize(self.links.len(), LinkPoint::default());
        sampler.totals.resize(self.links.len(), Totals::default());
        for (flow, point) in sampler.flows.iter_mut().enumerate() {
            *point = self.flow_point(flow, now, sampler.last, point);
        }
        let points = sampler.links.iter_mut().zip(&mut sampler.totals);
        for (link, (point, totals)) in points.enumerate() {
            *point = self.link_point(link, now, totals);
        }
        let sample = Sample {
            at: now - Instant::ZERO,
            flows: &sampler.flows,
            links: &sampler.links,
        };
        observer.sample(&self.scenario, &sample);
        sampler.last = now;
        sampler.next = now + every;
        self.sampler = sampler;
    }

    fn flow_point(
        &self,
        flow: usize,
        now: Instant,
        last: Instant,
        before: &FlowPoint,
    ) -> FlowPoint {
        let delivered = self.delivered(flow);
        let sender = self.sender(flow);
        if let Some(tcp) = sender.and_then(Endpoint::tcp) {
            return FlowPoint {
                active: self.started(flow) <= now && self.ended(flow).is_none(),
                cwnd: tcp.window(),
                in_flight: tcp.in_flight(),
                srtt: tcp.srtt(),
                delivered,
                goodput_bps: goodput(delivered - before.delivered, last, now),
                lost: tcp.repeated(),
                losses_per_s: per_second(tcp.repeated().saturating_sub(before.lost), last, now),
                timeouts: tcp.timeouts(),
                fallback: None,
            };
        }
        let Some(connection) = sender.and_then(Endpoint::connection) else {
            return FlowPoint::default();
        };
        let (report, stats) = (connection.path_report(now), connection.stats());
        FlowPoint {
            active: connection.error().is_none(),
            cwnd: report.controller.window,
            in_flight: report.in_flight,
            srtt: report.smoothed_rtt,
            delivered,
            goodput_bps: goodput(delivered - before.delivered, last, now),
            lost: stats.packets_lost,
            losses_per_s: per_second(stats.packets_lost.saturating_sub(before.lost), last, now),
            timeouts: report.controller.timeouts.unwrap_or(stats.probe_timeouts),
            fallback: report.controller.fallback,
        }
    }

    fn link_point(&self, index: usize, now: Instant, totals: &mut Totals) -> LinkPoint {
        let Some(link) = self.links.get(index) else {
            return LinkPoint::default();
        };
        let (stats, port) = (link.stats(), link.link().port());
        let metrics = port.metrics();
        let after = Totals {
            sent: stats.sent_bytes(),
            capacity: stats.capacity_bytes(now),
            drops: link.drops(),
            losses: link.losses(),
            marked: metrics.map_or([0; 4], |metrics| metrics.marked),
        };
        let before = std::mem::replace(totals, after);
        let possible = after.capacity - before.capacity;
        let mut marked = after.marked;
        for (after, before) in marked.iter_mut().zip(before.marked) {
            *after = after.saturating_sub(before);
        }
        LinkPoint {
            rate_bps: port.rate().map(|rate| rate as f64 * 8.0),
            utilization: (possible > 0)
                .then(|| (after.sent - before.sent) as f64 / possible as f64),
            queue_packets: port.depth().packets,
            queue_bytes: port.depth().bytes,
            drops: after.drops - before.drops,
            losses: after.losses - before.losses,
            law: metrics.map(|metrics| LawPoint {
                load: metrics.load_ppb as f64 / 1e9,
                code: metrics.code,
                r: metrics.r_q32.map(|r| r as f64 / 4_294_967_296.0),
                marked,
            }),
        }
    }
}

impl Engine {
    /// Collects all measurements up to now.
    pub(super) fn collect(mut self) -> RunResult {
        let now = self.now;
        self.turn_windows(now, true);
        self.turn_shares(now);
        let flows: Vec<FlowResult> = (0..self.flows.len()).map(|f| self.flow_result(f)).collect();
        // A UDP flow's rate is configured, and thus not a result of sharing.
        let connected = |flow: usize| {
            let setup = self.scenario.flows.get(flow);
            setup.is_some_and(|setup| !setup.sender.is_udp())
        };
        let alone = !(0..flows.len()).any(connected);
        let active = flows
            .iter()
            .enumerate()
            .filter(|(index, flow)| flow.start_s < seconds(now) && (alone || connected(*index)));
        let jain = jain(active.map(|(_, flow)| flow.goodput_bps));
        RunResult {
            scenario: self.scenario.name.clone(),
            seed: self.scenario.seed,
            simulated_s: seconds(now),
            wall_s: 0.0,
            packets: self.pool.entered(),
            events: self.events,
            jain,
            jain_windows: self.shares.mean(),
            links: (0..self.links.len())
                .filter_map(|link| self.link_result(link))
                .collect(),
            flows,
            windows: std::mem::take(&mut self.windows).into_results(),
        }
    }

    fn flow_result(&self, flow: usize) -> FlowResult {
        let Some(setup) = self.scenario.flows.get(flow) else {
            return FlowResult::default();
        };
        let (start, now) = (self.started(flow), self.now);
        let node = |index: usize| self.scenario.nodes.get(index).cloned().unwrap_or_default();
        let (completed, ended) = (self.completed(flow), self.ended(flow));
        let delivered = self.delivered(flow);
        let sender = self.sender(flow);
        let stats = sender
            .and_then(|s| s.connection())
            .map(pathmark_transport::Connection::stats);
        let report = sender
            .and_then(Endpoint::connection)
            .map(|connection| connection.path_report(ended.unwrap_or(now)));
        let law = report.as_ref().map(|report| report.controller);
        let datagrams = sender.and_then(Endpoint::datagrams_sent);
        let tcp = sender.and_then(Endpoint::tcp);
        let connected = datagrams.is_none();
        let stats = stats.unwrap_or_default();
        let rtt = &stats.rtt;
        FlowResult {
            name: setup.name.clone(),
            algorithm: self
                .flows
                .get(flow)
                .map_or_else(String::new, |f| f.algorithm.clone()),
            from: node(setup.from),
            to: node(setup.to),
            start_s: seconds(start),
            bytes_requested: setup.bytes,
            bytes_delivered: delivered,
            completed: completed.is_some(),
            completion_s: completed.map(|at| (at - start).as_nanos() as f64 / 1e9),
            milestones: self.milestones(flow, start),
            stopped_s: ended.filter(|_| completed.is_none()).map(seconds),
            goodput_bps: goodput(delivered, start, ended.unwrap_or(now)),
            packets_sent: Some(datagrams.unwrap_or(stats.packets_sent)),
            packets_lost: self.lost(flow),
            bytes_retransmitted: match tcp {
                Some(tcp) => Some(tcp.repeated() * tcp.segment()),
                None => connected.then_some(stats.bytes_retransmitted),
            },
            timeouts: match (tcp, law.and_then(|law| law.timeouts)) {
                (Some(tcp), _) => Some(tcp.timeouts()),
                (None, Some(timeouts)) => Some(timeouts),
                (None, None) => connected.then_some(stats.probe_timeouts),
            },
            rtt_ms: (rtt.samples() > 0).then(|| rtt.into()),
            cwnd_bytes: sender
                .filter(|s| s.connection().is_some() || tcp.is_some())
                .map(|s| s.window().summary(ended.unwrap_or(now))),
            controllers: report.as_ref().map(|report| (&report.controllers).into()),
            fallback: law
                .and_then(|law| law.fallback)
                .map(|reason| reason.name().to_owned()),
            quick_start: law
                .and_then(|law| law.quick_start)
                .map(|metrics| quick_start(&metrics)),
        }
    }

    fn milestones(&self, flow: usize, start: Instant) -> Vec<Milestone> {
        let reached = self.sink(flow).into_iter().flat_map(Sink::milestones);
        let after = |at: Instant| (at - start).as_nanos() as f64 / 1e9;
        reached
            .map(|(bytes, at)| Milestone {
                bytes,
                after_s: at.map(after),
            })
            .collect()
    }

    fn link_result(&self, index: usize) -> Option<LinkResult> {
        let (setup, link) = (self.scenario.links.get(index)?, self.links.get(index)?);
        let (now, stats, port) = (self.now, link.stats(), link.link().port());
        let capacity = stats.capacity_bytes(now);
        Some(LinkResult {
            name: setup.name.clone(),
            rate_bps: port.rate().map(|rate| rate as f64 * 8.0),
            utilization: (capacity > 0).then(|| stats.sent_bytes() as f64 / capacity as f64),
            time_to_80_s: link.ramp().reached().map(seconds),
            queue_packets: queue_stats(&stats.queue_packets(now), 1.0),
            queue_ms: port
                .rate()
                .map(|_| queue_stats(&stats.queue_micros(now), 1e3)),
            drops: link.drops(),
            random_losses: link.losses(),
            restart_losses: stats.drops().of(DropCause::Removed),
            times_set_aside: port.times_set_aside(),
            controller: setup
                .spec
                .controller
                .as_ref()
                .zip(port.metrics())
                .map(|(law, metrics)| controller(&law.to_string(), &metrics))
                .unwrap_or_default(),
        })
    }
}

fn quick_start(metrics: &QuickStartMetrics) -> QuickStartResult {
    QuickStartResult {
        asked: metrics.asked,
        wanted_bps: metrics.wanted as f64 * 8.0,
        granted_bps: metrics.granted as f64 * 8.0,
        denied: metrics.denied,
        repeated: metrics.repeated,
        above: metrics.above,
        partial: metrics.partial,
        forged: metrics.forged,
        late: metrics.late,
        revoked: metrics.revoked,
        lowered: metrics.lowered,
        outcome: metrics.outcome.name().to_owned(),
    }
}

/// A link controller's state, in the same format as in a router's status.
fn controller(law: &str, metrics: &LinkMetrics) -> BTreeMap<String, Value> {
    match serde_json::to_value(LawView::new(Some(law.to_owned()), metrics)) {
        Ok(Value::Object(state)) => state.into_iter().collect(),
        // A struct of numbers and names always becomes an object.
        Ok(_) | Err(_) => BTreeMap::new(),
    }
}
