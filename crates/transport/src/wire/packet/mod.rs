//! Packet headers, numbers and types (RFC 9000 §12.3, §17).
//!
//! A receiver decodes a packet in two steps. [`PartialDecode`] needs no keys and finds the end of
//! the packet, its connection ids and the position of header protection. Once this protection is
//! removed, [`PlainHeader`] decodes the protected fields, and the low 1 to 4 bytes of the number
//! are expanded to all of it. A sender writes a [`Header`] and then frames; finally,
//! [`Started::finish`] fills in the length.

mod decode;
mod encode;
pub mod version;

#[cfg(test)]
mod tests;

pub use decode::{
    DecodeError, PartialDecode, PlainHeader, Protected, Retry, Unknown, VersionNegotiation,
};
pub use encode::{Header, Started, encode_retry};

use super::{Reader, UnexpectedEnd, WriteError, Writer, varint};

/// The bit that distinguishes long from short headers.
pub const LONG_FORM: u8 = 0x80;
/// The bit that every QUIC v1 packet has set (RFC 9000 §17.2, §17.3).
pub const FIXED_BIT: u8 = 0x40;
/// The latency spin bit of short headers (RFC 9000 §17.4).
pub const SPIN_BIT: u8 = 0x20;
/// The key phase bit of short headers.
pub const KEY_PHASE_BIT: u8 = 0x04;

const RESERVED_LONG: u8 = 0x0c;
const RESERVED_SHORT: u8 = 0x18;

/// Length of the ciphertext sample for header protection (RFC 9001 §5.4.2), the same for every
/// v1 cipher.
pub const SAMPLE_LEN: usize = 16;
/// Distance from the start of the packet number to the sample, which assumes a number of
/// maximum length.
pub const SAMPLE_OFFSET: usize = 4;
/// Length of an AEAD tag, the same for every v1 cipher (RFC 9001 §5.3).
pub const TAG_LEN: usize = 16;
/// The smallest datagram that may carry an ack-eliciting Initial packet (RFC 9000 §14.1).
pub const MIN_INITIAL_DATAGRAM: usize = 1200;

/// The largest packet number, 2^62 − 1.
pub const MAX_NUMBER: u64 = varint::MAX;

/// The low bytes of a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedNumber {
    value: u32,
    len: u8,
}

impl TruncatedNumber {
    /// Truncates `full` to as many low bytes (at most 4) as the receiver needs if it might not
    /// have received any packet after `largest_acked` (Appendix A.2).
    pub const fn new(full: u64, largest_acked: Option<u64>) -> Self {
        let unacked = match largest_acked {
            Some(acked) => full.saturating_sub(acked),
            // [9000 17.1 whole-number]
            None => full.saturating_add(1),
        };
        // One bit more than the binary logarithm, rounded up.
        let bits = match unacked {
            0 | 1 => 1,
            // [9000 17.1 number-range]
            n => (u64::BITS - (n - 1).leading_zeros()) + 1,
        };
        Self::with_len(full, bits.div_ceil(8))
    }

    /// Truncates `full` to its low `len` bytes (1 to 4, clamped).
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bytes are what is asked for"
    )]
    pub const fn with_len(full: u64, len: u32) -> Self {
        let len = match len {
            0 | 1 => 1,
            2 | 3 => len,
            _ => 4,
        };
        Self {
            value: full as u32 & (u32::MAX >> (32 - 8 * len)),
            len: len as u8,
        }
    }

    /// Returns the length in bytes, 1 to 4.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Returns the low bytes as a number.
    pub const fn value(self) -> u32 {
        self.value
    }

    /// Returns the full number closest to `expected`, which is one more than the largest number
    /// received in an authentic packet so far, or 0 (Appendix A.3).
    pub const fn expand(self, expected: u64) -> u64 {
        let window = 1u64 << (8 * self.len as u32);
        let half = window / 2;
        let candidate = (expected & !(window - 1)) | self.value as u64;
        if candidate.saturating_add(half) <= expected && candidate < (1 << 62) - window {
            candidate + window
        } else if (candidate > expected.saturating_add(half) || candidate > MAX_NUMBER)
            && candidate >= window
        {
            candidate - window
        } else {
            candidate
        }
    }

    /// Reads `len` bytes (1 to 4).
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    pub fn decode(r: &mut Reader<'_>, len: u8) -> Result<Self, UnexpectedEnd> {
        let len = len.clamp(1, 4);
        let value = r
            .get_slice(usize::from(len))?
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte));
        Ok(Self { value, len })
    }

    /// Writes the low bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    pub fn encode(self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let bytes = self.value.to_be_bytes();
        w.put_slice(bytes.get(4 - self.len()..).unwrap_or(&bytes))
    }

    /// Returns the two low bits of the first byte, which encode the length.
    const fn length_bits(self) -> u8 {
        self.len - 1
    }
}

/// A packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceId {
    /// Initial packets.
    Initial = 0,
    /// Handshake packets.
    Handshake = 1,
    /// 0-RTT and 1-RTT packets.
    Data = 2,
}

impl SpaceId {
    /// All three, in the order in which a connection uses them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];

    /// Returns the index: 0, 1 or 2.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the type of packets with these numbers, which is 1-RTT rather than 0-RTT.
    pub const fn packet_type(self) -> PacketType {
        match self {
            Self::Initial => PacketType::Initial,
            Self::Handshake => PacketType::Handshake,
            Self::Data => PacketType::OneRtt,
        }
    }
}

/// A type of packet that is protected and carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketType {
    /// Protected with keys from the client's first destination connection id; contains CRYPTO
    /// frames and a token.
    Initial,
    /// Early data from the client.
    ZeroRtt,
    /// The rest of the handshake.
    Handshake,
    /// 1-RTT, with a short header.
    OneRtt,
}

impl PacketType {
    /// Returns the number space of packets of this type.
    pub const fn space(self) -> SpaceId {
        match self {
            Self::Initial => SpaceId::Initial,
            Self::Handshake => SpaceId::Handshake,
            Self::ZeroRtt | Self::OneRtt => SpaceId::Data,
        }
    }

    /// Returns true for packets with a long header.
    pub const fn is_long(self) -> bool {
        !matches!(self, Self::OneRtt)
    }
}
