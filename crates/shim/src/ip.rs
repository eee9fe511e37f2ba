//! IP packets from the view of a router or a marking host: the positions of their parts, and the
//! few fields that routers rewrite.
//!
//! [`Layout::walk`] checks a packet's headers once. The layout does not borrow the packet, so that
//! a router can store it next to a queued packet and rewrite the packet later. Methods take the
//! packet's bytes again. If these are not the bytes that were walked, methods read whatever is
//! there, or nothing, and never panic.

mod hash;
mod rewrite;
mod walk;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;

pub use walk::WalkError;

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

#[cfg(test)]
#[path = "ip_tests.rs"]
mod tests;
