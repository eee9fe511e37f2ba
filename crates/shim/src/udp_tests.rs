use proptest::prelude::*;
use std::{vec, vec::Vec};

use super::*;

/// An IPv4 packet with UDP from port 0x3039 to 0x0035 and this payload, without a header checksum.
fn packet(fragment: u16, udp_len: u16, payload: &[u8]) -> Vec<u8> {
    let [len0, len1] = u16::try_from(28 + payload.len()).unwrap().to_be_bytes();
    let [part0, part1] = fragment.to_be_bytes();
    let [udp0, udp1] = udp_len.to_be_bytes();
    let mut bytes = vec![0x45, 0, len0, len1, 0, 0, part0, part1, 64, 17, 0, 0];
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([0x30, 0x39, 0, 0x35, udp0, udp1, 0, 0]);
    bytes.extend(payload);
    bytes
}

fn locate(bytes: &[u8]) -> Option<Datagram> {
    Datagram::locate(bytes, &Layout::walk(bytes).unwrap())
}

#[test]
fn located() {
    let bytes = packet(0, 12, b"abcd");
    let udp = locate(&bytes).unwrap();
    assert_eq!(udp.payload_offset(), 28);
    assert_eq!(udp.payload(&bytes), b"abcd");
    assert_eq!(udp.ports(&bytes), Some((12345, 53)));

    // Bytes after the UDP length do not belong to the payload.
    let bytes = packet(0, 10, b"abcd");
    assert_eq!(locate(&bytes).unwrap().payload(&bytes), b"ab");
    // A first fragment contains a part of the payload, and a later fragment nothing accessible.
    let bytes = packet(0x2000, 1000, b"abcd");
    assert_eq!(locate(&bytes).unwrap().payload(&bytes), b"abcd");
    assert_eq!(locate(&packet(0x2001, 12, b"abcd")), None);
    // Impossible lengths.
    assert_eq!(locate(&packet(0, 7, b"abcd")), None);
    assert_eq!(locate(&packet(0, 13, b"abcd")), None);
    let mut tcp = packet(0, 12, b"abcd");
    tcp[9] = 6;
    assert_eq!(locate(&tcp), None);
}

/// The words written out: pseudo-header, header, payload.
#[test]
fn full_checksum() {
    let bytes = packet(0, 12, b"abcd");
    let words: [u32; 11] = [
        0x0a00, 0x0001, 0x0a00, 0x0002, 0x0011, 0x000c, 0x3039, 0x0035, 0x000c, 0x6162, 0x6364,
    ];
    let sum: u32 = words.iter().sum();
    let expected = !(((sum >> 16) + (sum & 0xFFFF)) as u16);
    let ip = Layout::walk(&bytes).unwrap();
    let udp = Datagram::locate(&bytes, &ip).unwrap();
    assert_eq!(udp.compute_checksum(&bytes, &ip), expected);
}

#[test]
fn rewrites_out_of_reach_are_refused() {
    let mut bytes = packet(0, 12, b"abcd");
    let udp = locate(&bytes).unwrap();
    let before = bytes.clone();
    for offset in [1, 4, 5, usize::MAX] {
        assert!(
            !udp.rewrite(&mut bytes, offset, ChecksumState::Complete, |_| Some(
                *b"wxyz"
            ))
        );
    }
    assert!(!udp.rewrite::<4>(&mut bytes, 0, ChecksumState::Complete, |_| None));
    assert_eq!(bytes, before);
    assert!(
        !udp.rewrite(&mut bytes[..30], 0, ChecksumState::Complete, |_| Some(
            *b"wxyz"
        ))
    );
    assert!(udp.rewrite(&mut bytes, 0, ChecksumState::Complete, |_| Some(*b"wxyz")));
    assert_eq!(udp.payload(&bytes), b"wxyz");
    assert_eq!(bytes[26..28], [0, 0], "no checksum stays none");
}

/// After a replacement, the checksum equals the one that a sender computes, also at odd offsets.
#[test]
fn replaced_bytes_renew_the_checksum() {
    let mut bytes = packet(0, 8 + 11, b"abcdefghijk");
    let ip = Layout::walk(&bytes).unwrap();
    let udp = locate(&bytes).unwrap();
    let checksum = udp.compute_checksum(&bytes, &ip);
    bytes[26..28].copy_from_slice(&checksum.to_be_bytes());
    for (offset, new, payload) in [
        (0, &b"wxyz"[..], &b"wxyzefghijk"[..]),
        (3, b"123456", b"wxy123456jk"),
        (9, b"!?", b"wxy123456!?"),
        (4, b"", b"wxy123456!?"),
    ] {
        assert!(udp.replace(&mut bytes, offset, new));
        assert_eq!(udp.payload(&bytes), payload);
        let renewed = udp.compute_checksum(&bytes, &ip);
        assert_eq!(bytes[26..28], renewed.to_be_bytes(), "{offset}");
    }
    let before = bytes.clone();
    for (offset, new) in [
        (0, &b"odd"[..]),
        (10, b"xy"),
        (12, b"xy"),
        (usize::MAX, b"xy"),
    ] {
        assert!(!udp.replace(&mut bytes, offset, new));
    }
    assert_eq!(bytes, before);
}

proptest! {
    #[test]
    fn incremental_equals_full(
        payload in proptest::collection::vec(
            any::<u8>(), 16..100,
        ), new: [u8; 9], at: prop::sample::Index,
    ) {
        let mut bytes = packet(0, u16::try_from(8 + payload.len()).unwrap(), &payload);
        let ip = Layout::walk(&bytes).unwrap();
        let udp = Datagram::locate(&bytes, &ip).unwrap();
        let checksum = udp.compute_checksum(&bytes, &ip);
        bytes[26..28].copy_from_slice(&checksum.to_be_bytes());
        let offset = at.index(payload.len() - 8);
        prop_assert!(udp.rewrite(&mut bytes, offset, ChecksumState::Complete, |_| Some(new)));
        prop_assert_eq!(&udp.payload(&bytes)[offset..offset + 9], &new);
        prop_assert_eq!(
            u16::from_be_bytes([bytes[26], bytes[27]]),
            udp.compute_checksum(&bytes, &ip),
        );
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 28..120), cut in 0..120usize,
    ) {
        bytes[0] = 0x45;
        bytes[2] = 0;
        bytes[3] %= 120;
        bytes[9] = 17;
        if let Ok(ip) = Layout::walk(&bytes)
            && let Some(udp) = Datagram::locate(&bytes, &ip)
        {
            bytes.truncate(cut);
            let _ = (udp.payload(&bytes), udp.ports(&bytes), udp.compute_checksum(&bytes, &ip));
            let _ = udp.rewrite(&mut bytes, cut / 2, ChecksumState::Complete, |_| Some([0; 7]));
        }
    }
}
