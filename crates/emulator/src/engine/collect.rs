//! Turns a run into its result.
//!
//! Fairness while flows come and go: Jain's index per window.
//!
//! Measuring windows: the behaviour of flows and links between two times.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Engine;
use super::endpoint::Endpoint;
use super::sampler::{goodput, queue_stats, seconds};
use super::sink::Sink;
use crate::fairness::jain;
use crate::result::{
    Distribution, FlowResult, LinkResult, Milestone, QuickStartResult, RunResult, WindowFlow,
    WindowLink, WindowResult,
};
use crate::scenario::Scenario;
use pathmark_cc::{Duration, Instant, LinkMetrics, QuickStartMetrics};
use pathmark_link::DropCause;
use pathmark_link::law_view::LawView;

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

/// Window length in the longest round trips, which is the time that a law needs to share again
/// after a change.
const ROUND_TRIPS: u32 = 20;
/// Windows are at least this long.
const LEAST: Duration = Duration::from_secs(1);

/// Jain's index over the flows that were active during a whole window, for each window.
#[derive(Debug, Default)]
pub(super) struct Shares {
    period: Duration,
    began: Instant,
    next: Instant,
    /// Bytes delivered per flow before the window.
    before: Vec<u64>,
    sum: f64,
    windows: u32,
}

impl Shares {
    /// Creates windows of 20 of the longest round trips, but at least 1 s. A single flow needs
    /// none.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let several = scenario.flows.iter().filter(|f| !f.sender.is_udp());
        if several.count() < 2 {
            return Self::default();
        }
        let longest = scenario.links.iter().filter_map(|link| link.rtt).max();
        let period = longest.unwrap_or_default().saturating_mul(ROUND_TRIPS);
        let period = period.max(LEAST);
        Self {
            period,
            next: Instant::ZERO + period,
            before: vec![0; scenario.flows.len()],
            ..Self::default()
        }
    }

    /// When the window ends. `None`: there is nothing to compare.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.period > Duration::ZERO).then_some(self.next)
    }

    /// The mean over the windows in which at least two flows were active and any data arrived;
    /// `None` without such a window.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.sum / f64::from(self.windows))
    }

    fn add(&mut self, index: f64) {
        self.sum += index;
        self.windows = self.windows.saturating_add(1);
    }
}

impl Engine {
    /// Ends the window if it is due.
    pub(super) fn turn_shares(&mut self, now: Instant) {
        if self.shares.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut shares = std::mem::take(&mut self.shares);
        let mut rates = Vec::new();
        for (flow, before) in shares.before.iter_mut().enumerate() {
            let delivered = self.delivered(flow);
            if self.is_active(flow, shares.began, now) {
                rates.push((delivered - *before) as f64);
            }
            *before = delivered;
        }
        // If nothing arrived, there was nothing to share.
        if rates.len() > 1 && rates.iter().any(|rate| *rate > 0.0) {
            shares.add(jain(rates));
        }
        shares.began = now;
        shares.next = now + shares.period;
        self.shares = shares;
    }

    /// Returns true for a connection that had something to send all the time, which excludes
    /// datagrams without a law.
    fn is_active(&self, flow: usize, from: Instant, to: Instant) -> bool {
        let Some(setup) = self.scenario.flows.get(flow) else {
            return false;
        };
        !setup.sender.is_udp()
            && self.started(flow) <= from
            && self.ended(flow).is_none_or(|at| at >= to)
    }
}

/// The windows of a run.
#[derive(Debug, Default)]
pub(super) struct Windows {
    windows: Vec<Window>,
}

#[derive(Debug)]
struct Window {
    from: Instant,
    to: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Pending,
    Open(Marks),
    Done(WindowResult),
}

/// Totals at the start of a window.
#[derive(Debug)]
struct Marks {
    /// Bytes delivered, and packets declared lost, per flow.
    flows: Vec<(u64, Option<u64>)>,
    /// Bytes sent, bytes that could have been sent, and drops, per link.
    links: Vec<(u64, u64, u64)>,
}

impl Windows {
    pub(super) fn new(measure: &[(Duration, Duration)]) -> Self {
        let windows = measure.iter().map(|&(from, to)| Window {
            from: Instant::ZERO + from,
            to: Instant::ZERO + to,
            state: State::Pending,
        });
        Self {
            windows: windows.collect(),
        }
    }

    /// When the next window starts or ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let next = |window: &Window| match window.state {
            State::Pending => Some(window.from),
            State::Open(_) => Some(window.to),
            State::Done(_) => None,
        };
        self.windows.iter().filter_map(next).min()
    }

    /// Results of all windows that have started, in order.
    pub(super) fn into_results(self) -> Vec<WindowResult> {
        let done = |window: Window| match window.state {
            State::Done(result) => Some(result),
            State::Pending | State::Open(_) => None,
        };
        self.windows.into_iter().filter_map(done).collect()
    }
}

impl Engine {
    /// Starts and ends the windows that are due. With `last`, ends all open ones.
    pub(super) fn turn_windows(&mut self, now: Instant, last: bool) {
        let mut windows = std::mem::take(&mut self.windows);
        for (index, window) in windows.windows.iter_mut().enumerate() {
            if matches!(window.state, State::Pending) && window.from <= now && !last {
                window.state = State::Open(self.open_window(now, index));
            }
            if let State::Open(marks) = &window.state
                && (window.to <= now || last)
            {
                let result = self.close_window(now, index, window.from, marks);
                window.state = State::Done(result);
            }
        }
        self.windows = windows;
    }

    fn open_window(&mut self, now: Instant, index: usize) -> Marks {
        for link in &mut self.links {
            link.open_window(now, index);
        }
        let links = self.links.iter().map(|link| {
            let stats = link.stats();
            (stats.sent_bytes(), stats.capacity_bytes(now), link.drops())
        });
        Marks {
            flows: (0..self.flows.len())
                .map(|flow| (self.delivered(flow), self.lost(flow)))
                .collect(),
            links: links.collect(),
        }
    }

    fn close_window(
        &mut self,
        now: Instant,
        index: usize,
        from: Instant,
        marks: &Marks,
    ) -> WindowResult {
        let mut active = Vec::new();
        let flows = (0..self.flows.len())
            .zip(&marks.flows)
            .map(|(flow, (before, lost))| {
                let start = self.started(flow).max(from);
                let end = self.ended(flow).map_or(now, |at| at.min(now));
                let bytes = self.delivered(flow) - before;
                let goodput_bps = goodput(bytes, start, end);
                if end > start {
                    active.push(goodput_bps);
                }
                WindowFlow {
                    name: self.flow_name(flow),
                    goodput_bps,
                    bytes,
                    lost: self
                        .lost(flow)
                        .map(|now| now.saturating_sub(lost.unwrap_or(0))),
                }
            });
        let flows: Vec<WindowFlow> = flows.collect();
        let names: Vec<String> = self.scenario.links.iter().map(|l| l.name.clone()).collect();
        let links = self.links.iter_mut().zip(&marks.links).zip(names);
        let links = links.map(|((link, (sent, capacity, drops)), name)| {
            let gauge = link.close_window(index);
            let stats = link.stats();
            let possible = stats.capacity_bytes(now) - capacity;
            let used = stats.sent_bytes() - sent;
            WindowLink {
                name,
                utilization: (possible > 0).then(|| used as f64 / possible as f64),
                queue_packets: gauge.map_or_else(Default::default, |gauge| {
                    queue_stats(&gauge.summary(now), 1.0)
                }),
                drops: link.drops() - drops,
            }
        });
        WindowResult {
            from_s: seconds(from),
            to_s: seconds(now),
            links: links.collect(),
            jain: jain(active),
            flows,
        }
    }
}
