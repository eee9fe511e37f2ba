//! IP packets from the view of a router or a marking host: the positions of their parts, hashes
//! that identify their flow or host, and the few fields that routers read and rewrite.
//!
//! [`Layout::walk`] checks a packet's headers once. The layout does not borrow the packet, so that
//! a router can store it next to a queued packet and rewrite the packet later. Methods take the
//! packet's bytes again. If these are not the bytes that were walked, methods read whatever is
//! there, or nothing, and never panic.

mod walk;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use walk::V4_HEADER;
pub use walk::WalkError;

use super::checksum::{Delta, Sum};

/// Protocol numbers used here (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// An IPv4 packet (RFC 2003).
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// An IPv6 packet (RFC 4213).
    pub const IPV6: u8 = 41;
    /// The fragment header of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const DCCP: u8 = 33;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const SCTP: u8 = 132;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const UDP_LITE: u8 = 136;
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// The part of a datagram that a packet contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// The whole datagram, or an "atomic" fragment (RFC 6946).
    Whole,
    /// The beginning, including as much of the upper-layer header as fits.
    First,
    /// A later part, whose payload is meaningless without the first.
    Later,
}

/// The positions of an IP packet's parts. Small enough to be passed in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the first byte of the upper layer; `end` if the walk stopped before it.
    upper: u32,
    /// Offset after the last byte of the packet.
    end: u32,
    /// Upper-layer protocol, or the header at which the walk stopped.
    protocol: u8,
    version: Version,
    fragment: Fragment,
    /// True if an Authentication Header covers the payload (RFC 4302).
    authenticated: bool,
}

impl Layout {
    /// IP version.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The part of a datagram that the packet contains.
    pub const fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// Upper-layer protocol, or the extension header at which the walk had to stop.
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// True if an Authentication Header covers the payload, so that no router may rewrite it.
    pub const fn authenticated(&self) -> bool {
        self.authenticated
    }

    /// The packet's own length in bytes, including the IP header.
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub const fn len(&self) -> usize {
        self.end as usize
    }

    /// Offset of the upper layer's header in bytes from the start of the packet; equal to
    /// [`len`](Self::len) if no header is accessible.
    pub const fn upper_offset(&self) -> usize {
        self.upper as usize
    }

    /// The upper layer's header and payload; empty if no header is accessible.
    #[inline]
    pub fn upper<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.upper_offset()..self.len()).unwrap_or(&[])
    }

    /// Source address.
    #[inline]
    pub fn source(&self, bytes: &[u8]) -> Option<IpAddr> {
        match self.version {
            Version::V4 => v4_at(bytes, 12),
            Version::V6 => v6_at(bytes, 8),
        }
    }

    /// Destination address, or the next address on the way if an IPv6 routing header contains
    /// others.
    #[inline]
    pub fn destination(&self, bytes: &[u8]) -> Option<IpAddr> {
        match self.version {
            Version::V4 => v4_at(bytes, 16),
            Version::V6 => v6_at(bytes, 24),
        }
    }

    /// Source and destination port, if the protocol begins with ports and the packet contains them.
    #[inline]
    pub fn ports(&self, bytes: &[u8]) -> Option<(u16, u16)> {
        if !matches!(
            self.protocol,
            protocol::TCP | protocol::UDP | protocol::DCCP | protocol::SCTP | protocol::UDP_LITE
        ) {
            return None;
        }
        let &[s0, s1, d0, d1] = self.upper(bytes).first_chunk::<4>()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }

    /// Returns the sum over the pseudo-header of an upper layer of `length` bytes (RFC 768, RFC
    /// 8200 §8.1), with which its checksum starts.
    pub fn pseudo_header(&self, bytes: &[u8], length: u32) -> Sum {
        let addresses = match self.version {
            Version::V4 => bytes.get(12..20),
            Version::V6 => bytes.get(8..40),
        };
        Sum::new()
            .bytes(addresses.unwrap_or(&[]))
            .number(u32::from(self.protocol))
            .number(length)
    }
}

#[inline]
fn v4_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let octets = bytes.get(at..)?.first_chunk::<4>()?;
    Some(IpAddr::V4(Ipv4Addr::from(*octets)))
}

#[inline]
fn v6_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let octets = bytes.get(at..)?.first_chunk::<16>()?;
    Some(IpAddr::V6(Ipv6Addr::from(*octets)))
}

impl Layout {
    /// A hash of the packet's flow: addresses, protocol, and ports if every packet of the flow
    /// contains them. Fragments are hashed without ports, so that all fragments of a datagram have
    /// the same hash. Without knowing `seed`, a sender cannot cheaply cause collisions.
    #[inline]
    pub fn flow_hash(&self, bytes: &[u8], seed: u64) -> u32 {
        let ports = match self.fragment {
            Fragment::Whole => self.ports(bytes),
            Fragment::First | Fragment::Later => None,
        };
        let (source, destination) = ports.unwrap_or((0, 0));
        let tail =
            u64::from(source) << 32 | u64::from(destination) << 16 | u64::from(self.protocol);
        let mut hash = seed ^ 0x9E37_79B9_7F4A_7C15;
        let addresses = match self.version {
            Version::V4 => bytes.get(12..20),
            Version::V6 => bytes.get(8..40),
        };
        for &word in addresses.unwrap_or(&[]).as_chunks::<8>().0 {
            hash = fold_multiply(hash ^ u64::from_be_bytes(word), 0xA076_1D64_78BD_642F);
        }
        let hash = fold_multiply(hash ^ tail, 0xE703_7ED1_A0B4_28DB);
        folded(hash)
    }

    /// A hash of the packet's source: its IPv4 address, or the 64 bits of its IPv6 prefix, because
    /// a host can use any address of this prefix.
    pub fn source_hash(&self, bytes: &[u8], seed: u64) -> u32 {
        let at = match self.version {
            Version::V4 => 12..16,
            Version::V6 => 8..16,
        };
        let address = bytes.get(at).unwrap_or(&[]).iter();
        let address = address.fold(0, |word, &byte| word << 8 | u64::from(byte));
        let seed = seed ^ 0x9E37_79B9_7F4A_7C15;
        folded(fold_multiply(seed ^ address, 0xA076_1D64_78BD_642F))
    }
}

#[inline]
const fn folded(hash: u64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is mixed in first"
    )]
    {
        (hash ^ hash >> 32) as u32
    }
}

/// Both halves of the 128-bit product, folded, so that every bit of the result depends on every bit
/// of `a`.
#[inline]
const fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half is folded in"
    )]
    {
        (product >> 64) as u64 ^ product as u64
    }
}

impl Layout {
    /// TTL or hop limit.
    #[inline]
    pub fn ttl(&self, bytes: &[u8]) -> Option<u8> {
        bytes.get(self.ttl_offset()).copied()
    }

    const fn ttl_offset(&self) -> usize {
        match self.version {
            Version::V4 => 8,
            Version::V6 => 7,
        }
    }

    /// Decrements the TTL or hop limit, updates IPv4's header checksum, and returns the new value.
    /// If it would be 0, returns `None` without changing anything, because the packet must not be
    /// forwarded (RFC 1812 §5.3.1).
    #[inline]
    pub fn decrement_ttl(&self, bytes: &mut [u8]) -> Option<u8> {
        let old = self.ttl(bytes)?;
        let new = old.checked_sub(1).filter(|&ttl| ttl > 0)?;
        *bytes.get_mut(self.ttl_offset())? = new;
        self.renew_v4_checksum(bytes, Delta::word(u16::from(old) << 8, u16::from(new) << 8));
        Some(new)
    }

    /// DSCP, 6 bits (RFC 2474).
    #[inline]
    pub fn dscp(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? >> 2)
    }

    /// ECN field, 2 bits (RFC 3168).
    #[inline]
    pub fn ecn(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? & 3)
    }

    /// Writes the low 6 bits of `dscp`. If the bytes are missing, returns false without changing
    /// anything.
    #[inline]
    pub fn set_dscp(&self, bytes: &mut [u8], dscp: u8) -> bool {
        self.update_traffic_class(bytes, |old| dscp << 2 | old & 3)
    }

    /// Writes the low 2 bits of `ecn`. If the bytes are missing, returns false without changing
    /// anything.
    #[inline]
    pub fn set_ecn(&self, bytes: &mut [u8], ecn: u8) -> bool {
        self.update_traffic_class(bytes, |old| old & !3 | ecn & 3)
    }

    /// DSCP and ECN field in one byte (IPv4 type of service, IPv6 traffic class).
    #[inline]
    pub fn traffic_class(&self, bytes: &[u8]) -> Option<u8> {
        let &[b0, b1] = bytes.first_chunk::<2>()?;
        Some(match self.version {
            Version::V4 => b1,
            Version::V6 => b0 << 4 | b1 >> 4,
        })
    }

    #[inline]
    fn update_traffic_class(&self, bytes: &mut [u8], update: impl FnOnce(u8) -> u8) -> bool {
        let Some(start @ &mut [b0, b1]) = bytes.first_chunk_mut::<2>() else {
            return false;
        };
        *start = match self.version {
            Version::V4 => [b0, update(b1)],
            Version::V6 => {
                let class = update(b0 << 4 | b1 >> 4);
                [b0 & 0xF0 | class >> 4, class << 4 | b1 & 0x0F]
            }
        };
        let change = Delta::word(u16::from_be_bytes([b0, b1]), u16::from_be_bytes(*start));
        self.renew_v4_checksum(bytes, change);
        true
    }

    #[inline]
    fn renew_v4_checksum(&self, bytes: &mut [u8], change: Delta) {
        if self.version == Version::V4
            && let Some(field) = bytes.get_mut(10..).and_then(|b| b.first_chunk_mut::<2>())
        {
            *field = change.apply(u16::from_be_bytes(*field)).to_be_bytes();
        }
    }

    /// Returns true if IPv4's header checksum is correct. IPv6 has none, so the result is always
    /// true.
    #[inline]
    pub fn header_checksum_ok(&self, bytes: &[u8]) -> bool {
        if self.version == Version::V6 {
            return true;
        }
        let header = bytes.first().map_or(0, |first| u16::from(first & 0x0F) * 4);
        if let (V4_HEADER, Some(header)) = (header, bytes.first_chunk::<{ V4_HEADER as usize }>()) {
            return Sum::new().bytes(header).finish() == 0;
        }
        bytes
            .get(..header.into())
            .is_some_and(|header| Sum::new().bytes(header).finish() == 0)
    }

    /// Returns true if the packet must not be fragmented on the way: IPv4's DF flag, always for
    /// IPv6.
    pub fn dont_fragment(&self, bytes: &[u8]) -> bool {
        self.version == Version::V6 || bytes.get(6).is_some_and(|flags| flags & 0x40 != 0)
    }
}

#[cfg(test)]
#[path = "ip_tests.rs"]
mod tests;
