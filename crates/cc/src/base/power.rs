//! Powers with fractional exponents, in integers: `g^x − 1` as `expm1(x · ln g)`.

/// 1.0 in fixed point: 2^60 (Q60).
pub(crate) const ONE: u128 = 1 << BITS;
const BITS: u32 = 60;

/// ln 2 in Q60.
const LN_2: u128 = 799_144_290_325_165_979;

/// Largest exponent accepted by [`expm1`], in Q60; e^7 is 1,096.6.
pub(crate) const MAX_EXPONENT: u128 = 7 * ONE;

/// Results of [`expm1`] are rounded to the nearest multiple of 2^-44, so that powers up to 101 that
/// are multiples in theory are returned exactly (ε is at most 100).
const ROUNDED_BITS: u32 = 16;

/// Returns ln(1 + num / den) in Q60. `num` saturates at 2^64 − 1, and a `den` of 0 counts as 1.
pub(crate) fn ln1p(num: u128, den: u128) -> u128 {
    let mut x = ONE + (num.min(u128::from(u64::MAX)) << BITS) / den.max(1);
    let mut doublings = 0;
    while x >= 2 * ONE {
        x >>= 1;
        doublings += 1;
    }
    // ln x = 2 artanh((x − 1) / (x + 1)), where the quotient is at most 1/3.
    let z = ((x - ONE) << BITS) / (x + ONE);
    let square = (z * z) >> BITS;
    let (mut power, mut odd, mut sum) = (z, 1, 0);
    while power > 0 {
        sum += power / odd;
        power = (power * square) >> BITS;
        odd += 2;
    }
    2 * sum + doublings * LN_2
}

/// Returns e^y − 1 for `y`, both in Q60. `y` saturates at [`MAX_EXPONENT`].
pub(crate) fn expm1(y: u128) -> u128 {
    // Use the series of e^z − 1 for z ≤ 1/4, followed by the required doublings of the exponent:
    // with m = e^z − 1, e^2z − 1 = 2m + m².
    let (mut z, mut doublings) = (y.min(MAX_EXPONENT), 0);
    while z > ONE / 4 {
        z >>= 1;
        doublings += 1;
    }
    let (mut term, mut n, mut m) = (z, 1, 0);
    while term > 0 {
        m += term;
        n += 1;
        term = ((term * z) >> BITS) / n;
    }
    for _ in 0..doublings {
        m = 2 * m + square(m);
    }
    ((m + (1 << (ROUNDED_BITS - 1))) >> ROUNDED_BITS) << ROUNDED_BITS
}

/// Returns `a²` in Q60 for `a` below 2^14.
const fn square(a: u128) -> u128 {
    let (whole, part) = (a >> BITS, a & (ONE - 1));
    ((whole * whole) << BITS) + 2 * whole * part + ((part * part) >> BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn float(q60: u128) -> f64 {
        q60 as f64 / ONE as f64
    }

    #[test]
    fn logarithms_of_corners() {
        assert_eq!(ln1p(0, 1), 0);
        assert_eq!(ln1p(1, 1), LN_2);
        assert_eq!(ln1p(3, 1), 2 * LN_2);
        assert_eq!(ln1p(1, 0), LN_2);
        assert_eq!(ln1p(u128::MAX, 1), ln1p(u128::from(u64::MAX), 1));
    }

    /// Whole results are exact, regardless of the number of doublings.
    #[test]
    fn whole_results_are_exact() {
        assert_eq!(expm1(0), 0);
        for whole in 1..=100 {
            assert_eq!(expm1(ln1p(whole, 1)), whole * ONE, "1 + {whole}");
        }
        assert_eq!(expm1(ln1p(62_500, 1_000_000)), ONE / 16);
        assert_eq!(expm1(2 * ln1p(62_500, 1_000_000)), ONE / 8 + ONE / 256);
        assert_eq!(expm1(u128::MAX), expm1(MAX_EXPONENT));
    }

    proptest! {
        #[test]
        fn logarithms_follow_the_oracle(num in any::<u64>(), shift in 0u32..64, den in 1u64..) {
            let num = num >> shift;
            let got = float(ln1p(num.into(), den.into()));
            let exact = (num as f64 / den as f64).ln_1p();
            prop_assert!((got - exact).abs() <= exact * 1e-15 + 2f64.powi(-54), "{got} {exact}");
        }

        #[test]
        fn exponentials_follow_the_oracle(y in 0..MAX_EXPONENT, shift in 0u32..60) {
            let y = y >> shift;
            let got = float(expm1(y));
            let exact = float(y).exp_m1();
            prop_assert!((got - exact).abs() <= exact * 1e-14 + 2f64.powi(-45), "{got} {exact}");
        }

        #[test]
        fn both_rise(
            y in 0..MAX_EXPONENT,
            num in any::<u64>(),
            den in 1u64..,
            more in any::<u64>(),
        ) {
            prop_assert!(expm1(y) <= expm1(y + u128::from(more)));
            let (num, more) = (u128::from(num), u128::from(more));
            prop_assert!(ln1p(num, den.into()) <= ln1p(num + more, den.into()));
        }
    }
}
