use proptest::prelude::*;
use std::{vec, vec::Vec};

use super::*;

/// An IPv4 packet with a plainly computed header checksum.
fn v4(options: &[u8], fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let [len0, len1] = u16::try_from(header + payload.len()).unwrap().to_be_bytes();
    let [part0, part1] = fragment.to_be_bytes();
    let words = 0x40 | u8::try_from(header / 4).unwrap();
    let mut bytes = vec![words, 0xB9, len0, len1, 0x12, 0x34, part0, part1];
    bytes.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
    bytes.extend(options);
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![0x6B, 0x9A, 0xBC, 0xDE, len[0], len[1], next, 64];
    bytes.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes.extend(payload);
    bytes
}

const UDP: [u8; 12] = [0xC0, 0x01, 0x11, 0x51, 0, 12, 0, 0, 1, 2, 3, 4];

#[test]
fn plain_v4() {
    let mut bytes = v4(&[], 0x4000, 17, &UDP);
    bytes.extend([0; 6]); // a link's padding
    let ip = Layout::walk(&bytes).unwrap();
    assert_eq!(ip.version(), Version::V4);
    assert_eq!(ip.fragment(), Fragment::Whole);
    assert_eq!(ip.protocol(), 17);
    assert_eq!(ip.len(), 32);
    assert_eq!(ip.upper(&bytes), UDP);
    assert_eq!(ip.source(&bytes), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(
        ip.destination(&bytes),
        Some("198.51.100.2".parse().unwrap())
    );
    assert_eq!(ip.ports(&bytes), Some((0xC001, 0x1151)));
    assert_eq!(ip.ttl(&bytes), Some(64));
    assert_eq!(ip.dscp(&bytes), Some(0x2E));
    assert_eq!(ip.ecn(&bytes), Some(1));
    assert!(ip.header_checksum_ok(&bytes));
    assert!(ip.dont_fragment(&bytes));
}

#[test]
fn v4_options_and_fragments() {
    let bytes = v4(&[0x94, 4, 0, 0, 1, 1, 1, 0], 0, 17, &UDP);
    let ip = Layout::walk(&bytes).unwrap();
    assert_eq!(ip.upper_offset(), 28);
    assert_eq!(ip.upper(&bytes), UDP);
    assert!(!ip.dont_fragment(&bytes));

    let bytes = v4(&[], 0x2000, 17, &UDP);
    let ip = Layout::walk(&bytes).unwrap();
    assert_eq!(ip.fragment(), Fragment::First);
    assert_eq!(ip.upper(&bytes), UDP);

    for field in [0x2001, 0x0001, 0x1FFF] {
        let bytes = v4(&[], field, 17, &UDP);
        let ip = Layout::walk(&bytes).unwrap();
        assert_eq!(ip.fragment(), Fragment::Later);
        assert_eq!(ip.upper(&bytes), []);
        assert_eq!(ip.ports(&bytes), None);
    }
}

#[test]
fn v6_extensions() {
    let bytes = v6(17, &UDP);
    let ip = Layout::walk(&bytes).unwrap();
    assert_eq!(ip.version(), Version::V6);
    assert_eq!(ip.upper(&bytes), UDP);
    assert_eq!(ip.ports(&bytes), Some((0xC001, 0x1151)));
    assert_eq!(ip.dscp(&bytes), Some(0xB9 >> 2));
    assert_eq!(ip.ecn(&bytes), Some(0xB9 & 3));
    assert_eq!(ip.ttl(&bytes), Some(64));
    assert_eq!(ip.destination(&bytes), Some("2001:db8::2".parse().unwrap()));
    assert!(ip.dont_fragment(&bytes));

    // Hop-by-hop of 8 bytes, destination options of 16, atomic fragment header, then UDP.
    let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0];
    payload.extend([44, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend([17, 0, 0, 0, 0, 0, 0, 9]);
    payload.extend(UDP);
    let bytes = v6(0, &payload);
    let ip = Layout::walk(&bytes).unwrap();
    assert_eq!(ip.protocol(), 17);
    assert_eq!(ip.fragment(), Fragment::Whole);
    assert_eq!(ip.upper(&bytes), UDP);

    let fragment = |field: u16| {
        let [b2, b3] = field.to_be_bytes();
        let mut payload = vec![17, 0, b2, b3, 0, 0, 0, 9];
        payload.extend(UDP);
        let bytes = v6(44, &payload);
        let ip = Layout::walk(&bytes).unwrap();
        (ip.fragment(), ip.upper(&bytes).len(), ip.protocol())
    };
    assert_eq!(fragment(0x0001), (Fragment::First, 12, 17));
    assert_eq!(fragment(0x0008), (Fragment::Later, 0, 17));
    assert_eq!(fragment(0x0009), (Fragment::Later, 0, 17));

    // An Authentication Header of (4 + 2) words.
    let mut payload = vec![17, 4, 0, 0];
    payload.extend([0xAA; 20]);
    payload.extend(UDP);
    let bytes = v6(51, &payload);
    let ip = Layout::walk(&bytes).unwrap();
    assert!(ip.authenticated());
    assert_eq!(ip.upper(&bytes), UDP);
    let bytes = v4(&[], 0, 51, &payload);
    let ip = Layout::walk(&bytes).unwrap();
    assert!(ip.authenticated());
    assert_eq!(ip.upper(&bytes), UDP);
}

#[test]
fn endless_or_cut_extensions_hide_the_upper_layer() {
    let mut payload = Vec::new();
    for _ in 0..9 {
        payload.extend([60, 0, 1, 4, 0, 0, 0, 0]);
    }
    payload.extend(UDP);
    for payload in [
        &payload[..],
        &[60, 0, 1],
        &[60, 200, 1, 4, 0, 0, 0, 0],
        &[17, 200, 1, 4, 0, 0, 0, 0],
        &[],
    ] {
        let bytes = v6(60, payload);
        let ip = Layout::walk(&bytes).unwrap();
        assert_eq!(ip.upper(&bytes), []);
        assert_eq!(ip.ports(&bytes), None);
    }
}

#[test]
fn errors() {
    assert_eq!(Layout::walk(&[]), Err(WalkError::Version));
    assert_eq!(Layout::walk(&[0x55; 60]), Err(WalkError::Version));
    let bytes = v4(&[], 0, 17, &UDP);
    assert_eq!(Layout::walk(&bytes[..19]), Err(WalkError::Truncated));
    assert_eq!(Layout::walk(&bytes[..31]), Err(WalkError::Truncated));
    let mut short_header = bytes.clone();
    short_header[0] = 0x44;
    assert_eq!(Layout::walk(&short_header), Err(WalkError::HeaderLength));
    let mut long_header = bytes;
    long_header[0] = 0x4F;
    assert_eq!(Layout::walk(&long_header), Err(WalkError::HeaderLength));
    let bytes = v6(17, &UDP);
    assert_eq!(Layout::walk(&bytes[..39]), Err(WalkError::Truncated));
    assert_eq!(Layout::walk(&bytes[..51]), Err(WalkError::Truncated));
}

#[test]
fn ttl_runs_out() {
    for mut bytes in [v4(&[], 0, 17, &UDP), v6(17, &UDP)] {
        let ip = Layout::walk(&bytes).unwrap();
        for left in (1..64).rev() {
            assert_eq!(ip.decrement_ttl(&mut bytes), Some(left));
            assert!(ip.header_checksum_ok(&bytes));
        }
        let before = bytes.clone();
        assert_eq!(ip.decrement_ttl(&mut bytes), None);
        assert_eq!(bytes, before);
        bytes[ip.ttl_offset()] = 0;
        assert_eq!(ip.decrement_ttl(&mut bytes), None);
    }
}

proptest! {
    #[test]
    fn traffic_class_rewrites_touch_nothing_else(v6_packet: bool, dscp in 0..64u8, ecn in 0..4u8) {
        let mut bytes = if v6_packet { v6(17, &UDP) } else { v4(&[1, 1, 1, 0], 0, 17, &UDP) };
        let before = bytes.clone();
        let ip = Layout::walk(&bytes).unwrap();
        prop_assert!(ip.set_dscp(&mut bytes, dscp));
        prop_assert_eq!(ip.ecn(&bytes), ip.ecn(&before));
        prop_assert!(ip.set_ecn(&mut bytes, ecn));
        prop_assert_eq!(ip.dscp(&bytes), Some(dscp));
        prop_assert_eq!(ip.ecn(&bytes), Some(ecn));
        prop_assert!(ip.header_checksum_ok(&bytes));
        let same = if v6_packet { 2.. } else { 12.. };
        prop_assert_eq!(&bytes[same.clone()], &before[same]);
        if v6_packet {
            prop_assert_eq!(bytes[0] >> 4, 6);
            prop_assert_eq!(bytes[1] & 0x0F, before[1] & 0x0F, "flow label");
        }
    }

    /// A flow keeps its hash whatever routers rewrite, and other flows get other hashes.
    #[test]
    fn flow_hash(seed: u64, port: u16, ttl in 2..255u8, ecn in 0..4u8) {
        let mut udp = UDP;
        udp[..2].copy_from_slice(&port.to_be_bytes());
        for (mut bytes, at) in [(v4(&[], 0, 17, &udp), 8), (v6(17, &udp), 7)] {
            let ip = Layout::walk(&bytes).unwrap();
            let hash = ip.flow_hash(&bytes, seed);
            bytes[at] = ttl;
            ip.set_ecn(&mut bytes, ecn);
            prop_assert_eq!(ip.flow_hash(&bytes, seed), hash);
            bytes[ip.upper_offset()] ^= 1;
            prop_assert_ne!(ip.flow_hash(&bytes, seed), hash);
        }
    }

    /// Arbitrary bytes, even with a layout of other bytes, do not cause panics.
    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in proptest::collection::vec(
            any::<u8>(), 0..120,
        ), version in 0..2u8, other in 0..120usize,
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = *first & 0x0F | if version == 0 { 0x40 } else { 0x60 };
        }
        if let Some(length) = bytes.get_mut(2..6) {
            length[if version == 0 { 0 } else { 2 }] = 0;
        }
        if let Ok(ip) = Layout::walk(&bytes) {
            prop_assert!(ip.len() <= bytes.len());
            prop_assert!(ip.upper_offset() <= ip.len());
            let mut shorter = bytes[..other.min(bytes.len())].to_vec();
            let _ = (
                ip.source(&shorter),
                ip.destination(&shorter),
                ip.ports(&shorter),
                ip.flow_hash(&shorter, 1),
            );
            let _ = (
                ip.header_checksum_ok(&shorter),
                ip.dont_fragment(&shorter),
                ip.upper(&shorter),
            );
            let _ = (
                ip.set_ecn(&mut shorter, 1),
                ip.set_dscp(&mut shorter, 1),
                ip.decrement_ttl(&mut shorter),
            );
        }
    }
}

/// Of 2¹⁰ buckets for 2¹⁶ flows that differ only in their ports, none gets more than twice its
/// share.
#[test]
fn flow_hash_spreads() {
    let mut buckets = vec![0u32; 1024];
    for port in 0..=u16::MAX {
        let mut udp = UDP;
        udp[..2].copy_from_slice(&port.to_be_bytes());
        let bytes = v4(&[], 0, 17, &udp);
        let ip = Layout::walk(&bytes).unwrap();
        buckets[ip.flow_hash(&bytes, 7) as usize % 1024] += 1;
    }
    assert!(buckets.iter().all(|&n| (16..128).contains(&n)));
}
