//! The fairness controller: how the aggregate feedback is divided between flows.
//!
//! Positive feedback is split evenly between flows, and negative feedback in proportion to their
//! bytes. Both also contain the *shuffle*, a tenth of the traffic that is redistributed in each
//! interval even if the aggregate is zero. One flow's share per packet is C_p·X − C_n·s
//! (draft-falk-xcp-spec-03, section 4.2), and neither pool ever pays out more than it holds.

use super::ratio::Ratio;
use crate::base::arith::PPM;
use crate::xcp::fixed::MOST_RATE_Q16;

/// Largest absolute rate change, in 2^-16 bytes per second.
const MOST_DELTA: i64 = 1 << 62;

/// The feedback to distribute in one interval, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pools {
    /// The rate that can still be given.
    positive: u64,
    /// The rate that can still be taken.
    negative: u64,
    /// Given per 2^-40 s of inter-packet time.
    per_x: Ratio,
    /// Taken per byte.
    per_byte: Ratio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The rate change to write into the header.
    pub(crate) delta: i64,
    /// This port limits the packet's feedback.
    pub(crate) bounding: bool,
}

/// The shuffle: `share_ppm` of the traffic minus the rate that the aggregate moves anyway, up to
/// `most`.
pub(crate) fn shuffle(share_ppm: u64, input_q16: u64, aggregate: i64, most: u64) -> u64 {
    let share = u128::from(input_q16) * u128::from(share_ppm) / u128::from(PPM);
    crate::base::arith::saturate(share)
        .saturating_sub(aggregate.unsigned_abs())
        .min(most)
}

impl Pools {
    /// Creates the pools of the next interval from measurements of the last interval: `sum_x` in
    /// 2^-40 s, and `bytes` of all packets.
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

    /// Removes `rate` from the positive pool because it was given away otherwise.
    pub(crate) const fn give_less(&mut self, rate: u64) {
        self.positive = self.positive.saturating_sub(rate);
    }

    pub(crate) const fn positive_left(&self) -> u64 {
        self.positive
    }

    pub(crate) const fn give_nothing(&mut self) {
        self.positive = 0;
    }

    pub(crate) const fn negative_left(&self) -> u64 {
        self.negative
    }

    /// The grant per interval to a flow whose inter-packet times add up to `x`.
    pub(crate) fn share(&self, x: u64) -> u64 {
        self.per_x.times_floor(x).min(self.positive)
    }

    /// Settles a whole interval for a flow without headers: gives `share` and takes the part for
    /// `bytes`. Returns the sum.
    pub(crate) fn settle_flow(&mut self, share: u64, bytes: u64) -> i64 {
        let positive = share.min(self.positive);
        let negative = self.per_byte.times_ceil(bytes).min(self.negative);
        self.positive -= positive;
        self.negative -= negative;
        positive.cast_signed() - negative.cast_signed()
    }

    /// Settles a packet that may have everything that is left.
    #[cfg(test)]
    pub(crate) fn settle(&mut self, wanted: i64, x: u64, bytes: u64) -> Settled {
        self.settle_within(wanted, x, bytes, u64::MAX)
    }

    /// Settles a packet with inter-packet time `x` that stands for `bytes` bytes and requests
    /// `wanted`, giving `most` at most. [XCP-Linux II-E.2].
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
            // Another hop or the sender wants less. The difference counts as taken instead, as far
            // as the negative pool suffices.
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
