//! Super-packets: passed uncut, cut, and marked segment by segment.

use pathmark_cc::VcpCode;
use pathmark_link::queue::Limit;
use vcp_proto::Packet;

use super::tests::*;
use crate::ip::complete;
use crate::offload::{Gso, GsoKind, Offload};

pub(super) fn super_packet(shims: bool) -> (Vec<u8>, Offload) {
    let segment = if shims {
        shimmed(984)
    } else {
        vec![0x40; 1000]
    };
    let payload = segment.repeat(20);
    let bytes = udp(SRC, DST, 64, 0x4000, &payload[..19_500]);
    (bytes, segments_of(1000))
}

/// The offload of a super-packet over IPv4, whose segments have `size` bytes of UDP payload.
pub(super) fn segments_of(size: u16) -> Offload {
    let (kind, ecn) = (GsoKind::Udp, false);
    Offload {
        gso: Some(Gso { kind, size, ecn }),
        ..partial_udp()
    }
}

#[test]
fn every_segment_of_a_super_packet_is_marked() {
    // Links that are fast enough to pass it uncut, and one for which it is cut.
    for (rate, expected) in [(None, 1), (Some(1_000_000_000), 1), (Some(1_250_000), 20)] {
        let mut router = router(1500, rate, true);
        let (bytes, offload) = super_packet(true);
        send(&mut router, &bytes, offload);
        let out = drain(&mut router, OUT);
        assert_eq!(out.len(), expected);
        let stats = router.ports()[OUT].link.port().stats();
        assert_eq!(stats.sent_packets(), 20);
        assert_eq!(stats.sent_bytes(), 20 * 28 + 19_500);
        assert_eq!(router.counters().forwarded, 20);
        let mut segments = 0;
        for (bytes, offload) in &out {
            assert_eq!(bytes[8], 63, "TTL");
            for segment in bytes[28..].chunks(1000) {
                let shim = Packet::parse(segment).unwrap();
                assert_eq!((shim.code(), shim.hops()), (VcpCode::Over, 1));
                assert_eq!(segment[16..], shimmed(984)[16..segment.len()]);
                segments += 1;
            }
            if expected > 1 {
                let mut done = bytes.clone();
                complete(&mut done, offload.checksum.unwrap());
                assert!(udp_checksum_ok(&done));
            }
        }
        assert_eq!(segments, 20);
    }
}

#[test]
fn segments_without_a_sound_shim_are_left_alone() {
    let mut router = router(1500, Some(10_000_000_000), true);
    let (mut bytes, offload) = super_packet(true);
    bytes[28 + 3000 + 12] ^= 1;
    send(&mut router, &bytes, offload);
    let out = drain(&mut router, OUT);
    for (index, segment) in out[0].0[28..].chunks(1000).enumerate() {
        let sound = Packet::parse(segment).is_ok_and(|shim| shim.hops() == 1);
        assert_eq!(sound, index != 3, "{index}");
    }
    assert_eq!(out[0].0[28 + 3000..28 + 4000], bytes[28 + 3000..28 + 4000]);
}

#[test]
fn a_super_packet_with_and_without_shims_is_cut_and_each_packet_classified() {
    // The first packet must not decide for the others.
    for bare in [&[0, 1, 2, 5][..], &[5]] {
        let mut router = router(1500, Some(10_000_000_000), true);
        let (mut bytes, offload) = super_packet(true);
        for &index in bare {
            bytes[28 + 1000 * index] = 0x40;
        }
        send(&mut router, &bytes, offload);
        let out = drain(&mut router, OUT);
        assert_eq!(out.len(), 20);
        for (index, (packet, _)) in out.iter().enumerate() {
            let marked = Packet::parse(&packet[28..]).is_ok_and(|shim| shim.hops() == 1);
            assert_eq!(marked, !bare.contains(&index), "{index}");
        }
    }
}

#[test]
fn a_super_packet_that_does_not_fit_loses_only_what_does_not() {
    let mut router = router(1500, None, false);
    let out = router.port_mut(OUT).unwrap();
    out.link.port_mut().set_limit(Limit::Packets(30));
    let (bytes, offload) = super_packet(false);
    send(&mut router, &bytes, offload);
    send(&mut router, &bytes, offload);
    assert_eq!(drain(&mut router, OUT).len(), 1 + 10);
    let stats = router.ports()[OUT].link.port().stats();
    assert_eq!((stats.sent_packets(), stats.drops().by_queue()), (30, 10));
}

#[test]
fn a_super_packet_with_large_segments_is_too_big() {
    let mut router = router(1000, None, false);
    let (bytes, offload) = super_packet(false);
    send(&mut router, &bytes, offload);
    let out = drain(&mut router, BACK);
    // The quote must be the first segment, which has 1028 bytes by its own header.
    assert_eq!(out[0].0[20..22], [3, 4]);
    assert_eq!(out[0].0[30..32], 1028u16.to_be_bytes());
}
