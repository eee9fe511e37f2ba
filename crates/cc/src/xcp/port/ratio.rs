//! A quotient by which many numbers are multiplied, so that only one division per interval is
//! necessary, and a multiplication and a shift per packet.

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
    #[inline]
    pub(crate) fn times_floor(self, factor: u64) -> u64 {
        let product = u128::from(factor) * u128::from(self.mantissa);
        crate::base::arith::saturate(product >> self.shift)
    }

    /// `factor` times the ratio, rounded up, saturating.
    #[inline]
    pub(crate) fn times_ceil(self, factor: u64) -> u64 {
        let product = u128::from(factor) * u128::from(self.mantissa);
        let whole = product >> self.shift;
        let rest = u128::from(whole << self.shift != product);
        crate::base::arith::saturate(whole + rest)
    }
}

#[cfg(test)]
mod tests {
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
