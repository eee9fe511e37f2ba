//! Decoding of packet headers: first without keys, and then after removing header protection.

use core::ops::Range;

use super::{
    FIXED_BIT, KEY_PHASE_BIT, LONG_FORM, PacketType, RESERVED_LONG, RESERVED_SHORT, SAMPLE_LEN,
    SAMPLE_OFFSET, SPIN_BIT, TAG_LEN, TruncatedNumber, version,
};
use crate::wire::{ConnectionId, IdTooLong};
use crate::wire::{Reader, UnexpectedEnd};

/// Bytes that aren't a QUIC packet. The rest of the datagram must be discarded silently (RFC
/// 9000 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The datagram ends inside the header, or before the end of the packet.
    #[error("the datagram ends inside a packet")]
    Truncated,
    /// The bit that QUIC v1 sets in each packet isn't set.
    #[error("the fixed bit is not set")]
    FixedBit,
    /// A connection id longer than QUIC v1 allows.
    #[error(transparent)]
    ConnectionId(#[from] IdTooLong),
}

impl From<UnexpectedEnd> for DecodeError {
    fn from(_: UnexpectedEnd) -> Self {
        Self::Truncated
    }
}

/// The packet at the front of a datagram, as far as it can be decoded without keys.
///
/// Positions are relative to the decoded slice, and nothing is borrowed, so that the packet can
/// be decrypted in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialDecode {
    /// A v1 packet that carries frames.
    Protected(Protected),
    /// A v1 Retry, which takes up the whole datagram.
    Retry(Retry),
    /// Version Negotiation, which takes up the whole datagram; see
    /// [`VersionNegotiation::decode`].
    VersionNegotiation,
    /// A long header of a version other than 1, so the rest can't be decoded.
    UnknownVersion(Unknown),
}

/// A v1 packet that carries frames, before header protection is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Its type, which determines its keys and number space.
    pub ty: PacketType,
    /// Destination connection id.
    pub dcid: ConnectionId,
    /// Source connection id; empty for short headers, which don't contain one.
    pub scid: ConnectionId,
    /// Position of the token of an Initial; empty for other types.
    pub token: Range<usize>,
    /// Start of the packet number.
    pub number_at: usize,
    /// Length of this packet in bytes. The next one in the datagram follows.
    pub len: usize,
}

/// A Retry packet (RFC 9000 §17.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Destination: the client's connection id.
    pub dcid: ConnectionId,
    /// Source: the server's new connection id.
    pub scid: ConnectionId,
    /// Position of the token. The client must discard a Retry with an empty token.
    pub token: Range<usize>,
    /// Position of the 16-byte integrity tag at the end of the packet.
    pub tag: Range<usize>,
}

/// The fields that RFC 8999 defines for packets of any version. Connection ids may be up to 255
/// bytes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The version, neither 0 nor 1.
    pub version: u32,
    /// Position of the destination connection id.
    pub dcid: Range<usize>,
    /// Position of the source connection id.
    pub scid: Range<usize>,
}

impl PartialDecode {
    /// Decodes the packet at the front of `datagram`, from which any shim must have been
    /// removed. `local_cid_len` is the length of the connection ids that this endpoint issues,
    /// because short headers don't contain it.
    ///
    /// # Errors
    /// [`DecodeError`]: discard the rest of the datagram.
    #[inline]
    pub fn new(datagram: &[u8], local_cid_len: usize) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        let first = r.get_u8()?;
        if first & LONG_FORM != 0 {
            return Self::long(first, r);
        }
        if first & FIXED_BIT == 0 {
            // [9000 17.2 fixed-bit]
            return Err(DecodeError::FixedBit);
        }
        let dcid = ConnectionId::new(r.get_slice(local_cid_len)?)?;
        Ok(Self::Protected(Protected {
            ty: PacketType::OneRtt,
            dcid,
            scid: ConnectionId::EMPTY,
            token: 0..0,
            number_at: r.position(),
            len: datagram.len(),
        }))
    }

    fn long(first: u8, mut r: Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.get_u32()?;
        let (dcid_range, dcid) = id(&mut r)?;
        let (scid_range, scid) = id(&mut r)?;
        match version {
            version::NEGOTIATION => return Ok(Self::VersionNegotiation),
            version::V1 => {}
            version => {
                // [9000 17.2.1 any-id-length]
                return Ok(Self::UnknownVersion(Unknown {
                    version,
                    dcid: dcid_range,
                    scid: scid_range,
                }));
            }
        }
        if first & FIXED_BIT == 0 {
            // [9000 17.2 fixed-bit]
            return Err(DecodeError::FixedBit);
        }
        let dcid = ConnectionId::new(dcid)?;
        let scid = ConnectionId::new(scid)?;
        let mut token = 0..0;
        let ty = match (first >> 4) & 3 {
            0 => {
                let bytes = r.get_prefixed()?;
                token = r.position() - bytes.len()..r.position();
                PacketType::Initial
            }
            1 => PacketType::ZeroRtt,
            2 => PacketType::Handshake,
            _ => {
                let start = r.position();
                let end = start + r.remaining();
                let tag = end
                    .checked_sub(TAG_LEN)
                    .filter(|&tag| tag >= start)
                    .ok_or(DecodeError::Truncated)?;
                return Ok(Self::Retry(Retry {
                    dcid,
                    scid,
                    token: start..tag,
                    tag: tag..end,
                }));
            }
        };
        let length = usize::try_from(r.get_varint()?).map_err(|_| DecodeError::Truncated)?;
        let number_at = r.position();
        r.get_slice(length)?;
        Ok(Self::Protected(Protected {
            ty,
            dcid,
            scid,
            token,
            number_at,
            len: r.position(),
        }))
    }

    /// Returns the destination connection id; `datagram` is the slice that was decoded.
    pub fn dcid<'a>(&'a self, datagram: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Protected(packet) => packet.dcid.as_slice(),
            Self::Retry(packet) => packet.dcid.as_slice(),
            Self::UnknownVersion(packet) => datagram.get(packet.dcid.clone()).unwrap_or(&[]),
            Self::VersionNegotiation => {
                VersionNegotiation::decode(datagram).map_or(&[], |packet| packet.dcid)
            }
        }
    }
}

/// A Version Negotiation packet. Connection ids may be up to 255 bytes long, because other
/// versions may allow this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionNegotiation<'a> {
    /// Destination: the source connection id of the packet to which it responds.
    pub dcid: &'a [u8],
    /// Source: the destination connection id of the packet to which it responds.
    pub scid: &'a [u8],
    versions: &'a [u8],
}

impl<'a> VersionNegotiation<'a> {
    /// Decodes a datagram that [`PartialDecode`] recognized as Version Negotiation.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is incomplete, lists no version, or isn't Version
    /// Negotiation.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        let first = r.get_u8()?;
        // [9000 17.2.1 unused-bits]
        if first & LONG_FORM == 0 || r.get_u32()? != version::NEGOTIATION {
            return Err(DecodeError::Truncated);
        }
        let n = usize::from(r.get_u8()?);
        let dcid = r.get_slice(n)?;
        let n = usize::from(r.get_u8()?);
        let scid = r.get_slice(n)?;
        let versions = r.take_rest();
        if versions.is_empty() || !versions.len().is_multiple_of(4) {
            return Err(DecodeError::Truncated);
        }
        Ok(Self {
            dcid,
            scid,
            versions,
        })
    }

    /// Returns the versions that the server supports.
    pub fn versions(&self) -> impl Iterator<Item = u32> + 'a {
        let (versions, _) = self.versions.as_chunks::<4>();
        versions.iter().map(|version| u32::from_be_bytes(*version))
    }
}

/// Reads a length byte and a connection id of up to 255 bytes, and returns its position and
/// contents.
fn id<'a>(r: &mut Reader<'a>) -> Result<(Range<usize>, &'a [u8]), UnexpectedEnd> {
    let n = usize::from(r.get_u8()?);
    let start = r.position();
    Ok((start..start + n, r.get_slice(n)?))
}

impl Protected {
    /// Returns the position of the sample for header protection (RFC 9001 §5.4.2), or `None` if the
    /// packet is too short for a sample. Such a packet must be discarded, unless it is a stateless
    /// reset.
    pub const fn sample(&self) -> Option<Range<usize>> {
        let start = self.number_at + SAMPLE_OFFSET;
        if start + SAMPLE_LEN > self.len {
            return None;
        }
        Some(start..start + SAMPLE_LEN)
    }
}

/// The fields under header protection. They are valid only if the packet is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainHeader {
    /// The low bytes of the packet number; see [`TruncatedNumber::expand`].
    pub number: TruncatedNumber,
    /// Start of the protected payload. All bytes before it are associated data.
    pub payload_at: usize,
    /// False if the reserved bits aren't zero. This is a PROTOCOL_VIOLATION if the packet is
    /// authentic (RFC 9000 §17.2, §17.3.1), and must be ignored otherwise.
    pub reserved_bits_ok: bool,
    /// The key phase bit; false in long headers.
    pub key_phase: bool,
    /// The latency spin bit; false in long headers.
    pub spin: bool,
}

impl PlainHeader {
    /// Decodes the header of `packet` (the slice in which `found` was decoded) after header
    /// protection was removed.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the packet number doesn't fit into the packet.
    pub fn decode(packet: &[u8], found: &Protected) -> Result<Self, DecodeError> {
        let mut r = Reader::new(packet.get(..found.len).ok_or(DecodeError::Truncated)?);
        let first = r.rest().first().copied().ok_or(DecodeError::Truncated)?;
        r.get_slice(found.number_at)?;
        let number = TruncatedNumber::decode(&mut r, (first & 3) + 1)?;
        let short = !found.ty.is_long();
        let reserved = if short { RESERVED_SHORT } else { RESERVED_LONG };
        Ok(Self {
            number,
            payload_at: r.position(),
            reserved_bits_ok: first & reserved == 0,
            key_phase: short && first & KEY_PHASE_BIT != 0,
            spin: short && first & SPIN_BIT != 0,
        })
    }
}
