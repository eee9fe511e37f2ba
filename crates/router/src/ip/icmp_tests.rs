//! ICMP messages, byte by byte where it matters.

use std::net::IpAddr;

use pathmark_shim::ip::Layout;
use proptest::prelude::*;

use super::icmp::{IcmpError, echo_reply, error};
use crate::test_packets::ip;

fn v4(protocol: u8, from: &str, to: &str, upper: &[u8]) -> Vec<u8> {
    ip(from, to, 1, 0, protocol, upper)
}

fn v6(next: u8, to: &str, upper: &[u8]) -> Vec<u8> {
    ip("fd00::1", to, 1, 0, next, upper)
}

const HOST: &str = "10.0.0.1";
const OTHER: &str = "10.0.0.2";
const OTHER6: &str = "fd00::2";

fn about(packet: &[u8], what: IcmpError) -> Option<Vec<u8>> {
    let layout = Layout::walk(packet).unwrap();
    let source = if packet[0] >> 4 == 4 {
        "192.0.2.1"
    } else {
        "fd00::99"
    };
    let source: IpAddr = source.parse().unwrap();
    let mut out = [0; 1500];
    error(what, packet, &layout, source, &mut out).map(|len| out[..len].to_vec())
}

fn sums_to_zero(parts: &[&[u8]]) -> bool {
    let bytes = parts.concat();
    let sum: u32 = bytes
        .chunks(2)
        .map(|p| u32::from(p[0]) << 8 | p.get(1).map_or(0, |b| u32::from(*b)))
        .sum();
    (sum >> 16) + (sum & 0xFFFF) == 0xFFFF
}

fn checksums_hold(message: &[u8]) -> bool {
    if message[0] >> 4 == 4 {
        return sums_to_zero(&[&message[..20]]) && sums_to_zero(&[&message[20..]]);
    }
    let pseudo = [
        &message[8..40],
        &((message.len() - 40) as u16).to_be_bytes(),
        &[0, 58],
    ];
    sums_to_zero(&[&pseudo.concat(), &message[40..]])
}

#[test]
fn time_exceeded_quotes_the_packet() {
    let upper = [0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4];
    let packet = v4(17, HOST, OTHER, &upper);
    let message = about(&packet, IcmpError::TimeExceeded).unwrap();
    assert!(checksums_hold(&message));
    assert_eq!(message[9], 1);
    assert_eq!(message[12..20], [192, 0, 2, 1, 10, 0, 0, 1]);
    assert_eq!(message[20..22], [11, 0]);
    assert_eq!(message[28..], packet);
}

#[test]
fn too_big_tells_the_mtu() {
    let packet = v4(6, HOST, OTHER, &[0; 1400]);
    let message = about(&packet, IcmpError::TooBig(1280)).unwrap();
    assert_eq!(message.len(), 576);
    assert_eq!(message[20..22], [3, 4]);
    assert_eq!(message[24..28], [0, 0, 5, 0]);
    let packet = v6(6, OTHER6, &[0; 1400]);
    let message = about(&packet, IcmpError::TooBig(1280)).unwrap();
    assert_eq!(message.len(), 1280);
    assert!(checksums_hold(&message));
    assert_eq!(message[40..42], [2, 0]);
    assert_eq!(message[44..48], [0, 0, 5, 0]);
}

#[test]
fn nothing_is_said_where_nothing_must_be() {
    let mut later = v4(17, HOST, OTHER, &[0; 8]);
    later[7] = 1;
    let of_kind = |kind: u8| [kind, 0, 0, 0, 0, 0, 0, 0];
    for (packet, silent, what) in [
        (v4(17, HOST, OTHER, &[0; 8]), false, "a datagram"),
        (v4(1, HOST, OTHER, &of_kind(3)), true, "an error"),
        (v4(1, HOST, OTHER, &of_kind(8)), false, "a query"),
        (v4(17, "224.0.0.1", OTHER, &[0; 8]), true, "from a group"),
        (v4(17, "0.0.0.0", OTHER, &[0; 8]), true, "from nobody"),
        (v4(17, HOST, "255.255.255.255", &[0; 8]), true, "to all"),
        (later, true, "a later fragment"),
        (v6(17, "ff02::1", &[0; 8]), true, "to all nodes"),
        (v6(58, OTHER6, &of_kind(3)), true, "an error of IPv6"),
        (v6(58, OTHER6, &of_kind(128)), false, "a query of IPv6"),
    ] {
        let said = about(&packet, IcmpError::NoRoute);
        assert_eq!(said.is_none(), silent, "{what}");
    }
}

#[test]
fn echo_requests_are_answered() {
    let mut out = [0; 100];
    let mut reply = |packet: &[u8]| {
        let len = echo_reply(packet, &Layout::walk(packet).unwrap(), &mut out)?;
        assert!(checksums_hold(&out[..len]));
        Some(out[..len].to_vec())
    };
    let own = "192.0.2.1";
    let out = reply(&v4(1, HOST, own, &[8, 0, 9, 9, 1, 2, 3, 4, 5])).unwrap();
    assert_eq!(out[12..20], [192, 0, 2, 1, 10, 0, 0, 1]);
    assert_eq!((out[20], &out[24..]), (0, &[1, 2, 3, 4, 5][..]));
    let out = reply(&v6(58, OTHER6, &[128, 0, 9, 9, 1, 2, 3, 4])).unwrap();
    assert_eq!(out[40], 129);
    assert_eq!(reply(&v4(17, HOST, own, &[8; 8])), None);
}

proptest! {
    #[test]
    fn garbage_never_panics(
        mut bytes in prop::collection::vec(any::<u8>(), 20..120), four: bool, room in 0usize..300,
    ) {
        bytes[0] = if four { 0x45 } else { 0x60 };
        let total = bytes.len() as u16;
        if four {
            bytes[2..4].copy_from_slice(&total.to_be_bytes());
        } else if bytes.len() > 40 {
            bytes[4..6].copy_from_slice(&(total - 40).to_be_bytes());
        }
        if let Ok(layout) = Layout::walk(&bytes) {
            let mut out = vec![0; room];
            let source: IpAddr = if four { "192.0.2.1" } else { "fd00::1" }.parse().unwrap();
            for what in [IcmpError::NoRoute, IcmpError::TooBig(1280)] {
                if let Some(len) = error(what, &bytes, &layout, source, &mut out) {
                    prop_assert!(checksums_hold(&out[..len]));
                }
            }
            let _ = echo_reply(&bytes, &layout, &mut out);
        }
    }
}
