//! Conversion between the laws' rate form and the compact header's window form (XCP Linux paper,
//! Zhang and Henderson, section II-B). Its H_feedback is a window change in packets, in 16 bits:
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

use pathmark_cc::{WindowForm, XcpCarried, XcpRequest};

/// Maximum number of packets that a compact header can cover.
pub const MAX_COMPACT_COVERS: u16 = 8;

/// Fields of the compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    /// Number of packets that the header covers, 1 to [`MAX_COMPACT_COVERS`].
    pub covers: u16,
    /// Window in packets; 0: unknown.
    pub cwnd: u16,
    /// RTT in ms, rounded up; 0: unknown.
    pub rtt_ms: u16,
    /// Window change, see [`encode_feedback`].
    pub feedback: u16,
}

/// Returns the compact fields for a sender's request. The RTT is rounded up, the window to the
/// nearest packet, and the feedback down.
pub fn compact(request: &XcpRequest) -> Compact {
    let packet = u64::from(request.packet.max(1));
    let rtt_ms = u16::try_from(request.rtt_us.div_ceil(1000)).unwrap_or(u16::MAX);
    let cwnd = if request.x == 0 {
        0
    } else {
        let packets = request.window.saturating_add(packet / 2) / packet;
        u16::try_from(packets.max(1)).unwrap_or(u16::MAX)
    };
    let form = WindowForm {
        rtt_us: u32::from(rtt_ms) * 1000,
        window_packets: cwnd.into(),
        feedback_q12: 0,
    };
    Compact {
        covers: request.covers.clamp(1, MAX_COMPACT_COVERS),
        cwnd,
        rtt_ms,
        feedback: encode_feedback(form.feedback_q12(request.delta, request.packet.into())),
    }
}

impl Compact {
    /// Window change in 2⁻¹² packets.
    #[inline]
    pub const fn feedback_q12(&self) -> i64 {
        decode_feedback(self.feedback)
    }

    const fn form(&self) -> WindowForm {
        WindowForm {
            rtt_us: self.rtt_ms as u32 * 1000,
            window_packets: self.cwnd as u32,
            feedback_q12: self.feedback_q12(),
        }
    }

    /// The fields in the rate form, for a packet of `bytes`. The inter-packet time is that of
    /// all packets that the header covers.
    pub fn carried(&self, bytes: u32) -> XcpCarried {
        let one = self.form().carried(bytes);
        XcpCarried {
            x: one.x.saturating_mul(self.covers.into()),
            covers: self.covers,
            ..one
        }
    }

    /// The change of rate in 2⁻¹⁶ bytes per second, for a packet of `bytes`, rounded down.
    pub fn delta(&self, bytes: u32) -> i64 {
        self.form().delta(bytes)
    }

    /// The feedback word for a lower change of rate; never above the current feedback.
    pub fn lowered(&self, delta: i64, bytes: u32) -> u16 {
        let word = encode_feedback(self.form().feedback_q12(delta, bytes));
        if decode_feedback(word) < self.feedback_q12() {
            word
        } else {
            self.feedback
        }
    }
}

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
pub const fn decode_feedback(word: u16) -> i64 {
    let mantissa = (word.cast_signed() >> EXPONENT_BITS) as i64;
    mantissa << (4 * (word & 7))
}

/// Returns the word for a value in 2⁻¹² packets: the largest that is not above it. Values outside
/// the range are clamped.
#[inline]
pub fn encode_feedback(value_q12: i64) -> u16 {
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
    use proptest::prelude::*;

    use super::*;
    use crate::header::tests::request;
    use crate::support::changed;

    /// A flow of 100 packets of 1500 bytes per 100 ms that requests 12.35 Mbytes/s in total,
    /// distributed over its packets.
    #[test]
    fn known_answers() {
        let request = changed(request(), |request| request.delta = 123_500 << 16);
        let compact = compact(&request);
        // 123 500 B/s · 0.1 s ÷ 1500 B = 8.2333 packets.
        let fields = (compact.covers, compact.cwnd, compact.rtt_ms);
        assert_eq!(fields, (1, 100, 100));
        assert_eq!(compact.feedback, 0x41D9);
        let carried = compact.carried(1500);
        assert_eq!(carried.rtt_us, 100_000);
        assert_eq!(carried.x, 1_099_511_627);
        // 8.23046875 packets · 1500 B ÷ 0.1 s = 123 457.03125 B/s.
        assert_eq!(carried.delta, 8_090_880_000);
    }

    #[test]
    fn unknown_stays_unknown_and_little_is_not_nothing() {
        let unknown = compact(&XcpRequest::default());
        assert_eq!((unknown.cwnd, unknown.rtt_ms, unknown.feedback), (0, 0, 0));
        assert_eq!(
            unknown.carried(1500),
            XcpCarried {
                covers: 1,
                ..XcpCarried::default()
            }
        );
        let near = compact(&XcpRequest {
            rtt_us: 120,
            x: 7,
            window: 700,
            packet: 1500,
            covers: 300,
            ..XcpRequest::default()
        });
        assert_eq!((near.cwnd, near.rtt_ms, near.covers), (1, 1, 8));
    }

    proptest! {
        /// A decoded request gives at most the requested change and not much less, and lowering
        /// never raises it.
        #[test]
        fn rounding(
            rtt_ms in 1..65_000u32, packets in 1..65_535u64, packet in 512..9000u16,
            delta in -(1i64 << 45)..1 << 45,
            // Changes of rate are bounded by 2⁶² in both directions.
            lower in -(1i64 << 62)..=i64::MAX,
        ) {
            let request = XcpRequest {
                rtt_us: rtt_ms * 1000, x: 1, delta, covers: 1, window: packets * u64::from(packet),
                packet,
            };
            let compact = compact(&request);
            prop_assert_eq!(u64::from(compact.cwnd), packets);
            let read = compact.delta(packet.into());
            let window = delta as f64 / 65_536.0 * f64::from(rtt_ms) / 1000.0 / f64::from(packet);
            if window.abs() < 2e8 {
                prop_assert!(read <= delta);
                let got = read as f64 / 65_536.0 * f64::from(rtt_ms) / 1000.0 / f64::from(packet);
                prop_assert!(
                    window - got <= window.abs() / 256.0 + 1.1 / 4096.0,
                    "{} {}",
                    window,
                    got,
                );
            }
            let lowered = Compact { feedback: compact.lowered(lower, packet.into()), ..compact };
            prop_assert!(lowered.feedback_q12() <= compact.feedback_q12());
            let least = lowered.feedback_q12() == MIN_Q12;
            prop_assert!(lowered.delta(packet.into()) <= lower || least);
        }
    }
}

#[cfg(test)]
mod h_feedback_tests {
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
            assert_eq!(encode_feedback(q12(packets)), word, "{packets}");
        }
        assert_eq!(decode_feedback(0x2AA8), q12(0.333_251_953_125));
        assert_eq!(decode_feedback(0xD550), q12(-0.333_496_093_75));
        assert_eq!(encode_feedback(i64::MAX), 0x7FFF);
        assert_eq!(encode_feedback(i64::MIN), 0x8007);
    }

    /// Compares with m·16^(e−3) in floating point, which is exact here.
    #[test]
    fn every_word_means_what_the_paper_says_and_is_written_back() {
        for word in 0..=u16::MAX {
            let mantissa = f64::from(word.cast_signed() >> 3);
            let packets = mantissa * 16f64.powi(i32::from(word & 7) - 3);
            assert_eq!(decode_feedback(word), q12(packets), "{word:#06x}");
            let again = decode_feedback(encode_feedback(decode_feedback(word)));
            assert_eq!(again, decode_feedback(word), "{word:#06x}");
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
            let read = decode_feedback(encode_feedback(value));
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
