//! Cutting and coalescing, compared with a reference implementation of checksums.

use pathmark_shim::ip::Layout;
use proptest::prelude::*;

use super::*;
use crate::test_packets::{ip, renew};

/// RFC 1071, word by word.
fn ones_complement(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

fn pseudo(bytes: &[u8], upper: usize, protocol: u8) -> Vec<u8> {
    let addresses = if upper == 20 { 12..20 } else { 8..40 };
    let length = (bytes.len() - upper) as u32;
    [
        &bytes[addresses],
        &length.to_be_bytes(),
        &[0, 0, 0, protocol],
    ]
    .concat()
}

/// Headers of a super-packet over `payload`, with the checksum field as the kernel leaves it.
fn super_packet(v6: bool, tcp: bool, payload: &[u8]) -> (Vec<u8>, usize) {
    let (upper, protocol) = (if v6 { 40 } else { 20 }, if tcp { 6 } else { 17 });
    let own = if tcp { 32 } else { 8 };
    let length = own + payload.len();
    let (from, to) = if v6 {
        ("fd00::1", "fd00::2")
    } else {
        ("10.0.0.1", "10.0.0.2")
    };
    let mut bytes = ip(from, to, 64, 0x4000, protocol, &vec![0; length]);
    bytes.truncate(upper);
    if !v6 {
        bytes[4..6].copy_from_slice(&[0xFF, 0xFE]);
        renew(&mut bytes);
    }
    if tcp {
        bytes.extend([
            0x12, 0x34, 0, 80, 0xFF, 0xFF, 0xFF, 0, 9, 9, 9, 9, 0x80, 0x18, 1, 2, 0, 0, 0, 0,
        ]);
        bytes.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    } else {
        bytes.extend([0x12, 0x34, 0, 53]);
        bytes.extend((length as u16).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend(payload);
    let sum = ones_complement(&pseudo(&bytes, upper, protocol));
    let at = upper + if tcp { 16 } else { 6 };
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    (bytes, upper + own)
}

fn offload_of(v6: bool, tcp: bool, size: u16) -> Offload {
    let kind = match (tcp, v6) {
        (true, false) => GsoKind::TcpV4,
        (true, true) => GsoKind::TcpV6,
        (false, _) => GsoKind::Udp,
    };
    let (start, offset) = (if v6 { 40 } else { 20 }, if tcp { 16 } else { 6 });
    Offload {
        checksum: Some(Partial { start, offset }),
        gso: Some(gso(kind, size)),
    }
}

fn gso(kind: GsoKind, size: u16) -> Gso {
    let ecn = false;
    Gso { kind, size, ecn }
}

/// Completes a checksum, as offload finally does.
fn complete(bytes: &mut [u8], Partial { start, offset }: Partial) {
    let (start, at) = (usize::from(start), usize::from(start + offset));
    let sum = !ones_complement(&bytes[start..]);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn cut(bytes: &[u8], offload: Offload) -> Vec<(Vec<u8>, Offload)> {
    let layout = Layout::walk(bytes).unwrap();
    let whole = Super::new(bytes, &layout, offload.gso.unwrap()).unwrap();
    let segments: Vec<_> = (0..whole.segments())
        .map(|index| {
            let mut out = vec![0; 65_536];
            let (len, offload) = whole.segment(bytes, index, &mut out).unwrap();
            out.truncate(len);
            (out, offload)
        })
        .collect();
    let beyond = whole.segment(bytes, whole.segments(), &mut [0; 65_536]);
    assert!(beyond.is_none());
    let total: usize = segments.iter().map(|(segment, _)| segment.len()).sum();
    assert_eq!(total, whole.total());
    segments
}

proptest! {
    /// Every segment must be a valid packet, and coalescing all segments must result in the
    /// super-packet again.
    #[test]
    fn cutting_and_coalescing_are_inverse(
        v6: bool,
        tcp: bool,
        size in 1usize..1_500,
        count in 2usize..40,
        short in 0usize..1_500,
    ) {
        let payload: Vec<u8> = (
            0..count * size - short.min(size - 1)
        ).map(|i| (i * 31 % 251) as u8).collect();
        let (bytes, header) = super_packet(v6, tcp, &payload);
        let offload = offload_of(v6, tcp, size as u16);
        let segments = cut(&bytes, offload);
        prop_assert_eq!(segments.len(), count);
        let mut joined: Vec<u8> = Vec::new();
        for (index, (segment, offload)) in segments.iter().enumerate() {
            let layout = Layout::walk(segment).unwrap();
            prop_assert!(layout.header_checksum_ok(segment));
            prop_assert_eq!(layout.len(), segment.len());
            let upper = layout.upper_offset();
            let mut done = segment.clone();
            complete(&mut done, offload.checksum.unwrap());
            let all = [pseudo(&done, upper, layout.protocol()), done[upper..].to_vec()].concat();
            prop_assert_eq!(ones_complement(&all), 0xFFFF);
            if tcp {
                let sequence = u32::from_be_bytes(
                    segment[upper + 4..upper + 8].try_into().unwrap(),
                );
                prop_assert_eq!(sequence, 0xFFFF_FF00u32.wrapping_add((index * size) as u32));
                prop_assert_eq!(segment[upper + 13], if index + 1 == count { 0x18 } else { 0x10 });
            }
            if !v6 {
                let id = u16::from_be_bytes([segment[4], segment[5]]);
                prop_assert_eq!(id, 0xFFFEu16.wrapping_add(index as u16));
            }
            joined.extend(&segment[header..]);
        }
        prop_assert_eq!(&joined, &payload);

        let mut coalescer = Coalescer::start(&segments[0].0, segments[0].1).unwrap();
        for (segment, offload) in &segments[1..] {
            prop_assert!(coalescer.append(segment, *offload));
        }
        let (front, merged) = coalescer.finish().unwrap();
        prop_assert_eq!(front, &bytes[..header]);
        prop_assert_eq!(merged, offload);
        prop_assert_eq!(Offload::parse(&merged.emit(header as u16)), Ok(merged));
    }

    #[test]
    fn garbage_never_panics(
        header in any::<[u8; VNET_LEN]>(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        fix in 0usize..4,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x46, 0x60, *first][fix];
        }
        if let (Ok(offload), Ok(layout)) = (Offload::parse(&header), Layout::walk(&bytes)) {
            let mut out = [0; 300];
            if let Some(whole) = offload.gso.and_then(|gso| Super::new(&bytes, &layout, gso).ok()) {
                let _ = whole.segment(&bytes, 1, &mut out);
                let _ = (whole.total(), whole.largest());
            }
            if let Some(mut coalescer) = Coalescer::start(&bytes, offload) {
                let _ = coalescer.append(&bytes, offload);
                let _ = coalescer.finish();
            }
        }
    }
}

#[test]
fn segments_that_differ_are_not_coalesced() {
    let payload = [7; 3000];
    let (bytes, _) = super_packet(false, true, &payload);
    let segments = cut(&bytes, offload_of(false, true, 1000));
    let start = |(bytes, offload): &(Vec<u8>, Offload)| Coalescer::start(bytes, *offload);
    let appends = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut second = segments[1].clone();
        change(&mut second.0);
        start(&segments[0]).unwrap().append(&second.0, second.1)
    };
    assert!(appends(&|_| ()));
    assert!(!appends(&|b| b[1] = 0), "type of service");
    assert!(!appends(&|b| b[8] -= 1), "TTL");
    assert!(!appends(&|b| b[19] ^= 1), "address");
    assert!(!appends(&|b| b[21] ^= 1), "port");
    assert!(!appends(&|b| b[27] ^= 1), "sequence number");
    assert!(!appends(&|b| b[31] ^= 1), "acknowledgement");
    assert!(!appends(&|b| b[33] |= 1), "FIN");
    assert!(!appends(&|b| b[35] ^= 1), "window");
    assert!(!appends(&|b| b[51] ^= 1), "timestamp");
    assert!(!appends(&|b| b.push(0)), "a longer payload");
    // A complete checksum.
    let (whole, second) = (Offload::default(), &segments[1]);
    assert!(!start(&segments[0]).unwrap().append(&second.0, whole));
    assert!(Coalescer::start(&segments[0].0, whole).is_none());
    let mut reordered = start(second).unwrap();
    assert!(!reordered.append(&segments[0].0, segments[0].1));
}

#[test]
fn a_short_packet_or_push_ends_the_super_packet() {
    let (bytes, _) = super_packet(true, false, &[1; 250]);
    let segments = cut(&bytes, offload_of(true, false, 100));
    let mut coalescer = Coalescer::start(&segments[0].0, segments[0].1).unwrap();
    assert!(coalescer.append(&segments[2].0, segments[2].1));
    assert!(!coalescer.append(&segments[1].0, segments[1].1));
    let (bytes, _) = super_packet(false, true, &[1; 200]);
    let segments = cut(&bytes, offload_of(false, true, 100));
    let mut coalescer = Coalescer::start(&segments[1].0, segments[1].1).unwrap();
    let appended = coalescer.append(&segments[0].0, segments[0].1);
    assert!(!appended, "PSH ends it");
}

#[test]
fn headers_that_mean_nothing_are_refused() {
    let header = |flags: u8, kind: u8, size: u16| {
        let [a, b] = size.to_ne_bytes();
        Offload::parse(&[flags, kind, 0, 0, a, b, 0, 0, 0, 0])
    };
    assert_eq!(header(0, 0, 0), Ok(Offload::default()));
    // UFO was never asked for.
    assert_eq!(header(1, 3, 1000), Err(BadVnet::Kind));
    assert_eq!(header(1, 1, 0), Err(BadVnet::Size));
    assert_eq!(header(0, 1, 1000), Err(BadVnet::Checksum));
    let refused = |bytes: &[u8], kind| {
        let layout = Layout::walk(bytes).unwrap();
        Super::new(bytes, &layout, gso(kind, 10)).err()
    };
    let (bytes, _) = super_packet(false, true, &[0; 100]);
    assert_eq!(refused(&bytes, GsoKind::Udp), Some(BadSuper::Kind));
    let mut cut_short = bytes.clone();
    cut_short[32] = 0xF0;
    cut_short.truncate(60);
    cut_short[3] = 60;
    assert_eq!(refused(&cut_short, GsoKind::TcpV4), Some(BadSuper::Header));
}
