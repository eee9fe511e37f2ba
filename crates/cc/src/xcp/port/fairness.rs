//! The fairness controller: who gets what of the aggregate feedback.
//!
//! What is given is split evenly between flows, what is taken in proportion to their bytes; both
//! also contain the *shuffle*, a tenth of the traffic that changes hands in each interval even if
//! the aggregate is zero. One flow's share per packet is C_p·X − C_n·s (draft-falk-xcp-spec-03,
//! section 4.2), and neither pool ever pays out more than it holds.

use super::ratio::Ratio;
use crate::base::arith::PPM;
use crate::xcp::fixed::MOST_RATE_Q16;

/// No rate change, in 2^-16 bytes per second.
const MOST_DELTA: i64 = 1 << 62;

/// What one interval deals out, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pools {
    /// What may still be given.
    positive: u64,
    /// What may still be taken.
    negative: u64,
    /// Given per 2^-40 s of inter-packet time.
    per_x: Ratio,
    /// Taken per byte.
    per_byte: Ratio,
}

/// One packet's settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The rate change to write into its header.
    pub(crate) delta: i64,
    /// This port lowered it.
    pub(crate) bounding: bool,
}

/// The shuffle: `share_ppm` of the traffic less what the aggregate moves anyway, `most` at most.
pub(crate) fn shuffle(share_ppm: u64, input_q16: u64, aggregate: i64, most: u64) -> u64 {
    let share = u128::from(input_q16) * u128::from(share_ppm) / u128::from(PPM);
    crate::base::arith::saturate(share)
        .saturating_sub(aggregate.unsigned_abs())
        .min(most)
}

impl Pools {
    /// Pools for the interval to come, from what the last one measured: `sum_x` in 2^-40 s, `bytes`
    /// of all packets.
    pub(crate) fn new(aggregate: i64, shuffle: u64, sum_x: u128, bytes: u64) -> Self {
        let gain = u64::try_from(aggregate.max(0)).unwrap_or(0);
        let loss = aggregate.min(0).unsigned_abs();
        let positive = shuffle.saturating_add(gain).min(MOST_RATE_Q16);
        let negative = shuffle.saturating_add(loss).min(MOST_RATE_Q16);
        Self {
            positive,
            negative,
            per_x: Ratio::floor(positive, sum_x),
            per_byte: Ratio::ceil(negative, u128::from(bytes)),
        }
    }

    /// `rate` of what could be given is given away otherwise.
    pub(crate) const fn give_less(&mut self, rate: u64) {
        self.positive = self.positive.saturating_sub(rate);
    }

    /// What may still be given.
    pub(crate) const fn positive_left(&self) -> u64 {
        self.positive
    }

    /// Nothing more is given.
    pub(crate) const fn give_nothing(&mut self) {
        self.positive = 0;
    }

    /// What may still be taken.
    pub(crate) const fn negative_left(&self) -> u64 {
        self.negative
    }

    /// What a flow is given per interval whose inter-packet times add up to `x`.
    pub(crate) fn share(&self, x: u64) -> u64 {
        self.per_x.times_floor(x).min(self.positive)
    }

    /// A whole flow's settlement for an interval, for flows without headers: `share` given, taken
    /// for `bytes`. Returns the sum.
    pub(crate) fn settle_flow(&mut self, share: u64, bytes: u64) -> i64 {
        let positive = share.min(self.positive);
        let negative = self.per_byte.times_ceil(bytes).min(self.negative);
        self.positive -= positive;
        self.negative -= negative;
        positive.cast_signed() - negative.cast_signed()
    }

    /// A packet asks, and may have all that is left.
    #[cfg(test)]
    pub(crate) fn settle(&mut self, wanted: i64, x: u64, bytes: u64) -> Settled {
        self.settle_within(wanted, x, bytes, u64::MAX)
    }

    /// A packet with inter-packet time `x`, standing for `bytes`, asks for `wanted`; no more than
    /// `most` is given. [XCP-Linux II-E.2].
    #[inline]
    pub(crate) fn settle_within(&mut self, wanted: i64, x: u64, bytes: u64, most: u64) -> Settled {
        let asked = wanted;
        let wanted = asked.clamp(-MOST_DELTA, MOST_DELTA);
        let mut positive = self.per_x.times_floor(x).min(self.positive.min(most));
        let mut negative = self.per_byte.times_ceil(bytes).min(self.negative);
        let share = positive.cast_signed() - negative.cast_signed();
        let settled = if wanted >= share {
            Settled {
                delta: share.min(asked),
                bounding: true,
            }
        } else {
            // Someone else wants less: what is not given here is taken, as far as there is
            // something to take.
            let short = share.abs_diff(wanted);
            negative = negative.saturating_add(short).min(self.negative);
            let rest = i128::from(wanted) + i128::from(negative);
            positive = u64::try_from(rest.max(0)).unwrap_or(0).min(self.positive);
            Settled {
                delta: asked,
                bounding: false,
            }
        };
        self.positive -= positive.min(self.positive);
        self.negative -= negative.min(self.negative);
        settled
    }
}
