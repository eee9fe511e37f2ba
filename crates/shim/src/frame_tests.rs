use proptest::prelude::*;
use std::{string::ToString, vec, vec::Vec};

use super::*;

fn sealed<const N: usize>(kind: Kind, fill: u8) -> [u8; N] {
    let mut shim = [fill; N];
    seal(kind, &mut shim);
    shim
}

#[test]
fn known_answer() {
    let mut shim = [0; 8];
    seal(Kind::QUICK_START, &mut shim);
    assert_eq!(shim[..6], [0x0A, 0x12, 0x7A, 0x3D, 0, 0]);
    // Long division of 0A 12 7A 3D 00 00 0000 by 0x17135 by hand, inverted.
    let mut remainder: u64 = 0x0A12_7A3D_0000_0000;
    for bit in (16..64).rev() {
        if remainder >> bit & 1 == 1 {
            remainder ^= 0x1_7135 << (bit - 16);
        }
    }
    assert_eq!(
        u64::from(u16::from_be_bytes([shim[6], shim[7]])),
        remainder ^ 0xFFFF
    );
}

#[test]
fn any_kind_version_and_length_parses() {
    for number in 0..8 {
        for version in 0..16u8 {
            for words in 2..16u8 {
                let len = usize::from(words) * 4;
                let mut shim = vec![0x5A; len];
                shim[0] = 8 | number;
                shim[1] = version << 4 | words;
                shim[2..4].copy_from_slice(&MAGIC.to_be_bytes());
                let check = crc16(&shim[..len - 2]);
                shim[len - 2..].copy_from_slice(&check.to_be_bytes());
                shim.extend_from_slice(&[0x40; 20]);
                let framed = Framed::parse(&shim).unwrap();
                assert_eq!(framed.kind().number(), number);
                assert_eq!(framed.version(), version);
                assert_eq!(framed.len(), len);
                assert_eq!(framed.bytes(), &shim[..len]);
                assert_eq!(framed.fields(), vec![0x5A; len - 6]);
                assert_eq!(declared_len(&shim), Ok(len));
            }
        }
    }
}

#[test]
fn errors() {
    let shim = sealed::<16>(Kind::VCP, 3);
    assert_eq!(expect::<16>(Kind::VCP, &shim), Ok(&shim));
    assert_eq!(expect::<16>(Kind::XCP, &shim), Err(FramingError::Kind));
    assert_eq!(expect::<20>(Kind::VCP, &shim), Err(FramingError::Length));
    assert_eq!(expect::<12>(Kind::VCP, &shim), Err(FramingError::Length));
    assert_eq!(
        expect::<16>(Kind::VCP, &shim[..15]),
        Err(FramingError::Truncated)
    );
    assert_eq!(Framed::parse(&shim[..3]), Err(FramingError::Truncated));
    assert_eq!(Framed::parse(&[]), Err(FramingError::NotShim));
    assert_eq!(Framed::parse(&[0x40, 1]), Err(FramingError::NotShim));

    let mut future = shim;
    future[1] = 0x24;
    renew_check(&mut future);
    assert_eq!(expect::<16>(Kind::VCP, &future), Err(FramingError::Version));

    let mut short = shim;
    short[1] = 0x11;
    assert_eq!(Framed::parse(&short), Err(FramingError::Length));

    let mut foreign = shim;
    foreign[2] ^= 1;
    assert_eq!(Framed::parse(&foreign), Err(FramingError::NotShim));

    let mut damaged = shim;
    damaged[9] ^= 0x10;
    assert_eq!(Framed::parse(&damaged), Err(FramingError::Check));
    assert_eq!(expect::<16>(Kind::VCP, &damaged), Err(FramingError::Check));
    assert_eq!(declared_len(&damaged), Ok(16));
    assert_eq!(FramingError::Check.to_string(), "shim with a wrong check");
}

/// One, two or three flipped bits in a shim of 16 bytes are always detected.
#[test]
fn up_to_three_flipped_bits_are_never_believed() {
    let shim = sealed::<16>(Kind::VCP, 0xC3);
    let flip = |bits: &[usize]| {
        let mut damaged = shim;
        for bit in bits {
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
        damaged
    };
    let believed = |bytes: &[u8]| expect::<16>(Kind::VCP, bytes).is_ok();
    for a in 0..128 {
        assert!(!believed(&flip(&[a])));
        for b in 0..a {
            assert!(!believed(&flip(&[a, b])));
            for c in 0..b {
                assert!(!believed(&flip(&[a, b, c])));
            }
        }
    }
}

proptest! {
    #[test]
    fn fields_changed_in_words_or_in_bytes(
        mut old in proptest::array::uniform16(any::<u8>()),
        mut new in proptest::array::uniform16(any::<u8>()),
    ) {
        seal(Kind::XCP, &mut old);
        let change = [0, 1, 2].map(|i| words(&old)[i] ^ words(&new)[i]);
        let changed = change_fields(&old, change);
        seal(Kind::XCP, &mut new);
        prop_assert_eq!(changed, new);
    }

    /// A wrong check remains wrong.
    #[test]
    fn changes_hide_no_damage(
        mut shim in proptest::array::uniform16(any::<u8>()),
        damage in 32..128usize,
        change in proptest::array::uniform3(any::<u32>()),
    ) {
        seal(Kind::VCP, &mut shim);
        shim[damage / 8] ^= 1 << (damage % 8);
        let changed = change_fields(&shim, change);
        prop_assert_eq!(expect::<16>(Kind::VCP, &changed), Err(FramingError::Check));
    }

    #[test]
    fn sealed_shims_parse_and_truncated_ones_do_not(
        fields in proptest::array::uniform32(any::<u8>()), number in 0..8u8, cut in 0..32usize,
    ) {
        let kind = Kind::new(number).unwrap();
        let mut shim = fields;
        seal(kind, &mut shim);
        prop_assert_eq!(Framed::parse(&shim).unwrap().fields(), &fields[4..30]);
        let cut: Vec<u8> = shim[..cut].to_vec();
        prop_assert!(Framed::parse(&cut).is_err());
    }
}
