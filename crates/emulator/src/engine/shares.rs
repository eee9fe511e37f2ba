//! How evenly flows share while they come and go: Jain's index window by window.

use pathmark_cc::{Duration, Instant};

use super::Engine;
use crate::fairness::jain;
use crate::scenario::Scenario;

/// Longest round trips in a window: what a law needs to share again after a change.
const ROUND_TRIPS: u32 = 20;
/// Windows are at least this long.
const LEAST: Duration = Duration::from_secs(1);

/// Jain's index over the flows that were active all through a window, window after window.
#[derive(Debug, Default)]
pub(super) struct Shares {
    period: Duration,
    began: Instant,
    next: Instant,
    /// Bytes delivered per flow when the window began.
    before: Vec<u64>,
    sum: f64,
    windows: u32,
}

impl Shares {
    /// Windows of 20 of the longest round trips, 1 s at least. A flow alone needs none.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let several = scenario.flows.iter().filter(|f| f.algorithm.is_some());
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

    /// The mean over the windows in which two flows and more were active and anything arrived;
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
        // Where nothing arrived there was nothing to share.
        if rates.len() > 1 && rates.iter().any(|rate| *rate > 0.0) {
            shares.add(jain(rates));
        }
        shares.began = now;
        shares.next = now + shares.period;
        self.shares = shares;
    }

    /// True for a connection that had something to send all the time. Streams of datagrams without
    /// a law are none.
    fn is_active(&self, flow: usize, from: Instant, to: Instant) -> bool {
        let Some(setup) = self.scenario.flows.get(flow) else {
            return false;
        };
        setup.algorithm.is_some()
            && self.started(flow) <= from
            && self.ended(flow).is_none_or(|at| at >= to)
    }
}
