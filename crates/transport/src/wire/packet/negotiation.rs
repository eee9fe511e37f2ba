//! Encoding of Version Negotiation packets (RFC 8999 §6, RFC 9000 §6, §17.2.1).

use super::encode::put_id;
use super::{FIXED_BIT, LONG_FORM};
use crate::wire::{WriteError, Writer, version};

/// Writes a Version Negotiation packet. `unused` provides the 6 low bits of the first byte. The
/// fixed bit is always set, for receivers that demultiplex by it (RFC 9000 §17.2.1).
///
/// # Errors
/// [`WriteError`], with nothing written: no room, or an id longer than 255 bytes.
pub fn encode(
    w: &mut Writer<'_>,
    dcid: &[u8],
    scid: &[u8],
    versions: &[u32],
    unused: u8,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| {
        w.put_u8(LONG_FORM | FIXED_BIT | (unused & 0x3f))?;
        // [9000 17.2.1 negotiation-fields]
        w.put_u32(version::NEGOTIATION)?;
        put_id(w, dcid)?;
        put_id(w, scid)?;
        versions.iter().try_for_each(|&version| w.put_u32(version))
    })
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
        encode(&mut w, &[0xd1], &[0x51, 0x52], &[1, 0x1a2a_3a4a], 0).unwrap();
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
            encode(&mut w, &dcid, &scid, &versions, unused).unwrap();
            let packet = VersionNegotiation::decode(w.written()).unwrap();
            prop_assert_eq!(packet.dcid, &dcid[..]);
            prop_assert_eq!(packet.scid, &scid[..]);
            prop_assert!(packet.versions().eq(versions));
        }
    }
}
