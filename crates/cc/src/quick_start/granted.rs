//! Granted rates whose traffic hasn't begun, as bytes in the current interval of a port's law.
//!
//! A rate granted at any time in an interval counts for the whole interval, so that flows that only
//! receive the load later don't take the same capacity.

use crate::base::Instant;
use crate::base::arith::{mul_div, ns_since};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// Bytes per second.
    rate: u64,
    /// Bytes in the interval until `since`.
    bytes: u64,
    since: Instant,
}

impl Granted {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            rate: 0,
            bytes: 0,
            since: now,
        }
    }

    #[inline]
    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Adds a grant of `rate` in an interval that began at `started`.
    pub(crate) fn add(&mut self, now: Instant, started: Instant, rate: u64) {
        self.settle(now);
        self.rate = self.rate.saturating_add(rate);
        self.bytes = self.bytes.saturating_add(worth(rate, started, now));
    }

    /// Removes `rate`, because its traffic has begun or won't.
    pub(crate) fn take(&mut self, now: Instant, rate: u64) {
        self.settle(now);
        self.rate = self.rate.saturating_sub(rate);
    }

    /// Removes bytes of a `rate` whose traffic seemed to begin at `began`, but is missing. In the
    /// current interval, which began at `started`, it no longer counts.
    pub(crate) fn forget(&mut self, began: Instant, started: Instant, rate: u64) {
        self.bytes = self.bytes.saturating_sub(worth(rate, started, began));
    }

    fn settle(&mut self, now: Instant) {
        self.bytes = self.until(now);
        self.since = now;
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.bytes = 0;
        self.since = now;
    }

    /// Returns the bytes in the interval until `end`.
    #[inline]
    pub(crate) fn until(&self, end: Instant) -> u64 {
        if self.rate == 0 {
            return self.bytes;
        }
        let more = worth(self.rate, self.since, end);
        self.bytes.saturating_add(more)
    }
}

fn worth(rate: u64, from: Instant, to: Instant) -> u64 {
    mul_div(rate, ns_since(to, from), 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_grant_counts_for_the_whole_interval_until_it_comes() {
        let mut granted = Granted::new(at(0));
        granted.begin(at(1000));
        assert_eq!(granted.until(at(1500)), 0);
        granted.add(at(1800), at(1000), 10_000);
        assert_eq!(granted.until(at(1800)), 8_000);
        assert_eq!(granted.until(at(2000)), 10_000);
        granted.add(at(1900), at(1000), 1_000);
        assert_eq!(granted.until(at(2000)), 11_000);
        granted.begin(at(2000));
        assert_eq!(granted.until(at(2100)), 1_100);
        granted.take(at(2100), 10_000);
        assert_eq!((granted.rate(), granted.until(at(2200))), (1_000, 1_200));
        granted.take(at(2200), 5_000);
        granted.begin(at(3000));
        assert_eq!((granted.rate(), granted.until(at(4000))), (0, 0));
    }

    #[test]
    fn what_does_not_come_after_all_counts_for_nothing() {
        let mut granted = Granted::new(at(0));
        granted.begin(at(1000));
        granted.add(at(1100), at(1000), 10_000);
        granted.add(at(1100), at(1000), 1_000);
        granted.take(at(1200), 10_000);
        assert_eq!(granted.until(at(1300)), 2_000 + 300);
        granted.forget(at(1200), at(1000), 10_000);
        assert_eq!(granted.until(at(1300)), 300);
        // It counted in an earlier interval.
        granted.begin(at(2000));
        granted.forget(at(1200), at(2000), 10_000);
        assert_eq!(granted.until(at(2100)), 100);
    }
}
