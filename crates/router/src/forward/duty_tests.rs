//! A router's duties towards its neighbours (RFC 1812, RFC 4443), and forbidden behaviour.

use pathmark_cc::Instant;
use pathmark_shim::checksum::Sum;
use pathmark_shim::ip::Layout;

use super::tests::{BACK, DST, OUT, SRC, drain, pass, renew, router, udp};
use super::*;
use crate::ip::{Fragments, Reassembly, Routes, checksum_holds, cut_v6};

const SRC6: &str = "fd00::1";
const OWN: &str = "10.9.0.1";
const OWN6: &str = "fd00:9::1";

/// An echo request with `len` bytes of data.
fn echo(source: &str, destination: &str, len: usize) -> Vec<u8> {
    let mut packet = udp(source, destination, 64, 0, &vec![7; len]);
    let sixth = packet[0] >> 4 == 6;
    let (at, protocol) = if sixth { (40, 58) } else { (20, 1) };
    packet[if sixth { 6 } else { 9 }] = protocol;
    packet[at..at + 8].copy_from_slice(&[if sixth { 128 } else { 8 }, 0, 0, 0, 1, 2, 3, 4]);
    if !sixth {
        renew(&mut packet);
    }
    let upper = packet.len() - at;
    let start = if sixth {
        Layout::walk(&packet)
            .unwrap()
            .pseudo_header(&packet, upper as u32)
    } else {
        Sum::new()
    };
    let sum = start.bytes(&packet[at..]).finish();
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    assert!(checksum_holds(&packet, &Layout::walk(&packet).unwrap()));
    packet
}

fn replies(router: &mut Router) -> Vec<Vec<u8>> {
    let replies = drain(router, BACK).into_iter();
    replies.map(|(bytes, _)| bytes).collect()
}

/// Sends every packet of these prefixes to the port `OUT`.
fn route_out(router: &mut Router, prefixes: &[&str]) {
    let mut routes = Routes::new();
    for prefix in prefixes {
        routes.insert(prefix.parse().unwrap(), Target::Port(OUT));
    }
    let ports = router.take_ports();
    router.replace(ports, routes);
}

#[test]
fn echo_replies_are_limited_as_well() {
    let mut router = router(1500, None, false);
    for _ in 0..50 {
        pass(&mut router, &echo(SRC, OWN, 56));
    }
    assert_eq!(replies(&mut router).len(), 5);
    assert_eq!(router.counters().icmp_suppressed, 45);
}

#[test]
fn udp_for_the_router_is_unreachable() {
    let mut router = router(1500, None, false);
    for (source, own, at, expected) in [(SRC, OWN, 20, [3, 3]), (SRC6, OWN6, 40, [1, 4])] {
        let packet = udp(source, own, 64, 0, b"a question");
        pass(&mut router, &packet);
        let reply = replies(&mut router).remove(0);
        assert_eq!(reply[at..at + 2], expected);
        assert_eq!(reply[at + 8..], packet, "it quotes the packet");
        assert!(checksum_holds(&reply, &Layout::walk(&reply).unwrap()));
    }
    let counters = router.counters();
    assert_eq!((counters.local, counters.icmp_sent), (2, 2));
}

#[test]
fn a_wrong_checksum_gets_no_answer() {
    let mut router = router(1500, None, false);
    for (source, own) in [(SRC, OWN), (SRC6, OWN6)] {
        let mut packet = echo(source, own, 56);
        pass(&mut router, &packet);
        assert_eq!(replies(&mut router).len(), 1);
        *packet.last_mut().unwrap() ^= 1;
        pass(&mut router, &packet);
        assert!(replies(&mut router).is_empty());
    }
    assert_eq!(router.counters().bad_icmp_checksum, 2);
}

/// A length of 0 with hop-by-hop options would cut off everything behind it.
#[test]
fn jumbograms_are_dropped_whole() {
    let mut router = router(1500, None, false);
    let mut packet = udp(SRC6, "fd00:1::2", 64, 0, &[7; 100]);
    pass(&mut router, &packet);
    assert_eq!(drain(&mut router, OUT).len(), 1);
    packet[4..7].fill(0);
    pass(&mut router, &packet);
    assert!(drain(&mut router, OUT).is_empty());
    assert_eq!(router.counters().jumbogram, 1);
}

#[test]
fn packets_from_the_routers_own_addresses_are_dropped() {
    let mut router = router(1500, None, false);
    for (source, destination) in [(OWN, DST), (OWN6, "fd00:1::2"), (OWN, OWN)] {
        let packet = udp(source, destination, 64, 0, &[7; 10]);
        pass(&mut router, &packet);
    }
    pass(&mut router, &echo(OWN, OWN, 56));
    assert!(drain(&mut router, OUT).is_empty() && replies(&mut router).is_empty());
    assert_eq!(router.counters().spoofed_own, 4);
}

/// A packet from an address that belongs to no single host must be neither answered nor
/// reassembled.
#[test]
fn the_router_answers_only_unicast_sources() {
    let mut router = router(1500, None, false);
    // With routes to all of them, such as a default route.
    route_out(&mut router, &["0.0.0.0/0", "::/0"]);
    let sources = "0.0.0.0 0.1.2.3 127.0.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ff02::1";
    for source in sources.split(' ') {
        let own = if source.contains(':') { OWN6 } else { OWN };
        let ping = echo(source, own, 56);
        let mut piece = ping.clone();
        if own == OWN {
            piece[6] = 0x20;
            renew(&mut piece);
        }
        for packet in [&ping, &piece, &udp(source, own, 64, 0, &[7; 10])] {
            pass(&mut router, packet);
        }
        assert!(drain(&mut router, OUT).is_empty(), "{source}");
        assert!(replies(&mut router).is_empty(), "{source}");
        assert_eq!(router.reassembly.held(), 0, "{source}");
    }
    let counters = router.counters();
    let sent = 3 * sources.split(' ').count() as u64;
    assert_eq!(counters.not_forwardable, sent);
    assert_eq!((counters.local, counters.icmp_sent), (0, 0));
}

/// A host that is known on only one link must be answered there, wherever other packets to such
/// addresses would go. An answer without a way back must be counted.
#[test]
fn neighbours_are_answered_on_their_own_link() {
    let mut router = router(1500, None, false);
    let (local, local6) = ("169.254.7.7", "fe80::7");
    route_out(&mut router, &["10.0.0.0/8", "169.254.0.0/16", "::/0"]);
    for (source, own) in [(local, OWN), (local6, OWN6)] {
        pass(&mut router, &echo(source, own, 56));
        assert_eq!(replies(&mut router).len(), 1, "{source}");
        assert!(drain(&mut router, OUT).is_empty(), "{source}");
    }
    let unreachable = udp(local, OWN, 64, 0, &[7; 10]);
    pass(&mut router, &unreachable);
    assert_eq!(replies(&mut router).len(), 1);
    let before = router.counters().icmp_suppressed;
    let far = echo("192.0.2.9", OWN, 56);
    pass(&mut router, &far);
    assert!(replies(&mut router).is_empty() && drain(&mut router, OUT).is_empty());
    assert_eq!(router.counters().icmp_suppressed, before + 1);
}

/// If configured, sources must route back to the port of arrival.
#[test]
fn sources_route_back() {
    let mut router = router(1500, None, false);
    let foreign = udp("10.3.0.1", DST, 64, 0, &[7; 10]);
    let nowhere = udp("192.0.2.1", DST, 64, 0, &[7; 10]);
    for (checks, passed) in [(false, 3), (true, 1)] {
        router.port_mut(BACK).unwrap().settings.source_check = checks;
        // A changed port is looked at once.
        assert!(replies(&mut router).is_empty());
        for packet in [&foreign, &nowhere, &udp(SRC, DST, 64, 0, &[7; 10])] {
            pass(&mut router, packet);
        }
        assert_eq!(drain(&mut router, OUT).len(), passed);
    }
    assert_eq!(router.counters().source_check, 2);
}

/// A fragmented ping must be answered like the whole one, in fragments that fit.
#[test]
fn a_fragmented_ping_is_answered() {
    for (source, own, at) in [(SRC, OWN, 20), (SRC6, OWN6, 40)] {
        let mut router = router(1500, None, false);
        let request = echo(source, own, 4_000);
        let mut pieces = Vec::new();
        if at == 20 {
            let mut fragments = Fragments::new(&request, 1_500).unwrap();
            let mut out = [0; 1_500];
            while let Some(len) = fragments.next_into(&mut out) {
                pieces.push(out[..len].to_vec());
            }
        } else {
            cut_v6(&request, 1_500, 9, |piece| pieces.push(piece.to_vec()));
        }
        assert_eq!(pieces.len(), 3);
        for piece in pieces.iter().rev() {
            pass(&mut router, piece);
        }
        let answer = replies(&mut router);
        assert_eq!(answer.len(), 3);
        let mut reassembly = Reassembly::default();
        let mut whole = None;
        for piece in answer {
            assert!(piece.len() <= 1_500);
            whole = reassembly.insert(Instant::ZERO, &piece);
        }
        let whole = whole.expect("the pieces make a packet");
        assert!(checksum_holds(&whole, &Layout::walk(&whole).unwrap()));
        assert_eq!(whole[at + 4..], request[at + 4..]);
        assert_eq!(router.reassembly.held(), 0);
    }
}
