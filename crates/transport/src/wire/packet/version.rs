//! QUIC versions (RFC 9000 §15), and the packet that negotiates them (RFC 8999 §6, RFC 9000 §6,
//! §17.2.1).

use super::{FIXED_BIT, LONG_FORM};
use crate::wire::{WriteError, Writer};

/// Writes a Version Negotiation packet. `unused` provides the 6 low bits of the first byte. The
/// fixed bit is always set, for receivers that demultiplex by it (RFC 9000 §17.2.1).
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
    w.all_or_nothing(|w| {
        w.put_u8(LONG_FORM | FIXED_BIT | (unused & 0x3f))?;
        // [9000 17.2.1 negotiation-fields]
        w.put_u32(NEGOTIATION)?;
        w.put_id(dcid)?;
        w.put_id(scid)?;
        versions.iter().try_for_each(|&version| w.put_u32(version))
    })
}

/// QUIC version 1.
pub const V1: u32 = 1;

/// The version field of a Version Negotiation packet.
pub const NEGOTIATION: u32 = 0;

/// Returns true for versions of the form 0x?a?a?a?a, which are reserved so that receivers
/// ignore them (RFC 9000 §15).
pub const fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Returns the reserved version that takes the high half of each byte from `entropy`.
pub const fn reserved(entropy: u32) -> u32 {
    entropy & 0xf0f0_f0f0 | 0x0a0a_0a0a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::packet::VersionNegotiation;

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
        // If cut anywhere except between versions, it isn't Version Negotiation.
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
            // [9000 17.2.1 unused-bits] [9000 17.2.1 any-id-length]
            let mut buffer = [0; 1024];
            let mut w = Writer::new(&mut buffer);
            encode_negotiation(&mut w, &dcid, &scid, &versions, unused).unwrap();
            let packet = VersionNegotiation::decode(w.written()).unwrap();
            prop_assert_eq!(packet.dcid, &dcid[..]);
            prop_assert_eq!(packet.scid, &scid[..]);
            prop_assert!(packet.versions().eq(versions));
        }
    }

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
}
