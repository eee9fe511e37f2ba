//! Bytes that a port's link could carry in an interval in which its capacity may change.

use super::arith::{micros, saturate};
use super::time::Duration;

/// Integral of the capacity over an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// Bytes per second.
    now: u64,
    /// Time in the interval since which this is the capacity, in µs.
    since_us: u64,
    /// ∫C dt until then, in bytes per second times µs.
    before: u128,
    /// Part of that time for which the link was away, in µs.
    away_us: u64,
}

impl Offered {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            now: bytes_per_second.max(1),
            since_us: 0,
            before: 0,
            away_us: 0,
        }
    }

    pub(crate) const fn begin(&mut self) {
        self.since_us = 0;
        self.before = 0;
        self.away_us = 0;
    }

    /// Returns ∫C dt over the interval's first `length`, assuming no further changes.
    pub(crate) fn total(&self, length: Duration) -> u128 {
        let left = micros(length).saturating_sub(self.since_us);
        (self.before + u128::from(self.now) * u128::from(left)).max(1)
    }

    /// Returns the mean capacity over the interval's first `length`, in bytes per second. Time
    /// without a link doesn't count, because an interruption doesn't make the link slower.
    pub(crate) fn mean(&self, length: Duration) -> u64 {
        let there = micros(length).saturating_sub(self.away(length));
        let mean = self.total(length).checked_div(u128::from(there));
        mean.map_or(self.now, saturate)
    }

    /// Returns for how long the link was away in the interval's first `length`, in µs.
    fn away(&self, length: Duration) -> u64 {
        if self.now > 1 {
            return self.away_us;
        }
        self.away_us + micros(length).saturating_sub(self.since_us)
    }

    /// Changes the capacity `elapsed` after the interval's beginning. Returns false if it is the
    /// same.
    pub(crate) fn change(&mut self, elapsed: Duration, bytes_per_second: u64) -> bool {
        let next = bytes_per_second.max(1);
        if next == self.now {
            return false;
        }
        self.away_us = self.away(elapsed);
        self.before = self.total(elapsed);
        self.since_us = micros(elapsed).max(self.since_us);
        self.now = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_link_does_not_count() {
        let millis = Duration::from_millis;
        let mut offered = Offered::new(1000);
        offered.begin();
        // 100 ms with 1000 bytes per second, 200 ms without a link, and 300 ms with 500 bytes per
        // second.
        assert!(offered.change(millis(100), 0));
        assert!((1000..=1002).contains(&offered.mean(millis(200))));
        assert!(offered.change(millis(300), 500));
        assert_eq!(offered.total(millis(600)) / 1_000_000, 250);
        assert_eq!(offered.mean(millis(600)), (100 * 1000 + 300 * 500) / 400);
        // The link is away all the time.
        offered.change(millis(600), 0);
        offered.begin();
        assert_eq!(offered.mean(millis(1000)), 1);
    }
}
