//! Limits grants to new flows, and shuffles more for them.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::PPM;

/// All new flows together may get this part of the positive feedback.
const PART: u64 = 4;
/// New flows count as young if they send this part of the bytes.
const BYTES: u64 = 64;
/// Number of intervals during which flows count as young.
pub(super) const YOUNG_INTERVALS: u32 = 8;
/// While flows are young, this multiple of the usual share is shuffled.
const YOUNG_SHUFFLE: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomers {
    /// Positive feedback left for new flows in the current interval, in 2^-16 bytes per second.
    left: u64,
    /// Bytes that new flows sent in this interval.
    bytes: u64,
    /// Number of intervals for which flows still count as young.
    young: u32,
}

impl Newcomers {
    pub(crate) const fn new() -> Self {
        Self {
            left: u64::MAX,
            bytes: 0,
            young: 0,
        }
    }

    /// Starts an interval that may give `positive`; `None`: all flows are new.
    pub(crate) const fn begin(&mut self, positive: Option<u64>) {
        self.left = match positive {
            Some(positive) => positive / PART,
            None => u64::MAX,
        };
    }

    #[inline]
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Records that a new flow was given `delta`.
    #[inline]
    pub(crate) const fn take(&mut self, delta: i64) {
        if delta > 0 {
            self.left = self.left.saturating_sub(delta.unsigned_abs());
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
    }

    pub(crate) const fn are_young(&self) -> bool {
        self.young > 0
    }

    /// The part of the traffic to shuffle after an interval of `bytes`, in 10^-6; normally `usual`.
    /// It is larger while new flows send part of the traffic, so that short flows get a fair share
    /// before they end.
    pub(crate) fn shuffle_ppm(&mut self, bytes: u64, usual: u64) -> u64 {
        self.young = self.young.saturating_sub(1);
        let new = core::mem::take(&mut self.bytes);
        if new > 0 && new >= bytes / BYTES && !without(Mechanism::Newcomers) {
            self.young = YOUNG_INTERVALS;
        }
        if self.young > 0 {
            usual.max((usual * YOUNG_SHUFFLE).min(PPM / 2))
        } else {
            usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_dealt_out_anew_while_flows_are_young() {
        let mut newcomers = Newcomers::new();
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000);
        newcomers.count(1500);
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000, "too few");
        newcomers.count(15_000);
        for _ in 0..YOUNG_INTERVALS {
            assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 300_000);
        }
        assert_eq!(newcomers.shuffle_ppm(100_000, 100_000), 100_000);
    }
}
