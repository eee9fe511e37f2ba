//! The two controllers: the efficiency controller calculates the aggregate feedback of an interval,
//! and the fairness controller divides it between flows.
//!
//! Positive feedback is split evenly between flows, and negative feedback in proportion to their
//! bytes. Both also contain the *shuffle*, a tenth of the traffic that is redistributed in each
//! interval even if the aggregate is zero. One flow's share per packet is C_p·X − C_n·s
//! (draft-falk-xcp-spec-03, section 4.2), and neither pool ever pays out more than it holds.

use crate::base::arith::PPM;
use crate::xcp::params::{MOST_RATE_Q16, RATE_BITS, XcpLinkParams, rate_q16};

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

// The efficiency controller: by how much the total traffic should change.
//
// F = α·(C − y) − β·q/d (Katabi et al., eq. 1, in the rate form), with the arrival rate y, the
// persistent queue q, and the mean RTT d. The table in the docs of `xcp` gives the bounds. If the
// capacity varies, q is the part of the queue beyond the wanted queue.

/// [XCP-i II-A controller]: the aggregate feedback in 2^-16 bytes per second, from capacity and
/// input rate (2^-16 bytes per second), persistent and wanted queue (bytes), and mean RTT (µs).
pub(crate) fn aggregate(
    params: &XcpLinkParams,
    capacity_q16: u64,
    input_q16: u64,
    queue: u64,
    wanted: u64,
    mean_rtt_us: u64,
) -> i64 {
    let ppm = i128::from(PPM);
    let spare = i128::from(capacity_q16) - i128::from(input_q16);
    let given = (i128::from(params.alpha_ppm) * spare).div_euclid(ppm);
    let queue_q16 = (i128::from(queue) - i128::from(wanted)) << RATE_BITS;
    // The 10^-6 of β and the µs of the RTT cancel.
    let taken = i128::from(params.beta_ppm) * queue_q16 / i128::from(mean_rtt_us.max(1));
    let most = i128::from(MOST_RATE_Q16);
    i64::try_from((given - taken).clamp(-most, most)).unwrap_or(0)
}

/// The rate, in 2^-16 bytes per second, that fills a buffer of `bytes` in one mean RTT.
pub(crate) fn absorbed_q16(bytes: u64, mean_rtt_us: u64) -> u64 {
    rate_q16(bytes, mean_rtt_us.saturating_mul(1_000))
}

// A quotient by which many numbers are multiplied, so that only one division per interval is
// necessary, and a multiplication and a shift per packet.

/// A ratio in floating form: a mantissa of 63 significant bits and a shift, rounded to one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratio {
    mantissa: u64,
    shift: u32,
}

const BITS: u32 = 63;

impl Ratio {
    /// `num / den`, rounded down; 0 if `den` is 0. `num` must be below 2^63.
    pub(crate) fn floor(num: u64, den: u128) -> Self {
        Self::new(num, den, |wide, den| wide / den)
    }

    /// `num / den`, rounded up; 0 if `den` is 0. `num` must be below 2^63.
    pub(crate) fn ceil(num: u64, den: u128) -> Self {
        Self::new(num, den, u128::div_ceil)
    }

    fn new(num: u64, den: u128, divide: impl FnOnce(u128, u128) -> u128) -> Self {
        if num == 0 || den == 0 {
            return Self::default();
        }
        let num_bits = u64::BITS - num.leading_zeros();
        let den_bits = u128::BITS - den.leading_zeros();
        // The quotient then has BITS - 1 or BITS bits, as far as the numerator can be shifted.
        let shift = (BITS - 1 + den_bits)
            .saturating_sub(num_bits)
            .min(u128::BITS - 1 - num_bits);
        let quotient = divide(u128::from(num) << shift, den);
        Self {
            mantissa: u64::try_from(quotient).unwrap_or(u64::MAX),
            shift,
        }
    }

    /// `factor` times the ratio, rounded down, saturating.
    pub(crate) fn times_floor(self, factor: u64) -> u64 {
        let product = u128::from(factor) * u128::from(self.mantissa);
        crate::base::arith::saturate(product >> self.shift)
    }

    /// `factor` times the ratio, rounded up, saturating.
    pub(crate) fn times_ceil(self, factor: u64) -> u64 {
        let product = u128::from(factor) * u128::from(self.mantissa);
        let whole = product >> self.shift;
        let rest = u128::from(whole << self.shift != product);
        crate::base::arith::saturate(whole + rest)
    }
}

#[cfg(test)]
mod ratio_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_times_anything_is_nothing() {
        let zero = [Ratio::default(), Ratio::floor(0, 5), Ratio::floor(5, 0)];
        for ratio in zero.into_iter().chain([Ratio::ceil(5, 0)]) {
            assert_eq!(ratio.times_floor(u64::MAX), 0);
            assert_eq!(ratio.times_ceil(u64::MAX), 0);
        }
    }

    proptest! {
        /// The result is never on the wrong side of the exact quotient, and differs from it by at
        /// most one unit or a relative error of 2^-57.
        #[test]
        fn brackets_the_exact_quotient(
            num in 1u64..1 << 62, num_shift in 0u32..62,
            den in 1u128..1 << 70, den_shift in 0u32..70,
            factor in any::<u64>(), factor_shift in 18u32..64,
        ) {
            let (num, den) = ((num >> num_shift).max(1), (den >> den_shift).max(1));
            let factor = factor >> factor_shift;
            let product = u128::from(num) * u128::from(factor);
            let (low, high) = (product / den, product.div_ceil(den));
            let floor = u128::from(Ratio::floor(num, den).times_floor(factor));
            let ceil = u128::from(Ratio::ceil(num, den).times_ceil(factor));
            let most = u128::from(u64::MAX);
            let slack = 1 + (low >> 57);
            prop_assert!(floor <= low && floor + slack >= low.min(most), "{floor} {low}");
            prop_assert!(ceil >= high.min(most) && ceil <= high + slack, "{ceil} {high}");
        }
    }
}
