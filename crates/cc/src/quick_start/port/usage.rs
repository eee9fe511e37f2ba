//! Recent usage of a port.

use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::quick_start::params::{SAMPLE, SAMPLES};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    started: Instant,
    bytes: u64,
    past: [u64; SAMPLES],
    next: usize,
}

impl Usage {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            started: now,
            bytes: 0,
            past: [0; SAMPLES],
            next: 0,
        }
    }

    /// Adds `bytes` that have arrived.
    #[inline]
    pub(crate) fn add(&mut self, now: Instant, bytes: u64) {
        if ns_since(now, self.started) >= nanos(SAMPLE) {
            self.turn(now);
        }
        self.add_to_sample(bytes);
    }

    /// Adds `bytes` before the current sample [ends](Self::sample_ends).
    #[inline]
    pub(crate) const fn add_to_sample(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn sample_ends(&self) -> Instant {
        self.started + SAMPLE
    }

    /// Ends samples whose time has passed. All counted bytes belong to the first such sample.
    #[cold]
    fn turn(&mut self, now: Instant) {
        let passed = ns_since(now, self.started) / nanos(SAMPLE);
        // One step more than there are samples also removes the first one again.
        for _ in 0..passed.min(SAMPLES as u64 + 1) {
            if let Some(slot) = self.past.get_mut(self.next) {
                *slot = core::mem::take(&mut self.bytes);
            }
            self.next = (self.next + 1) % SAMPLES;
        }
        self.bytes = 0;
        let later = Duration::from_nanos(passed.saturating_mul(nanos(SAMPLE)));
        self.started += later;
    }

    /// Returns the rate of the busiest sample in bytes per second.
    pub(crate) fn peak(&mut self, now: Instant) -> u64 {
        self.add(now, 0);
        let most = self.past.iter().fold(self.bytes, |most, &b| most.max(b));
        mul_div(most, 1_000_000_000, nanos(SAMPLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn the_busiest_second_counts_and_fades() {
        let mut usage = Usage::new(at(0));
        assert_eq!(usage.peak(at(0)), 0);
        usage.add(at(10), 1000);
        assert_eq!(usage.peak(at(20)), 5000);
        usage.add(at(210), 300);
        assert_eq!(usage.peak(at(390)), 5000);
        assert_eq!(usage.peak(at(1199)), 5000);
        assert_eq!(usage.peak(at(1200)), 1500);
        assert_eq!(usage.peak(at(1400)), 0);
        // A pause of many hours is processed in one step.
        usage.add(at(1500), 1000);
        assert_eq!(usage.peak(at(100_000_000)), 0);
        assert_eq!(usage.peak(Instant::FAR_FUTURE), 0);
    }
}
