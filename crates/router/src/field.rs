//! Headers that the router reads and assembles.

use std::net::{Ipv4Addr, Ipv6Addr};

use pathmark_shim::checksum::Sum;

/// TTL, or hop limit, of the router's own packets.
const TTL: u8 = 64;

/// Reads a 16-bit field in network byte order at `at`.
pub(crate) fn get(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes `value` in network byte order at `at`, if there is room.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
        *field = value.to_be_bytes();
    }
}

/// Writes the low 16 bits of `value`. This suits lengths that fit, and numbers counted modulo
/// 2¹⁶.
pub(crate) fn put_low(bytes: &mut [u8], at: usize, value: usize) {
    put(bytes, at, (value & 0xFFFF) as u16);
}

/// Recomputes the checksum of the IPv4 header at the start of `bytes`.
pub(crate) fn renew_v4(bytes: &mut [u8]) {
    put(bytes, 10, 0);
    let first = bytes.first().copied().unwrap_or(0);
    let header = bytes.get(..usize::from(first & 0x0F) * 4);
    let sum = Sum::new().bytes(header.unwrap_or(&[])).finish();
    put(bytes, 10, sum);
}

/// Writes an IPv4 header without options, with DF, to the front of `out`. `total` is the length
/// of the packet. If there is no room, returns `None`.
pub(crate) fn write_v4(
    out: &mut [u8],
    total: u16,
    protocol: u8,
    service: u8,
    from: Ipv4Addr,
    to: Ipv4Addr,
) -> Option<()> {
    let header = out.get_mut(..20)?;
    header.fill(0);
    header.get_mut(..2)?.copy_from_slice(&[0x45, service]);
    put(header, 2, total);
    put(header, 6, 0x4000);
    put(header, 8, u16::from_be_bytes([TTL, protocol]));
    header.get_mut(12..16)?.copy_from_slice(&from.octets());
    header.get_mut(16..20)?.copy_from_slice(&to.octets());
    renew_v4(header);
    Some(())
}

/// Writes an IPv6 header to the front of `out`. `len` is the length of what follows it. If there
/// is no room, returns `None`.
pub(crate) fn write_v6(
    out: &mut [u8],
    len: u16,
    protocol: u8,
    from: Ipv6Addr,
    to: Ipv6Addr,
) -> Option<()> {
    let header = out.get_mut(..40)?;
    header.fill(0);
    *header.first_mut()? = 0x60;
    put(header, 4, len);
    put(header, 6, u16::from_be_bytes([protocol, TTL]));
    header.get_mut(8..24)?.copy_from_slice(&from.octets());
    header.get_mut(24..40)?.copy_from_slice(&to.octets());
    Some(())
}
