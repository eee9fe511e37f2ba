use pathmark_cc::{Answer, Request, VcpAnswer, VcpCode, XcpRequest};
use pathmark_protocols::shim::{Identity, write_packet};
use pathmark_shim::ip::Version::{V4, V6};
use proptest::prelude::*;
use vcp_proto::{Packet, Repr};

use super::*;
use crate::test_packets;

const BOTH: [Encapsulation; 2] = [Encapsulation::IpInIp, Encapsulation::Vxlan];

/// An IP packet with a correct header checksum.
fn ip(version: Version, number: u8, upper: &[u8]) -> Vec<u8> {
    let (from, to) = match version {
        V4 => ("10.0.0.1", "10.0.0.2"),
        V6 => ("fd00::1", "fd00:1::2"),
    };
    test_packets::ip(from, to, 60, 0x4000, number, upper)
}

/// An IP packet with a UDP datagram.
fn udp(version: Version, port: u16, checksum: bool, payload: &[u8]) -> Vec<u8> {
    let mut upper = vec![0x30, 0x39, 0, 0, 0, 0, 0, 0];
    put(&mut upper, 2, port);
    put_low(&mut upper, 4, 8 + payload.len());
    upper.extend(payload);
    let mut bytes = ip(version, protocol::UDP, &upper);
    if checksum {
        renew_udp(&mut bytes);
    }
    bytes
}

/// An IPv4 packet with a router alert (RFC 2113) in its header.
fn with_option(packet: &[u8]) -> Vec<u8> {
    let mut bytes = [&packet[..20], &[0x94, 4, 0, 0], &packet[20..]].concat();
    let end = bytes.len();
    bytes[0] = 0x46;
    put_low(&mut bytes, 2, end);
    renew_v4(&mut bytes);
    bytes
}

fn located(bytes: &[u8]) -> (Layout, Datagram) {
    let layout = Layout::walk(bytes).unwrap();
    (layout, Datagram::locate(bytes, &layout).unwrap())
}

fn renew_udp(bytes: &mut [u8]) {
    let (layout, udp) = located(bytes);
    let sum = udp.compute_checksum(bytes, &layout);
    put(bytes, layout.upper_offset() + 6, sum);
}

/// Whether the checksums of a UDP packet, if it has any, are those that a sender computes.
fn is_right(bytes: &[u8]) -> bool {
    let (layout, udp) = located(bytes);
    let at = layout.upper_offset() + 6;
    let field = get(bytes, at).unwrap();
    layout.header_checksum_ok(bytes)
        && layout.len() == bytes.len()
        && (field == 0 || field == udp.compute_checksum(bytes, &layout))
}

/// Shortens the UDP length by the last 4 bytes.
fn shortened(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = located(&bytes).0.upper_offset() + 4;
    let len = get(&bytes, at).unwrap();
    put(&mut bytes, at, len - 4);
    bytes
}

fn shimmed() -> Vec<u8> {
    let mut payload = Repr::initial(&Request::default(), true).emit().to_vec();
    payload.extend([0x41; 33]);
    payload
}

fn framed(vlan: bool, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![8, 0, 0, 0, 0, 0, 9, 0];
    bytes.extend([0x52; 12]);
    if vlan {
        bytes.extend([0x81, 0, 0, 7]);
    }
    bytes.extend(if inner[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xDD]
    });
    bytes.extend(inner);
    bytes
}

/// Packets of both tunnels around `inner`: over both IP versions, with and without optional
/// parts.
fn around(inner: &[u8]) -> Vec<(Encapsulation, Vec<u8>)> {
    let carried = match inner[0] >> 4 {
        4 => protocol::IPV4,
        _ => protocol::IPV6,
    };
    // A destination option: the encapsulation limit of RFC 2473.
    let limited = [&[carried, 0, 4, 1, 4, 1, 0, 0], inner].concat();
    let vxlan = udp(V4, VXLAN, true, &framed(false, inner));
    let mut packets = vec![
        (Encapsulation::IpInIp, ip(V4, carried, inner)),
        (Encapsulation::IpInIp, with_option(&ip(V4, carried, inner))),
        (Encapsulation::Vxlan, with_option(&vxlan)),
        (Encapsulation::IpInIp, ip(V6, carried, inner)),
        (Encapsulation::IpInIp, ip(V6, 60, &limited)),
    ];
    for version in [V4, V6] {
        for (checksum, vlan) in [(false, false), (true, false), (true, true)] {
            let bytes = udp(version, VXLAN, checksum, &framed(vlan, inner));
            packets.push((Encapsulation::Vxlan, bytes));
        }
    }
    packets
}

fn inserted(tunnel: Encapsulation, packet: &[u8]) -> Option<Vec<u8>> {
    let layout = Layout::walk(packet).unwrap();
    let insertion = tunnel.insertion(packet, &layout, 1)?;
    let mut bytes = packet.to_vec();
    assert_eq!(insertion.insert(&mut bytes, &layout), None, "no room");
    assert_eq!(bytes, packet);
    bytes.resize(packet.len() + insertion.len(), 0xEE);
    let layout = insertion.insert(&mut bytes, &layout).unwrap();
    assert_eq!(Layout::walk(&bytes), Ok(layout));
    assert!(tunnel.comes_outside(&bytes, &layout));
    Some(bytes)
}

fn removed(tunnel: Encapsulation, packet: &[u8]) -> Option<(Vec<u8>, Option<bool>)> {
    let layout = Layout::walk(packet).unwrap();
    let mut bytes = packet.to_vec();
    let Some(removed) = tunnel.remove(&mut bytes, &layout) else {
        assert_eq!(bytes, packet);
        return None;
    };
    bytes.truncate(removed.len);
    Some((bytes, removed.merged))
}

/// Writes OVER into the outer shim, as a router would.
fn answer(bytes: &mut [u8]) {
    let over = Answer::Vcp(VcpAnswer {
        code: VcpCode::Over,
        r: None,
        t_rho_ms: 200,
        load_128: 140,
        ..VcpAnswer::default()
    });
    let (_, udp) = located(bytes);
    let id = Identity::new(22);
    assert!(write_packet(bytes, &udp, 0, &over, 1500, &id));
}

#[test]
fn the_answer_outside_arrives_inside() {
    for version in [V4, V6] {
        for checksum in [true, false] {
            let inner = udp(version, 4433, checksum, &shimmed());
            for (tunnel, packet) in around(&inner) {
                let mut outside = inserted(tunnel, &packet).unwrap();
                assert!(is_right(&outside), "{tunnel:?}");
                let (_, datagram) = located(&outside);
                assert_eq!(datagram.payload(&outside)[..16], shimmed()[..16]);
                // Without an answer, nothing inside may change.
                let unchanged = Some((packet.clone(), Some(true)));
                assert_eq!(removed(tunnel, &outside), unchanged);

                answer(&mut outside);
                let (inside, merged) = removed(tunnel, &outside).unwrap();
                assert_eq!(merged, Some(true));
                let at = inside.len() - inner.len();
                let (headers, left) = inside.split_at(at);
                // A VXLAN packet may have an outer checksum, which covers the inner shim.
                let same = headers.iter().zip(&packet).filter(|(a, b)| a == b).count();
                assert!(same >= at - 2, "{tunnel:?}");
                match tunnel {
                    Encapsulation::IpInIp => assert_eq!(headers, &packet[..at]),
                    Encapsulation::Vxlan => assert!(is_right(&inside)),
                }
                assert!(is_right(left));
                let (_, datagram) = located(left);
                let payload = datagram.payload(left);
                let shim = Packet::parse(payload).unwrap();
                let answer = (shim.code(), shim.router(), shim.hops());
                assert_eq!(answer, (VcpCode::Over, 22, 1));
                assert_eq!(payload[16..], shimmed()[16..]);
            }
        }
    }
}

/// IP-in-IP packets without a shim still get an outer UDP header, so that routers see all
/// packets of an inner flow as one flow. VXLAN packets already have one.
#[test]
fn a_packet_without_a_shim_stays_of_its_flow() {
    let with = udp(V4, 4433, true, &shimmed());
    let without = udp(V4, 4433, true, &[0x41; 50]);
    for ((tunnel, one), (_, other)) in around(&with).into_iter().zip(around(&without)) {
        let one = inserted(tunnel, &one).unwrap();
        let Some(outside) = inserted(tunnel, &other) else {
            assert_eq!(tunnel, Encapsulation::Vxlan);
            assert_eq!(removed(tunnel, &other), None);
            continue;
        };
        assert_eq!(tunnel, Encapsulation::IpInIp);
        let ports = |bytes: &[u8]| located(bytes).1.ports(bytes).unwrap();
        assert_eq!(ports(&one), ports(&outside));
        assert!(ports(&one).0 >= EPHEMERAL);
        assert_eq!(removed(tunnel, &outside), Some((other, None)));
    }
}

#[test]
fn a_copy_that_is_not_sound_is_taken_away() {
    let inner = udp(V4, 4433, true, &shimmed());
    for (tunnel, packet) in around(&inner) {
        let mut outside = inserted(tunnel, &packet).unwrap();
        let at = located(&outside).1.payload_offset();
        outside[at + 4] ^= 0x40;
        renew_udp(&mut outside);
        let (inside, merged) = removed(tunnel, &outside).unwrap();
        assert_eq!(merged, Some(false));
        assert_eq!(inside.len(), packet.len());
        assert_eq!(inside[inside.len() - inner.len()..], inner);
    }
}

/// The entry decrements the outer TTL before it inserts the copy, the exit after it removes the
/// copy. Therefore each hop in between without XCP must show inside, including the entry.
#[test]
fn hops_outside_show_in_the_ttl_inside() {
    let request = xcp_proto::Repr::initial(xcp_proto::Form::V4, Some(&XcpRequest::default()), 60);
    let mut shim = [0; 64];
    let len = request.emit(&mut shim).unwrap();
    let xcp_ttl = |payload: &[u8]| xcp_proto::Packet::parse(payload).unwrap().xcp_ttl();
    for version in [V4, V6] {
        let inner = udp(version, 4433, true, &shim[..len]);
        let before = xcp_ttl(&shim).wrapping_sub(ttl_of(&inner));
        for (tunnel, packet) in around(&inner) {
            let mut outside = inserted(tunnel, &packet).unwrap();
            let (layout, udp) = located(&outside);
            // The copy is that of a packet whose TTL is not decremented yet.
            let apart = xcp_ttl(udp.payload(&outside)).wrapping_sub(ttl_of(&outside));
            assert_eq!(apart, before.wrapping_add(1), "{tunnel:?}");
            for _ in 0..3 {
                layout.decrement_ttl(&mut outside).unwrap();
            }
            let (inside, merged) = removed(tunnel, &outside).unwrap();
            assert_eq!(merged, Some(true));
            let left = &inside[inside.len() - inner.len()..];
            assert!(is_right(left));
            assert_eq!(xcp_ttl(located(left).1.payload(left)), xcp_ttl(&shim) + 4);
        }
    }
}

fn ttl_of(bytes: &[u8]) -> u8 {
    Layout::walk(bytes).unwrap().ttl(bytes).unwrap()
}

#[test]
fn other_packets_pass_as_they_are() {
    let inner = udp(V4, 4433, true, &shimmed());
    let mut damaged = inner.clone();
    damaged[8] ^= 1;
    let copied = [&shimmed()[..16], &framed(false, &inner)].concat();
    let mut fragment = ip(V4, protocol::IPV4, &inner);
    put(&mut fragment, 6, 0x2000);
    renew_v4(&mut fragment);
    for packet in [
        fragment,
        inner.clone(),
        udp(V4, IP_IN_UDP, true, &[0x10; 40]),
        udp(V4, IP_IN_UDP, true, &shimmed()),
        udp(V4, VXLAN, true, &shimmed()),
        udp(V4, VXLAN, true, &framed(false, &[0x45; 12])),
        udp(V4, IP_IN_UDP, true, &damaged),
        ip(V4, protocol::IPV4, &damaged),
        // Bytes after the inner packet.
        udp(V4, IP_IN_UDP, true, &[&inner[..], &[0; 4]].concat()),
        // A UDP datagram that ends before the inner packet.
        shortened(udp(V4, IP_IN_UDP, true, &inner)),
        shortened(udp(V6, VXLAN, true, &copied)),
        shortened(udp(V4, VXLAN, true, &framed(false, &inner))),
        ip(V4, protocol::IPV4, &[0x10; 40]),
        ip(V6, protocol::TCP, &[0; 40]),
    ] {
        for tunnel in BOTH {
            assert_eq!(inserted(tunnel, &packet), None, "{tunnel:?} {packet:?}");
            assert_eq!(removed(tunnel, &packet), None, "{tunnel:?} {packet:?}");
        }
    }
}

proptest! {
    /// Whatever the packet, removing must undo inserting.
    #[test]
    fn insertion_and_removal_undo_each_other(
        upper in proptest::collection::vec(any::<u8>(), 0..120),
        choice in 0..8u8,
        shim: bool,
    ) {
        let inner = match (choice % 4, shim) {
            (0, _) => upper.clone(),
            (1, _) => ip(V4, protocol::TCP, &upper),
            (2, true) => udp(V6, 9, false, &[&shimmed()[..], &upper].concat()),
            (_, true) => udp(V4, 9, true, &[&shimmed()[..], &upper].concat()),
            (_, false) => udp(V4, 9, true, &upper),
        };
        let version = if choice < 4 { V4 } else { V6 };
        for packet in [ip(version, protocol::IPV4, &inner), udp(version, VXLAN, true, &framed(
            shim, &[&[0x45][..], &inner[1.min(inner.len())..]].concat(),
        ))] {
            for tunnel in BOTH {
                if let Some(outside) = inserted(tunnel, &packet) {
                    prop_assert!(is_right(&outside));
                    prop_assert_eq!(removed(tunnel, &outside).unwrap().0, packet.clone());
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 40..200),
        six: bool,
        port in 0..3u8,
    ) {
        let end = bytes.len();
        if six {
            (bytes[0], bytes[6]) = (0x60, protocol::UDP);
            put_low(&mut bytes, 4, end - 40);
        } else {
            (bytes[0], bytes[9]) = (0x45, [protocol::UDP, protocol::IPV4][usize::from(port / 2)]);
            put_low(&mut bytes, 2, end);
            put(&mut bytes, 6, 0);
        }
        let at = if six { 42 } else { 22 };
        put(&mut bytes, at, [IP_IN_UDP, VXLAN, 9][usize::from(port)]);
        put_low(&mut bytes, at + 2, end - (at - 2));
        let layout = Layout::walk(&bytes).unwrap();
        for tunnel in BOTH {
            let mut bytes = [&bytes[..], &[0; 80]].concat();
            if let Some(insertion) = tunnel.insertion(&bytes, &layout, 3) {
                prop_assert!(insertion.insert(&mut bytes.clone(), &layout).is_some());
            }
            if let Some(removed) = tunnel.remove(&mut bytes, &layout) {
                prop_assert!(removed.len < layout.len());
                prop_assert_eq!(Layout::walk(&bytes).unwrap().len(), removed.len);
            }
        }
    }
}
