//! Recent usage of a port.

use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::quick_start::{SAMPLE, SAMPLES, SHARE};

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
    pub(crate) fn add(&mut self, now: Instant, bytes: u64) {
        if ns_since(now, self.started) >= nanos(SAMPLE) {
            self.turn(now);
        }
        self.add_to_sample(bytes);
    }

    /// Adds `bytes` before the current sample [ends](Self::sample_ends).
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

// Rate that a router approves (RFC 4782 §3.3 and appendix D).
//
// As in ns-2, the RFC's two limits have the same share: on the rate in use when a request is
// examined, and on the total approved rate.

/// Returns the approved rate for a request of `asked`, or 0. `used` is the rate used at the busiest
/// recent time, and `pending` has been approved but not seen yet. All rates are in bytes per
/// second.
pub(crate) fn approve(capacity: u64, used: u64, pending: u64, asked: u64) -> u64 {
    let taken = used.saturating_add(pending);
    asked.min(mul_div(capacity, SHARE.0, SHARE.1).saturating_sub(taken))
}

#[cfg(test)]
mod approval_tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the rate of RFC 4782's code N in bits per second (§3.1).
    fn rate(n: u32) -> u64 {
        if n == 0 { 0 } else { 40_000 << n }
    }

    /// Returns the largest code whose rate is at most `bits`.
    fn down(bits: u64) -> u32 {
        (0..=15).rev().find(|&n| rate(n) <= bits).unwrap_or(0)
    }

    /// Returns the smallest code whose rate is at least `bits`, or the largest code.
    fn up(bits: u64) -> u32 {
        (0..=15).find(|&n| rate(n) >= bits).unwrap_or(15)
    }

    #[test]
    fn the_code_of_the_rfc() {
        for (bits, floor, ceiling) in [
            (79_999, 0, 1),
            (80_000, 1, 1),
            (80_001, 1, 2),
            (100_000_000, 11, 12),
            (1_000_000_000, 14, 15),
            (1_310_720_000, 15, 15),
            (u64::MAX, 15, 15),
        ] {
            assert_eq!((down(bits), up(bits)), (floor, ceiling), "{bits}");
        }
    }

    /// The values are capacity, percentage in use, bits per second approved recently, requested
    /// code, and approved code.
    #[test]
    fn known_answers() {
        for (capacity, percent, recent, asked, approved) in [
            (1_000_000_000, 0, 0, 15, 14),
            (1_000_000_000, 20, 0, 15, 13),
            (1_000_000_000, 20, 327_680_000, 15, 12),
            (1_000_000_000, 20, 655_360_000, 15, 0),
            (100_000_000, 50, 0, 10, 9),
            (100_000_000, 50, 20_000_000, 10, 8),
        ] {
            let used = capacity / 100 * percent;
            let got = approve(capacity / 8, used / 8, recent / 8, rate(asked) / 8);
            assert_eq!(down(got * 8), approved, "{capacity} {percent} {recent}");
        }
    }

    #[test]
    fn a_port_at_the_threshold_denies() {
        assert_eq!(approve(1000, 850, 0, 500), 0);
        assert_eq!(approve(1000, 849, 0, 500), 1);
        assert_eq!(approve(1000, 0, 850, 500), 0);
        assert_eq!(approve(0, 0, 0, 500), 0);
    }

    proptest! {
        #[test]
        fn never_above_what_is_asked_or_free(
            capacity in 0..1u64 << 40,
            used: u64,
            pending: u64,
            asked: u64,
        ) {
            let got = approve(capacity, used, pending, asked);
            prop_assert!(got <= asked);
            if got > 0 {
                let all = u128::from(used) + u128::from(pending) + u128::from(got);
                prop_assert!(all * 100 <= u128::from(capacity) * 85);
            }
        }
    }
}

// Share of granted rates that is used.
//
// Anyone can send a request with any source address. Therefore grants only count as input of the
// port's law in proportion to the share that flows have recently used. A source that asks without
// ever sending keeps others from getting grants, but only reduces their rates for a few requests.

/// One in 10^-6.
const ALL: u64 = 1_000_000;
/// Each grant moves the mean by this part of the difference.
const PART: u64 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantUtilization {
    ppm: u64,
}

impl GrantUtilization {
    pub(crate) const fn new() -> Self {
        Self { ppm: ALL }
    }

    pub(crate) fn part(&self, rate: u64) -> u64 {
        mul_div(rate, self.ppm, ALL)
    }

    pub(crate) const fn on_used(&mut self) {
        self.ppm += (ALL - self.ppm) / PART;
    }

    pub(crate) const fn on_unused(&mut self) {
        self.ppm -= self.ppm / PART;
    }
}

#[cfg(test)]
mod utilization_tests {
    use super::*;

    #[test]
    fn what_is_used_counts_and_what_is_not_soon_does_not() {
        let mut kept = GrantUtilization::new();
        assert_eq!(kept.part(1000), 1000);
        for _ in 0..20 {
            kept.on_unused();
        }
        assert!(kept.part(1000) < 5);
        for _ in 0..20 {
            kept.on_used();
        }
        assert!(kept.part(1000) > 990);
    }
}
