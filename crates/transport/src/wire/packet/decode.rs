//! Reading packet headers: first without keys, then with header protection removed.

use core::ops::Range;

use super::{
    FIXED_BIT, KEY_PHASE_BIT, LONG_FORM, PacketType, RESERVED_LONG, RESERVED_SHORT, SAMPLE_LEN,
    SAMPLE_OFFSET, SPIN_BIT, TAG_LEN, TruncatedNumber,
};
use crate::wire::cid::{ConnectionId, TooLong};
use crate::wire::{Reader, UnexpectedEnd, version};

/// Bytes that are no QUIC packet. The rest of the datagram goes with them, silently (RFC 9000
/// §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The datagram ends inside the header, or before the end of the packet.
    #[error("the datagram ends inside a packet")]
    Truncated,
    /// The bit that QUIC v1 sets in each packet is not set.
    #[error("the fixed bit is not set")]
    FixedBit,
    /// A connection id longer than QUIC v1 allows.
    #[error(transparent)]
    ConnectionId(#[from] TooLong),
}

impl From<UnexpectedEnd> for DecodeError {
    fn from(_: UnexpectedEnd) -> Self {
        Self::Truncated
    }
}

/// The packet at the front of a datagram, as far as it can be read without keys.
///
/// Positions are relative to the slice that was decoded, and nothing is borrowed, so that the
/// packet can then be opened in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialDecode {
    /// A v1 packet that carries frames.
    Protected(Protected),
    /// A v1 Retry; it takes up the whole datagram.
    Retry(Retry),
    /// Version Negotiation; see [`VersionNegotiation::decode`]. It takes up the whole
    /// datagram.
    VersionNegotiation,
    /// A long header of a version other than 1. What follows is unknown.
    UnknownVersion(Unknown),
}

/// A v1 packet that carries frames, before header protection is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Its type, which decides its keys and number space.
    pub ty: PacketType,
    /// Whom it is for.
    pub dcid: ConnectionId,
    /// Whom it is from; empty in short headers, which do not carry it.
    pub scid: ConnectionId,
    /// Where the token of an Initial lies; empty otherwise.
    pub token: Range<usize>,
    /// Where the packet number starts.
    pub number_at: usize,
    /// Bytes of this packet; what follows in the datagram is the next one.
    pub len: usize,
}

/// A Retry packet (RFC 9000 §17.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The client's connection id.
    pub dcid: ConnectionId,
    /// The server's new one.
    pub scid: ConnectionId,
    /// Where the token lies; may be empty, which the client must discard.
    pub token: Range<usize>,
    /// Where the 16 bytes of the integrity tag lie: the end of the packet.
    pub tag: Range<usize>,
}

/// What RFC 8999 tells of a packet of any version. Its ids may be up to 255 bytes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The version, neither 0 nor 1.
    pub version: u32,
    /// Where the destination connection id lies.
    pub dcid: Range<usize>,
    /// Where the source connection id lies.
    pub scid: Range<usize>,
}

impl PartialDecode {
    /// Reads the packet at the front of `datagram`, a shim already taken off. `local_cid_len` is
    /// the length of the connection ids that this endpoint issues, which short headers do not
    /// carry.
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

    /// The connection id that the packet is for; `datagram` is the slice that was decoded.
    #[must_use]
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

/// A Version Negotiation packet. Ids may be up to 255 bytes long: they come from a version we do
/// not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionNegotiation<'a> {
    /// Destination: the source connection id of the packet that it answers.
    pub dcid: &'a [u8],
    /// Source: the destination connection id of the packet that it answers.
    pub scid: &'a [u8],
    versions: &'a [u8],
}

impl<'a> VersionNegotiation<'a> {
    /// Reads a datagram that [`PartialDecode`] took for Version Negotiation.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is cut, names no version, or is no Version Negotiation at
    /// all.
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

    /// The versions that the server supports.
    pub fn versions(&self) -> impl Iterator<Item = u32> + 'a {
        let (versions, _) = self.versions.as_chunks::<4>();
        versions.iter().map(|version| u32::from_be_bytes(*version))
    }
}

/// A length byte and a connection id of up to 255 bytes: where and what.
fn id<'a>(r: &mut Reader<'a>) -> Result<(Range<usize>, &'a [u8]), UnexpectedEnd> {
    let n = usize::from(r.get_u8()?);
    let start = r.position();
    Ok((start..start + n, r.get_slice(n)?))
}

impl Protected {
    /// Where the sample for header protection lies (RFC 9001 §5.4.2). `None` if the packet is too
    /// short to have one, so that it must be discarded (unless it is a stateless reset).
    #[inline]
    #[must_use]
    pub const fn sample(&self) -> Option<Range<usize>> {
        let start = self.number_at + SAMPLE_OFFSET;
        if start + SAMPLE_LEN > self.len {
            return None;
        }
        Some(start..start + SAMPLE_LEN)
    }
}

/// What header protection hid, valid once the packet has been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainHeader {
    /// The packet number's low bytes; see [`TruncatedNumber::expand`].
    pub number: TruncatedNumber,
    /// Where the protected payload starts: all before it is associated data.
    pub payload_at: usize,
    /// False: the reserved bits are not zero, which is a PROTOCOL_VIOLATION once the packet has
    /// opened (RFC 9000 §17.2, §17.3.1), and nothing before that.
    pub reserved_bits_ok: bool,
    /// The key phase bit; false in long headers.
    pub key_phase: bool,
    /// The latency spin bit; false in long headers.
    pub spin: bool,
}

impl PlainHeader {
    /// Reads the header of `packet` (the slice in which `found` was found), header protection
    /// removed.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the packet number does not fit into the packet.
    #[inline]
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
