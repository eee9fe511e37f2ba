//! A minimum round-trip time in one byte, in quarter octaves from 100 µs.
//!
//! Class 0 means "not measured yet". Class c ≥ 1 means times above 100 µs · 2^((c−2)/4) up to and
//! including 100 µs · 2^((c−1)/4). It is decoded as the upper end, because a router that measures
//! for slightly too long serves a flow better than a router that measures for too short a time.

use core::time::Duration;

/// The highest class, for times above 74 s.
pub const MAX: u8 = 80;

/// The base of the scale, in nanoseconds.
const BASE_NS: u64 = 100_000;

/// ⌊2^(i/4) · 2³²⌋.
const QUARTERS: [u64; 4] = [4_294_967_296, 5_107_605_667, 6_074_000_999, 7_223_245_205];

/// Returns the class of `rtt`; 0 for `None`.
pub fn encode(rtt: Option<Duration>) -> u8 {
    let Some(rtt) = rtt else { return 0 };
    let ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    // Starts with the first class of the octave below the octave of the time, and takes at most
    // five steps.
    let octave = (ns / BASE_NS).checked_ilog2().unwrap_or(0);
    let first = u8::try_from(octave * 4 + 1).unwrap_or(MAX);
    (first..MAX)
        .find(|&class| upper_ns(class) >= ns)
        .unwrap_or(MAX)
}

/// Returns the upper end of `class`; `None` for 0. Classes above [`MAX`] are decoded as [`MAX`].
#[inline]
pub const fn decode(class: u8) -> Option<Duration> {
    let class = if class > MAX { MAX } else { class };
    match DECODED.as_slice().split_at_checked(class as usize) {
        Some((_, [decoded, ..])) => *decoded,
        _ => None,
    }
}

/// All decoded classes in a table, because routers decode one for each packet.
static DECODED: [Option<Duration>; MAX as usize + 1] = {
    let mut decoded = [None; MAX as usize + 1];
    let mut class = 1;
    while class <= MAX {
        #[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
        {
            decoded[class as usize] = Some(Duration::from_nanos(upper_ns(class)));
        }
        class += 1;
    }
    decoded
};

const fn upper_ns(class: u8) -> u64 {
    let class = if class > MAX { MAX } else { class };
    let steps = class.saturating_sub(1);
    let [whole, one, two, three] = QUARTERS;
    let quarter = match steps % 4 {
        0 => whole,
        1 => one,
        2 => two,
        _ => three,
    };
    let ns = (BASE_NS as u128 * quarter as u128) << (steps / 4) >> 32;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below 2^37, as the class is capped"
    )]
    {
        ns as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_classes() {
        let us = Duration::from_micros;
        for (rtt, class) in [
            (us(0), 1),
            (us(1), 1),
            (us(100), 1),
            (us(101), 2),
            (us(118), 2),
            (us(119), 3),
            (us(200), 5),
            (us(201), 6),
            (us(102_400), 41),
            (us(250_000), 47),
            (us(500_000), 51),
            (us(65_535_000), 79),
            (Duration::MAX, 80),
        ] {
            assert_eq!(encode(Some(rtt)), class, "{rtt:?}");
        }
        assert_eq!(encode(None), 0);
        assert_eq!(decode(0), None);
        assert_eq!(decode(1), Some(us(100)));
        assert_eq!(decode(5), Some(us(200)));
        assert_eq!(decode(255), decode(MAX));
    }

    #[test]
    fn upper_ends_are_the_formula() {
        for class in 1..=MAX {
            let exact = 100e-6 * f64::exp2(f64::from(class - 1) / 4.0);
            let ours = decode(class).unwrap().as_secs_f64();
            let low = exact - ours;
            let rounding = 1.001e-9 + exact * f64::exp2(-32.0);
            assert!((-1e-12..rounding).contains(&low), "{class}: {low}");
            assert_eq!(encode(decode(class)), class);
        }
    }

    proptest! {
        #[test]
        fn never_below_and_at_most_a_quarter_octave_above(ns in 100_000..80_000_000_000u64) {
            let rtt = Duration::from_nanos(ns);
            let read = decode(encode(Some(rtt))).unwrap();
            prop_assert!(read >= rtt);
            prop_assert!(read.as_secs_f64() <= rtt.as_secs_f64() * 1.18921 + 1e-9);
        }
    }
}
