//! Packet headers (RFC 9000 §17).
//!
//! A receiver decodes a packet in two steps. [`PartialDecode`] needs no keys and finds the end
//! of the packet, its connection ids and the position of header protection. Once this
//! protection is removed, [`PlainHeader`] decodes the protected fields. A sender writes a
//! [`Header`] and then frames; finally, [`Started::finish`] fills in the length.

mod decode;
mod encode;
pub mod negotiation;
pub mod number;
pub mod retry;
mod space;

#[cfg(test)]
mod tests;

pub use decode::{
    DecodeError, PartialDecode, PlainHeader, Protected, Retry, Unknown, VersionNegotiation,
};
pub(in crate::wire) use encode::put_id;
pub use encode::{Header, Started};
pub use number::TruncatedNumber;
pub use space::{PacketType, SpaceId};

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
