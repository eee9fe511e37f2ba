//! QUIC versions and Version Negotiation packets (RFC 8999 §6, RFC 9000 §6, §15, §17.2.1).

use super::packet::{DecodeError, LONG_FORM};
use super::{Reader, WriteError, Writer};

/// QUIC version 1.
pub const V1: u32 = 1;

/// The version field of a Version Negotiation packet.
pub const NEGOTIATION: u32 = 0;

/// True for versions of the form 0x?a?a?a?a, which exist to be ignored (RFC 9000 §15).
#[inline]
#[must_use]
pub const fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// The reserved version with the high half of each byte from `entropy`.
#[inline]
#[must_use]
pub const fn reserved(entropy: u32) -> u32 {
    entropy & 0xf0f0_f0f0 | 0x0a0a_0a0a
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
    /// Reads a datagram that [`PartialDecode`](super::PartialDecode) took for Version Negotiation.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is cut, names no version, or is no Version Negotiation at
    /// all.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(datagram);
        let first = r.get_u8()?;
        if first & LONG_FORM == 0 || r.get_u32()? != NEGOTIATION {
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

/// Writes a Version Negotiation packet. The 7 low bits of the first byte come from `unused`; the
/// fixed bit is set in any case, for those who demultiplex by it (RFC 9000 §17.2.1).
///
/// # Errors
/// [`WriteError`], with nothing written: no room, or an id longer than 255 bytes.
pub fn encode_negotiation(
    w: &mut Writer<'_>,
    dcid: &[u8],
    scid: &[u8],
    versions: &[u32],
    unused: u8,
) -> Result<(), WriteError> {
    use super::packet::{FIXED_BIT, put_id};
    w.all_or_nothing(|w| {
        w.put_u8(LONG_FORM | FIXED_BIT | (unused & 0x3f))?;
        w.put_u32(NEGOTIATION)?;
        put_id(w, dcid)?;
        put_id(w, scid)?;
        versions.iter().try_for_each(|&version| w.put_u32(version))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reserved_versions_have_a_in_each_byte() {
        for version in [0x0a0a_0a0a, 0x1a2a_3a4a, 0xfafa_fafa] {
            assert!(is_reserved(version));
            assert_eq!(reserved(version), version);
        }
        assert!(!is_reserved(V1));
        assert!(!is_reserved(0x6b33_43cf)); // version 2
        assert!(is_reserved(reserved(0x1234_5678)));
    }

    #[test]
    fn negotiation_byte_by_byte() {
        let bytes = [
            0xc0, 0, 0, 0, 0, 1, 0xd1, 2, 0x51, 0x52, 0, 0, 0, 1, 0x1a, 0x2a, 0x3a, 0x4a,
        ];
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        encode_negotiation(&mut w, &[0xd1], &[0x51, 0x52], &[1, 0x1a2a_3a4a], 0).unwrap();
        assert_eq!(w.written(), bytes);
        let packet = VersionNegotiation::decode(&bytes).unwrap();
        assert_eq!((packet.dcid, packet.scid), (&[0xd1][..], &[0x51, 0x52][..]));
        assert!(packet.versions().eq([1, 0x1a2a_3a4a]));
        // Cut anywhere but between versions: no Version Negotiation.
        for cut in (0..bytes.len()).filter(|&cut| cut != 14) {
            assert!(VersionNegotiation::decode(&bytes[..cut]).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trip_with_long_ids(
            dcid in proptest::collection::vec(any::<u8>(), 0..=255),
            scid in proptest::collection::vec(any::<u8>(), 0..=255),
            versions in proptest::collection::vec(any::<u32>(), 1..8),
            unused: u8,
        ) {
            let mut buffer = [0; 1024];
            let mut w = Writer::new(&mut buffer);
            encode_negotiation(&mut w, &dcid, &scid, &versions, unused).unwrap();
            let packet = VersionNegotiation::decode(w.written()).unwrap();
            prop_assert_eq!(packet.dcid, &dcid[..]);
            prop_assert_eq!(packet.scid, &scid[..]);
            prop_assert!(packet.versions().eq(versions));
        }
    }
}
