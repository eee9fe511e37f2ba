//! What a port's link could carry in an interval in which its capacity may change.

use crate::Duration;
use crate::arith::{micros, saturate};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// Bytes per second.
    now: u64,
    /// How far into the interval that has been so, in µs.
    since_us: u64,
    /// ∫C dt up to there, in bytes per second times µs.
    before: u128,
}

impl Offered {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            now: bytes_per_second.max(1),
            since_us: 0,
            before: 0,
        }
    }

    /// An interval begins.
    pub(crate) const fn begin(&mut self) {
        self.since_us = 0;
        self.before = 0;
    }

    /// ∫C dt over the interval's first `length`, if nothing changes any more.
    pub(crate) fn total(&self, length: Duration) -> u128 {
        let left = micros(length).saturating_sub(self.since_us);
        (self.before + u128::from(self.now) * u128::from(left)).max(1)
    }

    /// Its mean over the interval's first `length`, in bytes per second.
    pub(crate) fn mean(&self, length: Duration) -> u64 {
        saturate(self.total(length) / u128::from(micros(length).max(1)))
    }

    /// `elapsed` after the interval's begin it changes. True if it does.
    pub(crate) fn change(&mut self, elapsed: Duration, bytes_per_second: u64) -> bool {
        let next = bytes_per_second.max(1);
        if next == self.now {
            return false;
        }
        self.before = self.total(elapsed);
        self.since_us = micros(elapsed).max(self.since_us);
        self.now = next;
        true
    }
}
