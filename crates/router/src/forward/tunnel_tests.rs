//! Tunnel packets through three routers: entry, middle, exit. The middle one sees only outer
//! packets.

use pathmark_cc::VcpCode;
use pathmark_shim::ip::{Layout, protocol};
use pathmark_shim::udp::Datagram;
use vcp_proto::Packet;

use super::super_tests::{segments_of, super_packet};
use super::tests::*;
use super::*;
use crate::encapsulation::{Encapsulation, IP_IN_UDP};
use crate::offload::Offload;

/// Bytes of an IPv4 header, and of UDP header and VCP shim.
const IP: usize = 20;
const INSERTED: usize = 24;

/// An IP-in-IP packet over IPv4, with an inner packet of `tail` bytes after a fresh shim.
fn tunnelled(flags: u16, tail: usize) -> Vec<u8> {
    let inner = udp("192.168.1.1", "192.168.2.1", 60, 0x4000, &shimmed(tail));
    // Cuts out the UDP header.
    let mut bytes = udp(SRC, DST, 64, flags, &inner);
    bytes.drain(IP..IP + 8);
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[9] = protocol::IPV4;
    renew(&mut bytes);
    bytes
}

/// A router in front of the tunnel, whose packets leave or arrive by port `port`.
fn end(port: usize) -> Router {
    let mut router = router(1500, None, false);
    router.port_mut(port).unwrap().settings.tunnel = Some(Encapsulation::IpInIp);
    assert!(drain(&mut router, port).is_empty());
    router
}

fn pass(router: &mut Router, bytes: &[u8]) -> Vec<u8> {
    send(router, bytes, Offload::default());
    let mut out = drain(router, OUT);
    assert_eq!(out.len(), 1);
    let (bytes, offload) = out.remove(0);
    assert_eq!(offload, Offload::default());
    let layout = Layout::walk(&bytes).unwrap();
    assert!(layout.header_checksum_ok(&bytes) && layout.len() == bytes.len());
    bytes
}

fn code_inside(bytes: &[u8]) -> VcpCode {
    let inner = &bytes[IP..];
    assert!(udp_checksum_ok(inner));
    Packet::parse(&inner[28..]).unwrap().code()
}

fn tally(router: &Router, port: usize) -> (u64, u64, u64) {
    let tally = router.ports()[port].tunnel().unwrap();
    (tally.copied, tally.merged, tally.refused)
}

#[test]
fn a_router_that_sees_packets_outside_alone_marks_those_inside() {
    let sent = tunnelled(0x4000, 900);
    let mut middle = router(1500, Some(1_000_000), true);
    // Without tunnel ports, it must not mark anything.
    assert_eq!(code_inside(&pass(&mut middle, &sent)), VcpCode::Low);

    let (mut entry, mut exit) = (end(OUT), end(BACK));
    let outside = pass(&mut entry, &sent);
    assert_eq!(outside.len(), sent.len() + INSERTED);
    let layout = Layout::walk(&outside).unwrap();
    let datagram = Datagram::locate(&outside, &layout).unwrap();
    assert_eq!(datagram.ports(&outside).unwrap().1, IP_IN_UDP);
    let marked = pass(&mut middle, &outside);
    let arrived = pass(&mut exit, &marked);
    assert_eq!(code_inside(&arrived), VcpCode::Over);
    // Except for the shim with its checksum, and three outer hops, the packet must be unchanged.
    assert_eq!(arrived.len(), sent.len());
    assert_eq!((arrived[8], arrived[9]), (61, protocol::IPV4));
    assert_eq!(arrived[IP..IP + 26], sent[IP..IP + 26]);
    assert_eq!(arrived[IP + 44..], sent[IP + 44..]);
    let tallies = [tally(&entry, OUT), tally(&exit, BACK)];
    assert_eq!(tallies, [(1, 0, 0), (0, 1, 0)]);
    assert_eq!(exit.ports()[OUT].tunnel(), None);
}

/// A super-packet must leave as packets of the tunnel.
#[test]
fn segments_are_taken_out_one_by_one() {
    let (mut entry, mut exit) = (end(OUT), end(BACK));
    let sent = tunnelled(0x4000, 900);
    let outside = pass(&mut entry, &sent);
    let payload = &outside[IP + 8..];
    let offload = segments_of(payload.len() as u16);
    let mut whole = udp(SRC, DST, 63, 0x4000, &payload.repeat(3));
    whole[IP..IP + 4].copy_from_slice(&outside[IP..IP + 4]);
    send(&mut exit, &whole, offload);
    let out = drain(&mut exit, OUT);
    assert_eq!(out.len(), 3);
    for (bytes, offload) in out {
        assert_eq!((bytes.len(), offload), (sent.len(), Offload::default()));
        assert_eq!(code_inside(&bytes), VcpCode::Low);
    }
    assert_eq!(tally(&exit, BACK), (0, 3, 0));
    let received = exit.ports()[BACK].tally();
    assert_eq!((received.received, received.forwarded), (3, 3));
}

#[test]
fn what_the_copy_adds_must_fit() {
    let mut entry = end(OUT);
    let room = 1500 - INSERTED - 2 * IP - 8 - 16;
    assert_eq!(pass(&mut entry, &tunnelled(0x4000, room)).len(), 1500);
    send(&mut entry, &tunnelled(0x4000, room + 1), Offload::default());
    let out = drain(&mut entry, BACK);
    assert!(drain(&mut entry, OUT).is_empty());
    let icmp = &out[0].0[IP..];
    assert_eq!((icmp[0], icmp[1]), (3, 4), "fragmentation needed");
    assert_eq!(icmp[6..8], ((1500 - INSERTED) as u16).to_be_bytes());
    // A packet that may be fragmented passes without a copy.
    let sent = tunnelled(0, room + 1);
    assert_eq!(pass(&mut entry, &sent)[9..], {
        let mut expected = sent.clone();
        Layout::walk(&sent).unwrap().decrement_ttl(&mut expected);
        expected[9..].to_vec()
    });
    assert_eq!(tally(&entry, OUT), (1, 0, 1));
    send(&mut entry, &tunnelled(0, 1500), Offload::default());
    assert_eq!(drain(&mut entry, OUT).len(), 2, "fragments");
}

/// The minimum MTU of IPv6 has no room for a copy, and senders ignore lower ones.
#[test]
fn ipv6_packets_of_the_least_mtu_go_without_a_copy() {
    const HEADER: usize = 40;
    let mut entry = end(OUT);
    entry.port_mut(OUT).unwrap().settings.mtu = 1300;
    for (len, copied) in [(1276, 1), (1277, 0), (1280, 0)] {
        let tail = len - HEADER - IP - 8 - 16;
        let inner = udp("192.168.1.1", "192.168.2.1", 60, 0x4000, &shimmed(tail));
        let mut sent = udp("fd00::1", "fd00:1::2", 64, 0, &inner);
        sent.drain(HEADER..HEADER + 8);
        sent[4..6].copy_from_slice(&(inner.len() as u16).to_be_bytes());
        sent[6] = protocol::IPV4;
        assert_eq!(sent.len(), len);
        let before = tally(&entry, OUT);
        send(&mut entry, &sent, Offload::default());
        assert_eq!(entry.counters().too_big, 0);
        let out = drain(&mut entry, OUT);
        assert_eq!(out[0].0.len(), len + copied * INSERTED);
        let after = tally(&entry, OUT);
        let copied = copied as u64;
        assert_eq!(after, (before.0 + copied, 0, before.2 + 1 - copied));
    }
}

/// Packets of flows without shims must pass as they would without a tunnel port.
#[test]
fn other_packets_do_not_change() {
    let (mut entry, mut exit) = (end(OUT), end(BACK));
    for payload in [vec![0x40; 300], shimmed(100)] {
        let sent = udp(SRC, DST, 64, 0x4000, &payload);
        let mut expected = sent.clone();
        Layout::walk(&sent).unwrap().decrement_ttl(&mut expected);
        assert_eq!(pass(&mut entry, &sent), expected);
        assert_eq!(pass(&mut exit, &sent), expected);
    }
    let (bytes, offload) = super_packet(true);
    send(&mut exit, &bytes, offload);
    assert_eq!(drain(&mut exit, OUT).len(), 1);
    assert_eq!(tally(&exit, BACK), (0, 0, 0));
}
