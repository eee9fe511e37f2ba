//! Bounds of rate and window that follow from losses (draft-ietf-ccwg-bbr, "Updating the Model Upon
//! Packet Loss").

use super::params::{BETA, HEADROOM, LOSS_THRESHOLD, UNIT};
use super::rate::RateSample;
use crate::base::arith::mul_div;

/// No bound.
pub(super) const NONE: u64 = u64::MAX;

/// The bounds that losses set, in bytes and bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// `BBR.bw_shortterm`.
    pub(super) rate: u64,
    /// `BBR.inflight_shortterm`.
    pub(super) short: u64,
    /// `BBR.inflight_longterm`.
    pub(super) long: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rate: NONE,
            short: NONE,
            long: NONE,
        }
    }
}

impl Bounds {
    /// `ResetShortTermModel`.
    pub(super) const fn reset_short(&mut self) {
        self.rate = NONE;
        self.short = NONE;
    }

    /// Lowers the short-term bounds after a round trip with loss in which the rate was not raised,
    /// to the latest delivery or 0.7 of the previous bound, whichever is larger.
    pub(super) fn lower(&mut self, max_bw: u64, window: u64, latest: &Latest) {
        let less = |bound: u64, first: u64, delivered: u64| {
            let bound = if bound == NONE { first } else { bound };
            delivered.max(mul_div(bound, BETA, UNIT))
        };
        self.rate = less(self.rate, max_bw, latest.rate);
        self.short = less(self.short, window, latest.delivered);
    }

    /// `InflightWithHeadroom`: the long-term bound minus the part that is left to others.
    pub(super) fn with_headroom(&self, mtu: u64, floor: u64) -> u64 {
        if self.long == NONE {
            return NONE;
        }
        let headroom = mul_div(self.long, HEADROOM, UNIT).max(mtu);
        self.long.saturating_sub(headroom).max(floor)
    }

    /// Raises the bounds to their values before a spurious loss.
    pub(super) fn restore(&mut self, before: &Self) {
        self.rate = self.rate.max(before.rate);
        self.short = self.short.max(before.short);
        self.long = self.long.max(before.long);
    }
}

/// Maxima of the current round trip: `BBR.bw_latest`, `BBR.inflight_latest`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub(super) rate: u64,
    pub(super) delivered: u64,
}

impl Latest {
    pub(super) fn add(&mut self, sample: &RateSample) {
        self.rate = self.rate.max(sample.rate);
        self.delivered = self.delivered.max(sample.delivered);
    }
}

/// `IsInflightTooHigh`: the losses exceed the accepted share.
pub(super) fn too_high(sample: &RateSample) -> bool {
    sample.lost > mul_div(sample.tx_in_flight, LOSS_THRESHOLD, UNIT)
}

/// Finds the first of `packets` packets, lost together, at which losses cross the threshold.
/// `oldest` and `newest` are the samples of the first and the last packet, between which packets
/// are assumed to be evenly spread.
pub(super) fn crossing(
    oldest: &RateSample,
    newest: &RateSample,
    packets: u64,
) -> Option<RateSample> {
    let steps = packets.saturating_sub(1).max(1);
    let between = |from: u64, to: u64, step: u64| {
        let part = mul_div(from.abs_diff(to), step, steps);
        if to >= from {
            from.saturating_add(part)
        } else {
            from - part
        }
    };
    let at = |step| RateSample {
        lost: between(oldest.lost, newest.lost, step),
        tx_in_flight: between(oldest.tx_in_flight, newest.tx_in_flight, step),
        ..*newest
    };
    if too_high(&at(0)) {
        return Some(at(0));
    }
    // Both values change evenly, so losses remain too high after the crossing.
    let (mut few, mut many) = (0, steps);
    if !too_high(&at(many)) {
        return None;
    }
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if too_high(&at(middle)) {
            many = middle;
        } else {
            few = middle;
        }
    }
    Some(at(many))
}

/// `InflightAtLoss`: the bytes in flight at which losses crossed the threshold with a packet of
/// `bytes` bytes.
pub(super) fn in_flight_at_loss(sample: &RateSample, bytes: u64) -> u64 {
    let before = sample.tx_in_flight.saturating_sub(bytes);
    let lost_before = sample.lost.saturating_sub(bytes);
    // (LossThresh · before − lost before) / (1 − LossThresh), in hundredths.
    let accepted = mul_div(before, LOSS_THRESHOLD, 1);
    let lost = lost_before.saturating_mul(UNIT);
    before.saturating_add(accepted.saturating_sub(lost) / (UNIT - LOSS_THRESHOLD))
}
