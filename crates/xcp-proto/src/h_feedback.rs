//! H_feedback in 16 bits: a window change in packets (XCP Linux paper, Zhang and Henderson, section
//! II-B).
//!
//! ```text
//!    15 …                3 2 … 0
//!   ┌─────────────────────┬─────┐
//!   │ m, signed, 13 bits  │  e  │     value m · 16^(e−3) packets, that is m · 16^e in 2⁻¹² packets
//!   └─────────────────────┴─────┘
//! ```
//!
//! Values range from 2⁻¹² packets up to 268 369 920 and down to −268 435 456 (the paper's 2²⁸ is
//! only reached on the negative side), with a relative error below 1/256 for values of at least
//! 1/16 packet. Written values are rounded down, so that no router grants more than it has, and use
//! the smallest exponent that fits. Zero is word 0.

/// Range of the mantissa.
const MANTISSA: core::ops::RangeInclusive<i64> = -4096..=4095;
const EXPONENT_BITS: u32 = 3;
const MAX_EXPONENT: u32 = 7;

/// The largest value, in 2⁻¹² packets.
pub const MAX_Q12: i64 = 4095 << (4 * MAX_EXPONENT);
/// The smallest value, in 2⁻¹² packets.
pub const MIN_Q12: i64 = -4096 << (4 * MAX_EXPONENT);

/// [XCP-Linux II-B]: the value of a word, in 2⁻¹² packets.
#[inline]
pub const fn decode(word: u16) -> i64 {
    let mantissa = (word.cast_signed() >> EXPONENT_BITS) as i64;
    mantissa << (4 * (word & 7))
}

/// Returns the word for a value in 2⁻¹² packets: the largest that is not above it. Values outside
/// the range are clamped.
#[inline]
pub fn encode(value_q12: i64) -> u16 {
    let value = value_q12.clamp(MIN_Q12, MAX_Q12);
    // Shifting right rounds towards −∞.
    let fitting = (0..=MAX_EXPONENT)
        .map(|exponent| (value >> (4 * exponent), exponent))
        .find(|(mantissa, _)| MANTISSA.contains(mantissa));
    let (mantissa, exponent) = match fitting {
        Some((0, _)) | None => return 0,
        Some(found) => found,
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "13 bits of mantissa above 3 of exponent"
    )]
    {
        (mantissa << EXPONENT_BITS | i64::from(exponent)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets as 2⁻¹².
    fn q12(packets: f64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "the values are small")]
        {
            (packets * 4096.0).floor() as i64
        }
    }

    /// [XCP-Linux II-B].
    #[test]
    fn known_answers() {
        for (packets, word) in [
            (0.0, 0),
            (1.0 / 4096.0, 0x0008),
            (-1.0 / 4096.0, 0xFFF8),
            (0.5, 0x4000),
            (1.0, 0x0801),
            (-1.0, 0x8000),
            (10.0, 0x5001),
            (1.0 / 3.0, 0x2AA8),
            (-1.0 / 3.0, 0xD550),
            (100.0, 0x3202),
            (-1000.0, 0xE0C3),
            (4095.0, 0x7FFB),
            (65_536.0, 0x0805),
            (268_369_920.0, 0x7FFF),
            (268_369_921.0, 0x7FFF),
            (1e12, 0x7FFF),
            (-268_435_456.0, 0x8007),
            (-1e12, 0x8007),
        ] {
            assert_eq!(encode(q12(packets)), word, "{packets}");
        }
        assert_eq!(decode(0x2AA8), q12(0.333_251_953_125));
        assert_eq!(decode(0xD550), q12(-0.333_496_093_75));
        assert_eq!(encode(i64::MAX), 0x7FFF);
        assert_eq!(encode(i64::MIN), 0x8007);
    }

    /// Compares with m·16^(e−3) in floating point, which is exact here.
    #[test]
    fn every_word_means_what_the_paper_says_and_is_written_back() {
        for word in 0..=u16::MAX {
            let mantissa = f64::from(word.cast_signed() >> 3);
            let packets = mantissa * 16f64.powi(i32::from(word & 7) - 3);
            assert_eq!(decode(word), q12(packets), "{word:#06x}");
            assert_eq!(decode(encode(decode(word))), decode(word), "{word:#06x}");
        }
    }

    /// Values are rounded down, by less than 1/256 for values of at least 1/16 packet, and never
    /// reordered.
    #[test]
    fn rounding() {
        let mut last = MIN_Q12;
        let values = (0..60).flat_map(|shift| {
            [1i64, 3, 5, 1000, 4095, 4096, 4097].map(|m| m.checked_mul(1 << shift))
        });
        let mut values: Vec<i64> = values.flatten().flat_map(|v| [v, -v]).collect();
        values.sort_unstable();
        for value in values {
            let read = decode(encode(value));
            assert!(read >= last, "{value}");
            last = read;
            if (MIN_Q12..=MAX_Q12).contains(&value) {
                assert!(read <= value);
                if value.abs() >= 256 {
                    assert!((value - read) * 256 < value.abs(), "{value} {read}");
                }
            }
        }
    }
}
