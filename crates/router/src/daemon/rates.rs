//! Recent rates of links, computed from the totals now and a few seconds ago.

use std::collections::VecDeque;

use pathmark_cc::{Duration, Instant};
use serde::Serialize;

use crate::forward::{Router, RouterPort};

/// Time between two samples.
const PERIOD: Duration = Duration::from_millis(250);
/// Number of samples: slightly more than ten seconds.
const KEPT: usize = 42;

/// A link's rates over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// The period, in seconds. It is shorter if the link or the router is younger.
    pub seconds: f64,
    /// IP bits per second that arrived at the port.
    pub arrived_bps: f64,
    /// IP bits per second that left for the wire.
    pub sent_bps: f64,
    /// Packets per second that left for the wire.
    pub sent_pps: f64,
    /// Bytes sent divided by those that the link could have carried; `None` without a rate.
    pub utilization: Option<f64>,
    /// Packets dropped per second, by any cause.
    pub drops_pps: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    at: Instant,
    arrived_bytes: u64,
    sent_bytes: u64,
    sent_packets: u64,
    capacity_bytes: u64,
    drops: u64,
}

impl Totals {
    fn of(port: &RouterPort, now: Instant) -> Self {
        let stats = port.link.port().stats();
        Self {
            at: now,
            arrived_bytes: stats.arrived_bytes(),
            sent_bytes: stats.sent_bytes(),
            sent_packets: stats.sent_packets(),
            capacity_bytes: stats.capacity_bytes(now),
            drops: stats.drops().all(),
        }
    }

    /// `None` if no time has passed, or the port was replaced in between.
    fn since(self, before: Self) -> Option<Rates> {
        let seconds = self.at.saturating_since(before.at).as_secs_f64();
        let per_second = |now: u64, then: u64| Some(now.checked_sub(then)? as f64 / seconds);
        let sent = self.sent_bytes.checked_sub(before.sent_bytes)?;
        let room = self.capacity_bytes.checked_sub(before.capacity_bytes)?;
        (seconds > 0.0).then_some(Rates {
            seconds,
            arrived_bps: per_second(self.arrived_bytes, before.arrived_bytes)? * 8.0,
            sent_bps: sent as f64 * 8.0 / seconds,
            sent_pps: per_second(self.sent_packets, before.sent_packets)?,
            utilization: (room > 0).then(|| sent as f64 / room as f64),
            drops_pps: per_second(self.drops, before.drops)?,
        })
    }
}

/// Totals of the last seconds, per port.
#[derive(Debug)]
pub(super) struct History {
    ports: Vec<VecDeque<Totals>>,
    next: Instant,
}

impl History {
    /// Starts with the current totals.
    pub(super) fn new(router: &Router, now: Instant) -> Self {
        let mut history = Self {
            ports: Vec::new(),
            next: now,
        };
        history.sample(router, now);
        history
    }

    /// When the next sample is due.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    pub(super) fn sample(&mut self, router: &Router, now: Instant) {
        if now < self.next {
            return;
        }
        // A late sample does not delay the next ones; missed samples are skipped.
        self.next = (self.next + PERIOD).max(now);
        self.ports.resize_with(router.ports().len(), VecDeque::new);
        for (totals, port) in self.ports.iter_mut().zip(router.ports()) {
            if totals.len() >= KEPT {
                totals.pop_front();
            }
            totals.push_back(Totals::of(port, now));
        }
    }

    /// Discards all samples, because ports have changed their order.
    pub(super) fn clear(&mut self, router: &Router, now: Instant) {
        *self = Self::new(router, now);
    }

    /// The rates of a port over the last `span`.
    pub(super) fn rates(
        &self,
        index: usize,
        port: &RouterPort,
        now: Instant,
        span: Duration,
    ) -> Rates {
        let known = self.ports.get(index);
        let samples = || known.into_iter().flatten().copied();
        // The youngest sample that is old enough, otherwise the oldest.
        let old = samples().take_while(|sample| now.saturating_since(sample.at) >= span);
        let before = old.last().or_else(|| samples().next());
        before
            .and_then(|before| Totals::of(port, now).since(before))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_that_passed() {
        let totals = |millis, bytes: u64| Totals {
            at: Instant::from_millis(millis),
            arrived_bytes: 2 * bytes,
            sent_bytes: bytes,
            sent_packets: bytes / 100,
            capacity_bytes: 4 * bytes,
            drops: bytes / 1000,
        };
        let rates = totals(3_000, 50_000).since(totals(1_000, 10_000)).unwrap();
        let expected = Rates {
            seconds: 2.0,
            arrived_bps: 320_000.0,
            sent_bps: 160_000.0,
            sent_pps: 200.0,
            utilization: Some(0.25),
            drops_pps: 20.0,
        };
        assert_eq!(rates, expected);
        assert_eq!(totals(1_000, 1).since(totals(1_000, 0)), None);
        assert_eq!(totals(2_000, 1).since(totals(1_000, 2)), None, "restarted");
    }
}
