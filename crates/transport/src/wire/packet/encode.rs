//! Encoding of packet headers in the send buffer, and of Retry packets (RFC 9000 §17.2.5).

use core::ops::Range;

use super::{
    FIXED_BIT, KEY_PHASE_BIT, LONG_FORM, PacketType, SAMPLE_OFFSET, SPIN_BIT, TruncatedNumber,
    version,
};
use crate::wire::{ConnectionId, WriteError, Writer, varint};

/// The header of a packet that carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header<'a> {
    /// Initial (RFC 9000 §17.2.2).
    Initial {
        /// Destination connection id.
        dcid: ConnectionId,
        /// Source connection id.
        scid: ConnectionId,
        /// Token from Retry or NEW_TOKEN; empty from servers.
        token: &'a [u8],
        /// Packet number.
        number: TruncatedNumber,
    },
    /// 0-RTT (§17.2.3).
    ZeroRtt {
        /// Destination connection id.
        dcid: ConnectionId,
        /// Source connection id.
        scid: ConnectionId,
        /// Packet number.
        number: TruncatedNumber,
    },
    /// Handshake (§17.2.4).
    Handshake {
        /// Destination connection id.
        dcid: ConnectionId,
        /// Source connection id.
        scid: ConnectionId,
        /// Packet number.
        number: TruncatedNumber,
    },
    /// 1-RTT (§17.3.1).
    OneRtt {
        /// Destination connection id.
        dcid: ConnectionId,
        /// Packet number.
        number: TruncatedNumber,
        /// Key phase bit.
        key_phase: bool,
        /// Latency spin bit.
        spin: bool,
    },
}

impl Header<'_> {
    /// Returns the type of the packet.
    pub const fn ty(&self) -> PacketType {
        match self {
            Self::Initial { .. } => PacketType::Initial,
            Self::ZeroRtt { .. } => PacketType::ZeroRtt,
            Self::Handshake { .. } => PacketType::Handshake,
            Self::OneRtt { .. } => PacketType::OneRtt,
        }
    }

    /// Returns the packet number.
    pub const fn number(&self) -> TruncatedNumber {
        match self {
            Self::Initial { number, .. }
            | Self::ZeroRtt { number, .. }
            | Self::Handshake { number, .. }
            | Self::OneRtt { number, .. } => *number,
        }
    }

    /// Returns the length in bytes, including the packet number. The length field of long
    /// headers takes 2 bytes.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub const fn len(&self) -> usize {
        const LONG: usize = 1 + 4 + 1 + 1 + 2;
        let (ids, rest) = match self {
            Self::Initial {
                dcid, scid, token, ..
            } => (
                dcid.len() + scid.len(),
                LONG + varint::len(token.len() as u64) + token.len(),
            ),
            Self::ZeroRtt { dcid, scid, .. } | Self::Handshake { dcid, scid, .. } => {
                (dcid.len() + scid.len(), LONG)
            }
            Self::OneRtt { dcid, .. } => (dcid.len(), 1),
        };
        ids + rest + self.number().len()
    }

    /// Writes the header, with a placeholder for the length.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`], with nothing written.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<Started, WriteError> {
        let start = w.position();
        let number = self.number();
        w.all_or_nothing(|w| {
            let length_at = match self {
                Self::Initial {
                    dcid, scid, token, ..
                } => {
                    long(w, number.length_bits(), dcid, scid)?;
                    w.put_prefixed(token)?;
                    Some(length(w)?)
                }
                Self::ZeroRtt { dcid, scid, .. } => {
                    long(w, 0x10 | number.length_bits(), dcid, scid)?;
                    Some(length(w)?)
                }
                Self::Handshake { dcid, scid, .. } => {
                    long(w, 0x20 | number.length_bits(), dcid, scid)?;
                    Some(length(w)?)
                }
                Self::OneRtt {
                    dcid,
                    key_phase,
                    spin,
                    ..
                } => {
                    let mut first = FIXED_BIT | number.length_bits();
                    if *key_phase {
                        first |= KEY_PHASE_BIT;
                    }
                    if *spin {
                        first |= SPIN_BIT;
                    }
                    w.put_u8(first)?;
                    w.put_slice(dcid.as_slice())?;
                    None
                }
            };
            let number_at = w.position();
            number.encode(w)?;
            Ok(Started {
                ty: self.ty(),
                start,
                length_at,
                number_at,
                payload_at: w.position(),
            })
        })
    }
}

/// Writes the fields common to all long headers: the first byte (`low` contains the type,
/// reserved and number-length bits), version 1, and both connection ids.
fn long(
    w: &mut Writer<'_>,
    low: u8,
    dcid: &ConnectionId,
    scid: &ConnectionId,
) -> Result<(), WriteError> {
    w.put_u8(LONG_FORM | FIXED_BIT | low)?;
    w.put_u32(version::V1)?;
    w.put_id(dcid.as_slice())?;
    w.put_id(scid.as_slice())
}

/// Reserves room for a length of at most 16 383, to be filled in later.
fn length(w: &mut Writer<'_>) -> Result<usize, WriteError> {
    let at = w.position();
    w.put_u16(0x4000)?;
    Ok(at)
}

/// A packet whose header is in the buffer, to be followed by its frames. Positions are the
/// writer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    ty: PacketType,
    start: usize,
    length_at: Option<usize>,
    number_at: usize,
    payload_at: usize,
}

impl Started {
    /// Returns the type of the packet.
    pub const fn ty(&self) -> PacketType {
        self.ty
    }

    /// Returns the start of the packet.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Returns the start of the packet number.
    pub const fn number_at(&self) -> usize {
        self.number_at
    }

    /// Returns the start of the frames.
    pub const fn payload_at(&self) -> usize {
        self.payload_at
    }

    /// Returns the range of the header, which is the associated data of the AEAD.
    pub const fn header(&self) -> Range<usize> {
        self.start..self.payload_at
    }

    /// Returns the start of the sample for header protection, which is valid once the packet is
    /// encrypted.
    pub const fn sample_at(&self) -> usize {
        self.number_at + SAMPLE_OFFSET
    }

    /// Completes the packet: pads number and frames to at least 4 bytes, which together with a
    /// 16-byte tag suffice for the header protection sample (RFC 9001 §5.4.2), fills in the
    /// length, and makes room for a tag of `tag_len` bytes (zeros). Returns the range of the
    /// whole packet.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`] if padding or tag don't fit, and [`WriteError::Value`] if a
    /// packet with a long header exceeds 16 383 bytes. The frames remain written.
    pub fn finish(&self, w: &mut Writer<'_>, tag_len: usize) -> Result<Range<usize>, WriteError> {
        w.all_or_nothing(|w| {
            let protected = w.position().saturating_sub(self.number_at);
            w.put_zeros(SAMPLE_OFFSET.saturating_sub(protected))?;
            w.put_zeros(tag_len)?;
            let end = w.position();
            if let Some(at) = self.length_at {
                w.patch_varint_2(at, end.saturating_sub(self.number_at))?;
            }
            Ok(self.start..end)
        })
    }
}

/// Writes a Retry without its integrity tag. `unused` provides the four unused bits.
///
/// # Errors
/// [`WriteError::NoRoom`], with nothing written.
pub fn encode_retry(
    w: &mut Writer<'_>,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    unused: u8,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| {
        long(w, 0x30 | (unused & 0x0f), dcid, scid)?;
        w.put_slice(token)
    })
}
