//! Fairness while flows come and go: Jain's index per window.

use pathmark_cc::{Duration, Instant};

use super::Engine;
use crate::fairness::jain;
use crate::scenario::Scenario;

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
