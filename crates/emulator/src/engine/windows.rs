//! Measuring windows: the behaviour of flows and links between two times, and fairness per window
//! while flows come and go.

use pathmark_cc::{Duration, Instant};

use super::Engine;
use super::measure::{goodput, queue_stats, seconds};
use crate::result::{WindowFlow, WindowLink, WindowResult, jain};
use crate::scenario::Scenario;

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
