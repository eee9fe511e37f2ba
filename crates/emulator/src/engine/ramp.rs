//! Determines when a link was first well used: the end of the first round trip with a
//! utilization of 0.8.

use pathmark_cc::{Duration, Instant};

/// Number of parts per round trip.
const PARTS: usize = 16;
/// Minimum length of a part in ns, because links without delay have no round trip.
const LEAST_PART: u64 = 1_000;

/// Slides a window of one round trip over the bytes that a link sends.
#[derive(Clone, Debug)]
pub(super) struct Ramp {
    /// Length of a part in nanoseconds.
    part: u64,
    /// Total bytes sent at the last boundaries of parts, the oldest at `passed % PARTS`.
    marks: [u64; PARTS],
    /// Number of boundaries passed.
    passed: u64,
    /// The next boundary, ns.
    next: u64,
    reached: Option<Instant>,
}

impl Ramp {
    /// Starts at time 0, with windows of `rtt`.
    pub(super) fn new(rtt: Duration) -> Self {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        let part = (rtt / PARTS as u64).max(LEAST_PART);
        Self {
            part,
            marks: [0; PARTS],
            passed: 0,
            next: part,
            reached: None,
        }
    }

    /// Records the total bytes sent until an event at `now`, and the rate in bytes per second.
    #[inline]
    pub(super) fn observe(&mut self, now: Instant, sent: u64, rate: Option<u64>) {
        if now.as_nanos() >= self.next
            && self.reached.is_none()
            && let Some(rate) = rate
        {
            self.pass(now.as_nanos(), sent, rate);
        }
    }

    #[cold]
    fn pass(&mut self, now: u64, sent: u64, rate: u64) {
        // Boundaries without events in between are alike, so the rest is known after a whole window
        // of such boundaries.
        let behind = (now - self.next) / self.part;
        let known = 2 * PARTS as u64;
        if behind > known {
            let skipped = behind - known;
            self.passed = self.passed.wrapping_add(skipped);
            self.next += skipped * self.part;
            self.marks = [sent; PARTS];
        }
        let window = u128::from(self.part) * PARTS as u128;
        let possible = u128::from(rate) * window / 1_000_000_000;
        while self.next <= now && self.reached.is_none() {
            let oldest = usize::try_from(self.passed % PARTS as u64).unwrap_or(0);
            let Some(oldest) = self.marks.get_mut(oldest) else {
                return;
            };
            // In the first round trip, the window extends before the start, when nothing was
            // sent.
            let used = u128::from(sent.saturating_sub(*oldest));
            if possible > 0 && used * 5 >= possible * 4 {
                self.reached = Some(Instant::from_nanos(self.next));
            }
            *oldest = sent;
            self.passed = self.passed.wrapping_add(1);
            self.next = self.next.saturating_add(self.part);
        }
    }

    /// When the first such window ended.
    pub(super) fn reached(&self) -> Option<Instant> {
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    /// Sends at a share of the rate (in percent) from each of these times (ms).
    fn reached(shares: &[(u64, u64)]) -> Option<u64> {
        let mut ramp = Ramp::new(Duration::from_millis(160));
        let mut sent = 0;
        for ms in 0..5_000 {
            let share = shares.iter().rev().find(|(from, _)| *from <= ms);
            ramp.observe(Instant::from_millis(ms), sent, Some(RATE));
            sent += RATE / 1000 * share.map_or(0, |(_, percent)| *percent) / 100;
        }
        ramp.reached().map(|at| at.as_nanos() / 1_000_000)
    }

    #[test]
    fn full_rate_counts_after_most_of_a_round_trip() {
        // 0.8 × 160 ms of sending, rounded up to a sixteenth of the window.
        assert_eq!(reached(&[(0, 100)]), Some(130));
        assert_eq!(reached(&[(0, 10), (1_000, 80)]), Some(1_160));
        assert_eq!(reached(&[(0, 79)]), None);
    }

    #[test]
    fn silence_is_skipped() {
        let mut ramp = Ramp::new(Duration::from_millis(160));
        ramp.observe(Instant::from_millis(5), 0, Some(RATE));
        ramp.observe(Instant::from_millis(1_000_000), 2_000, Some(RATE));
        assert_eq!(ramp.reached(), None);
        ramp.observe(Instant::from_millis(1_000_160), 162_000, Some(RATE));
        assert!(ramp.reached().is_some());
        let mut unlimited = Ramp::new(Duration::from_millis(160));
        unlimited.observe(Instant::from_millis(500), 1 << 30, None);
        assert_eq!(unlimited.reached(), None);
    }
}
