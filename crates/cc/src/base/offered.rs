//! What a port's link could carry in an interval in which its capacity may change.

use super::arith::{micros, saturate};
use super::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// Bytes per second.
    now: u64,
    /// How far into the interval that has been so, in µs.
    since_us: u64,
    /// ∫C dt up to there, in bytes per second times µs.
    before: u128,
    /// How long of that the link was away, in µs.
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

    /// An interval begins.
    pub(crate) const fn begin(&mut self) {
        self.since_us = 0;
        self.before = 0;
        self.away_us = 0;
    }

    /// ∫C dt over the interval's first `length`, if nothing changes any more.
    pub(crate) fn total(&self, length: Duration) -> u128 {
        let left = micros(length).saturating_sub(self.since_us);
        (self.before + u128::from(self.now) * u128::from(left)).max(1)
    }

    /// Its mean over the interval's first `length`, in bytes per second. Time without a link does
    /// not count: an interruption does not make the link slower.
    pub(crate) fn mean(&self, length: Duration) -> u64 {
        let there = micros(length).saturating_sub(self.away(length));
        let mean = self.total(length).checked_div(u128::from(there));
        mean.map_or(self.now, saturate)
    }

    /// How long of the interval's first `length` the link was away, in µs.
    fn away(&self, length: Duration) -> u64 {
        if self.now > 1 {
            return self.away_us;
        }
        self.away_us + micros(length).saturating_sub(self.since_us)
    }

    /// `elapsed` after the interval's begin it changes. True if it does.
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
        // 100 ms of 1000, 200 ms without, and 300 ms of 500 bytes per second.
        assert!(offered.change(millis(100), 0));
        assert!((1000..=1002).contains(&offered.mean(millis(200))));
        assert!(offered.change(millis(300), 500));
        assert_eq!(offered.total(millis(600)) / 1_000_000, 250);
        assert_eq!(offered.mean(millis(600)), (100 * 1000 + 300 * 500) / 400);
        // It is away all the time.
        offered.change(millis(600), 0);
        offered.begin();
        assert_eq!(offered.mean(millis(1000)), 1);
    }
}
