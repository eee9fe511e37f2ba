//! IP packets for the tests.

use std::net::IpAddr;

use pathmark_shim::checksum::Sum;
use pathmark_shim::ip::{Layout, protocol};
use pathmark_shim::udp::Datagram;

/// An IP packet with ECT(0) and a correct header checksum. `flags` are those of IPv4.
pub(crate) fn ip(from: &str, to: &str, ttl: u8, flags: u16, number: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match (from.parse().unwrap(), to.parse().unwrap()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([0x45, 0x02]);
            bytes.extend((20 + upper.len() as u16).to_be_bytes());
            bytes.extend([0, 7]);
            bytes.extend(flags.to_be_bytes());
            bytes.extend([ttl, number, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            renew(&mut bytes);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes.extend([0x60, 0x20, 0, 0]);
            bytes.extend((upper.len() as u16).to_be_bytes());
            bytes.extend([number, ttl]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        _ => panic!("{from} and {to}"),
    }
    bytes.extend(upper);
    bytes
}

/// An IP/UDP packet with a complete checksum.
pub(crate) fn udp(from: &str, to: &str, ttl: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut upper = vec![0x12, 0x34, 0x56, 0x78];
    upper.extend((8 + payload.len() as u16).to_be_bytes());
    upper.extend([0, 0]);
    upper.extend(payload);
    let mut bytes = ip(from, to, ttl, flags, protocol::UDP, &upper);
    let layout = Layout::walk(&bytes).unwrap();
    let datagram = Datagram::locate(&bytes, &layout).unwrap();
    let sum = datagram.compute_checksum(&bytes, &layout);
    let at = layout.upper_offset() + 6;
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Renews the checksum of an IPv4 header without options.
pub(crate) fn renew(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = Sum::new().bytes(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}
