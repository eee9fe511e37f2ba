//! Exact integer arithmetic: wide products, carried remainders, and an integer cube root.

use super::time::{Duration, Instant};

/// A million: the unit of shares in configuration, and µs per second.
pub(crate) const PPM: u64 = 1_000_000;

/// Maximum for any window, queue or byte count: 2^57 bytes, over a thousand times the bytes sent in
/// 65.5 s at 1 TB/s.
pub(crate) const MAX_BYTES: u64 = 1 << 57;

/// Returns `a * b / c`, rounded down and saturating. If `c` is 0, it counts as 1.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c.max(1),
        None => saturate(u128::from(a) * u128::from(b) / u128::from(c.max(1))),
    }
}

/// Returns `wide` as u64, saturating.
pub(crate) fn saturate(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Returns `wide / divisor` and the remainder, using 64-bit division if both fit.
pub(crate) fn div_rem(wide: u128, divisor: u128) -> (u64, u128) {
    let divisor = divisor.max(1);
    match (u64::try_from(wide), u64::try_from(divisor)) {
        (Ok(wide), Ok(divisor)) => (wide / divisor, u128::from(wide % divisor)),
        (_, Ok(divisor)) => {
            let divisor = u128::from(divisor);
            (saturate(wide / divisor), wide % divisor)
        }
        _ => (saturate(wide / divisor), wide % divisor),
    }
}

/// A sum of quotients that keeps remainders, so that many small shares add up without bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carry(u128);

impl Carry {
    pub(crate) const NONE: Self = Self(0);

    /// Adds `numerator / divisor` and returns the whole part of the sum.
    ///
    /// The divisor may change from call to call. The remainder then changes its value a little, by
    /// less than one unit of the result in total.
    pub(crate) fn add(&mut self, numerator: u128, divisor: u128) -> u64 {
        // A remainder from a larger divisor must not result in more than one unit.
        let carried = self.0.min(divisor.saturating_sub(1));
        let (whole, rest) = div_rem(carried.saturating_add(numerator), divisor);
        self.0 = rest;
        whole
    }

    pub(crate) fn clear(&mut self) {
        self.0 = 0;
    }
}

/// Applies SplitMix64's output function.
pub(crate) const fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the largest integer whose cube is at most `n`.
pub(crate) fn cbrt(n: u128) -> u64 {
    let mut root: u128 = 0;
    // 2^43 cubed exceeds u128, so the root's highest possible bit is 42.
    for bit in (0..=42).rev() {
        let trial = root | (1 << bit);
        if trial
            .checked_mul(trial)
            .and_then(|square| square.checked_mul(trial))
            .is_some_and(|cube| cube <= n)
        {
            root = trial;
        }
    }
    saturate(root)
}

/// Returns the whole microseconds in `d`, saturating.
pub(crate) fn micros(d: Duration) -> u64 {
    d.as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(u64::from(d.subsec_micros()))
}

/// Returns the nanoseconds in `d`, saturating.
pub(crate) fn nanos(d: Duration) -> u64 {
    d.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(d.subsec_nanos()))
}

/// Returns the nanoseconds from `then` to `now`, or 0 if `then` is later. Hot paths compare these
/// because a [`Duration`] requires a division.
pub(crate) const fn ns_since(now: Instant, then: Instant) -> u64 {
    now.as_nanos().saturating_sub(then.as_nanos())
}

/// Returns the bytes per second that transfer `bytes` in `time`, multiplied by `num / den`; at
/// least 1.
pub(crate) fn rate(bytes: u64, time: Duration, num: u64, den: u64) -> u64 {
    let time = nanos(time).max(1);
    let scaled = mul_div(bytes, num, den);
    match scaled.checked_mul(1_000_000_000) {
        Some(product) => product / time,
        None => saturate(u128::from(scaled) * 1_000_000_000 / u128::from(time)),
    }
    .max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cube_roots_of_corners() {
        assert_eq!(cbrt(0), 0);
        assert_eq!(cbrt(7), 1);
        assert_eq!(cbrt(8), 2);
        assert_eq!(cbrt(u128::MAX), 6_981_463_658_331);
    }

    proptest! {
        #[test]
        fn cube_root_brackets(n in any::<u128>(), shift in 0u32..128) {
            let n = n >> shift;
            let root = u128::from(cbrt(n));
            prop_assert!(root.pow(3) <= n);
            prop_assert!((root + 1).checked_pow(3).is_none_or(|cube| cube > n));
        }

        #[test]
        fn carry_is_exact_for_a_fixed_divisor(
            parts in prop::collection::vec(0u64..1 << 50, 1..50),
            divisor in 1u64..1 << 40,
        ) {
            let mut carry = Carry::default();
            let fixed = u128::from(divisor);
            let mut whole = |part: u64| u128::from(carry.add(u128::from(part), fixed));
            let whole: u128 = parts.iter().map(|&part| whole(part)).sum();
            let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            let exact = sum / fixed;
            prop_assert_eq!(whole, exact);
        }

        #[test]
        fn mul_div_is_exact(a in any::<u64>(), b in any::<u64>(), c in 1u64..) {
            let exact = u128::from(a) * u128::from(b) / u128::from(c);
            prop_assert_eq!(u128::from(mul_div(a, b, c)), exact.min(u128::from(u64::MAX)));
        }
    }
}

// Powers with fractional exponents, in integers: `g^x − 1` as `expm1(x · ln g)`.

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
mod power_tests {
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

// Initial and minimum windows.

/// Returns the initial window in bytes: `packets` datagrams if given, or that of RFC 9002 §7.2,
/// which is ten datagrams, but at most 14 720 bytes unless two datagrams are more.
pub(crate) fn initial(mtu: u64, packets: Option<u32>) -> u64 {
    match packets {
        Some(packets) => mtu.saturating_mul(u64::from(packets.max(1))),
        None => (10 * mtu).min((2 * mtu).max(14_720)),
    }
}

/// Returns the minimum window of loss-based laws, which is two datagrams (RFC 9002 §7.2).
pub(crate) const fn loss_based_floor(mtu: u64) -> u64 {
    2 * mtu
}
