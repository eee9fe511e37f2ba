//! Quick-Start as a shim (kind 2, 16 bytes): a request for a starting rate.
//!
//! ```text
//!    0 … 3    4    5    6        7                8 … 13    14   15
//!   ┌────────┬─────────┬────────┬────────────────┬─────────┬─────────┐
//!   │ prefix │ rate    │ QS TTL │ function, RTT  │ nonce   │ check   │
//!   └────────┴─────────┴────────┴────────────────┴─────────┴─────────┘
//! ```
//!
//! Fields have the same roles as in RFC 4782 §3. However, its rate code, a power of two times 40
//! kbit/s, is too coarse (1 Gbit/s is granted as 655 Mbit/s), so the rate here is a 16-bit float,
//! see [`Rate`]. The round-trip time is an addition, because a router remembers a grant until its
//! traffic has arrived.

use crate::frame::{self, FramingError, Kind};

/// Bytes of a Quick-Start shim.
pub const LEN: usize = 16;

/// A rate in 16 bits: 5 bits of exponent e, followed by 11 bits of mantissa m.
///
/// In bytes per second, it is m for e = 0, and otherwise (2048 + m) · 2^(e−1): from 0 to 4.4·10¹²
/// in steps of at most 1/2048. Codes have the same order as rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u16);

impl Rate {
    /// The largest rate: 4095 · 2³⁰ bytes per second.
    pub const MAX: Self = Self(u16::MAX);

    /// The rate with this code.
    pub const fn from_code(code: u16) -> Self {
        Self(code)
    }

    /// The 16 bits of the rate.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns the largest rate that is not above `bytes_per_second`, which routers grant.
    pub const fn floor(bytes_per_second: u64) -> Self {
        let bits = 64 - bytes_per_second.leading_zeros();
        if bits <= 11 {
            #[expect(clippy::cast_possible_truncation, reason = "at most 11 bits")]
            return Self(bytes_per_second as u16);
        }
        let exponent = bits - 11;
        if exponent > 31 {
            return Self::MAX;
        }
        #[expect(clippy::cast_possible_truncation, reason = "5 and 11 bits")]
        let code = (exponent as u16) << 11 | ((bytes_per_second >> (exponent - 1)) as u16 & 0x7FF);
        Self(code)
    }

    /// Returns the smallest rate that is not below `bytes_per_second`, or [`MAX`](Self::MAX), which
    /// senders request.
    pub const fn ceil(bytes_per_second: u64) -> Self {
        let floor = Self::floor(bytes_per_second);
        if floor.bytes_per_second() < bytes_per_second {
            Self(floor.0.saturating_add(1))
        } else {
            floor
        }
    }

    /// The rate in bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        let mantissa = (self.0 & 0x7FF) as u64;
        match self.0 >> 11 {
            0 => mantissa,
            exponent => (2048 + mantissa) << (exponent - 1),
        }
    }

    /// Number of low bits of a nonce that a router leaves unchanged when it lowers the rate to this
    /// rate (RFC 4782 §3.4).
    ///
    /// Each pair of bits belongs to an exponent, from 8 (2 Mbit/s) for the lowest pair to 31 for
    /// the highest. The router replaces all pairs of higher exponents with random bits, so a
    /// receiver that reports twice the received rate has to guess two bits.
    pub const fn nonce_bits(self) -> u32 {
        (2 * (self.0 >> 11).saturating_sub(7)) as u32
    }
}

/// A round-trip time in 4 bits: 0 if unknown, otherwise n for up to 2^(n−1) ms, from 1 ms to 16.384
/// s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RttOctave(u8);

impl RttOctave {
    /// Returns the octave of a time, rounded up. Longer times give the longest octave.
    pub const fn ceil(micros: u64) -> Self {
        let millis = micros.div_ceil(1000);
        if millis > 1 << 14 {
            return Self(15);
        }
        let power = if millis <= 1 {
            1
        } else {
            millis.next_power_of_two()
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most 14")]
        Self(power.trailing_zeros() as u8 + 1)
    }

    /// The octave's longest time in microseconds. `None`: unknown.
    pub const fn micros(self) -> Option<u64> {
        match self.0 {
            0 => None,
            n => Some(1000 << (n - 1)),
        }
    }
}

/// The purpose of a Quick-Start shim (RFC 4782 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// A request that routers lower, before any router has answered it.
    Request,
    /// A request that a router has answered.
    Answered,
    /// A query, sent a round trip after the rate was granted, whether the sender may keep the rate,
    /// before any router has answered it.
    Keep,
    /// A query that a router has answered.
    Kept,
    /// The sender reports the rate that was approved.
    Report,
    /// A number that this crate does not know; routers do not change the shim.
    Unknown(u8),
}

impl Function {
    /// Returns the function after a router's answer, or `None` if routers do not change the shim.
    #[inline]
    #[must_use]
    pub const fn answered(self) -> Option<Self> {
        match self {
            Self::Request | Self::Answered => Some(Self::Answered),
            Self::Keep | Self::Kept => Some(Self::Kept),
            Self::Report | Self::Unknown(_) => None,
        }
    }

    /// Returns true if a router has answered.
    #[inline]
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Answered | Self::Kept)
    }
}

/// The fields of a Quick-Start shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The purpose of the shim.
    pub function: Function,
    /// The requested rate, the rate granted so far, or the approved rate. 0: denied.
    pub rate: Rate,
    /// Decremented together with the IP TTL by each router with Quick-Start, so that the difference
    /// shows whether all routers took part.
    pub qs_ttl: u8,
    /// The sender's round-trip time.
    pub rtt: RttOctave,
    /// Random number, of which the lower 48 bits are carried.
    pub nonce: u64,
}

impl Repr {
    /// Reads the shim at the start of `datagram`.
    ///
    /// # Errors
    /// [`FramingError`].
    pub fn parse(datagram: &[u8]) -> Result<Self, FramingError> {
        let &[
            _,
            _,
            _,
            _,
            r0,
            r1,
            qs_ttl,
            function,
            n0,
            n1,
            n2,
            n3,
            n4,
            n5,
            _,
            _,
        ] = frame::expect::<LEN>(Kind::QUICK_START, datagram)?;
        Ok(Self {
            function: match function >> 4 {
                0 => Function::Request,
                1 => Function::Answered,
                2 => Function::Keep,
                3 => Function::Kept,
                8 => Function::Report,
                other => Function::Unknown(other),
            },
            rate: Rate(u16::from_be_bytes([r0, r1])),
            qs_ttl,
            rtt: RttOctave(function & 0x0F),
            nonce: u64::from_be_bytes([0, 0, n0, n1, n2, n3, n4, n5]),
        })
    }

    /// Creates the shim, sealed.
    pub fn emit(&self) -> [u8; LEN] {
        let [r0, r1] = self.rate.0.to_be_bytes();
        let function = match self.function {
            Function::Request => 0,
            Function::Answered => 1 << 4,
            Function::Keep => 2 << 4,
            Function::Kept => 3 << 4,
            Function::Report => 8 << 4,
            Function::Unknown(other) => other << 4,
        };
        let [_, _, n0, n1, n2, n3, n4, n5] = self.nonce.to_be_bytes();
        let mut shim = [
            0,
            0,
            0,
            0,
            r0,
            r1,
            self.qs_ttl,
            function | self.rtt.0,
            n0,
            n1,
            n2,
            n3,
            n4,
            n5,
            0,
            0,
        ];
        frame::seal(Kind::QUICK_START, &mut shim);
        shim
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_rates() {
        for (rate, code) in [
            (0, 0x0000),
            (1, 0x0001),
            (2047, 0x07FF),
            (2048, 0x0800),
            (4095, 0x0FFF),
            (4096, 0x1000),
            (4095 << 30, 0xFFFF),
        ] {
            assert_eq!(Rate::floor(rate).code(), code, "{rate}");
            assert_eq!(Rate::ceil(rate).code(), code, "{rate}");
            assert_eq!(Rate::from_code(code).bytes_per_second(), rate);
        }
        // 1 Gbit/s = 125·10⁶ B/s = 3814.697… · 2¹⁵, which is between 3814 and 3815.
        assert_eq!(Rate::floor(125_000_000).bytes_per_second(), 3814 << 15);
        assert_eq!(Rate::ceil(125_000_000).bytes_per_second(), 3815 << 15);
        assert_eq!(Rate::floor(u64::MAX), Rate::MAX);
        assert_eq!(Rate::ceil(u64::MAX), Rate::MAX);
    }

    #[test]
    fn every_code_is_a_rate_of_its_own_in_order() {
        let mut last = None;
        for code in 0..=u16::MAX {
            let rate = Rate::from_code(code).bytes_per_second();
            assert!(last < Some(rate));
            assert_eq!(Rate::floor(rate).code(), code);
            last = Some(rate);
        }
    }

    #[test]
    fn octaves_hold_their_times() {
        assert_eq!(RttOctave::default().micros(), None);
        for (micros, octave, longest) in [
            (0, 1, 1_000),
            (1_000, 1, 1_000),
            (1_001, 2, 2_000),
            (60_000, 7, 64_000),
            (64_000, 7, 64_000),
            (64_001, 8, 128_000),
            (16_384_000, 15, 16_384_000),
            (u64::MAX, 15, 16_384_000),
        ] {
            assert_eq!(RttOctave::ceil(micros), RttOctave(octave), "{micros}");
            assert_eq!(RttOctave(octave).micros(), Some(longest));
        }
    }

    #[test]
    fn nonce_bits_follow_the_exponent() {
        for (rate, bits) in [
            (0, 0),
            (2048 << 6, 0),
            (2048 << 7, 2),
            (125_000_000, 18),
            (u64::MAX, 48),
        ] {
            assert_eq!(Rate::floor(rate).nonce_bits(), bits, "{rate}");
        }
    }

    #[test]
    fn known_shim() {
        let repr = Repr {
            function: Function::Report,
            rate: Rate::from_code(0x1234),
            qs_ttl: 63,
            rtt: RttOctave::ceil(60_000),
            nonce: 0x0102_0304_0506,
        };
        let shim = repr.emit();
        assert_eq!(
            shim[..14],
            [
                0x0A, 0x14, 0x7A, 0x3D, 0x12, 0x34, 63, 0x87, 1, 2, 3, 4, 5, 6
            ]
        );
        assert_eq!(Repr::parse(&shim), Ok(repr));
    }

    proptest! {
        #[test]
        fn rounding_is_tight(rate in 0..=(4095u64 << 30)) {
            let (floor, ceil) = (Rate::floor(rate), Rate::ceil(rate));
            prop_assert!(floor.bytes_per_second() <= rate && rate <= ceil.bytes_per_second());
            prop_assert!(ceil.code() - floor.code() <= 1);
            prop_assert!(rate - floor.bytes_per_second() <= rate / 2048);
        }

        #[test]
        fn round_trip(
            function in 0..16u8,
            code: u16,
            qs_ttl: u8,
            rtt in 0..16u8,
            nonce in 0..1u64 << 48,
        ) {
            let function = match function {
                0 => Function::Request,
                1 => Function::Answered,
                2 => Function::Keep,
                3 => Function::Kept,
                8 => Function::Report,
                other => Function::Unknown(other),
            };
            let rate = Rate::from_code(code);
            let repr = Repr { function, rate, qs_ttl, rtt: RttOctave(rtt), nonce };
            prop_assert_eq!(Repr::parse(&repr.emit()), Ok(repr));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Repr::parse(&bytes);
        }
    }
}
