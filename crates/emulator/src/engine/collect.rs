//! Turns a run into its result.

use std::collections::BTreeMap;

use pathmark_cc::{Duration, Instant, LinkMetrics, QuickStartMetrics};
use pathmark_link::DropCause;
use pathmark_link::law_view::LawView;
use serde_json::Value;

use super::Engine;
use super::endpoint::Endpoint;
use super::measure::{goodput, queue_stats, seconds};
use super::sink::Sink;
use crate::fairness::jain;
use crate::result::{Distribution, FlowResult, LinkResult, Milestone, QuickStartResult, RunResult};

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
        let millis = |time: Option<Duration>| time.unwrap_or_default().as_nanos() as f64 / 1e6;
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
            rtt_ms: (rtt.samples() > 0).then(|| Distribution {
                min: millis(rtt.min()),
                mean: millis(rtt.mean()),
                p50: millis(rtt.quantile(500)),
                p99: millis(rtt.quantile(990)),
                max: millis(rtt.max()),
            }),
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
