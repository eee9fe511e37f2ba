//! IP packets as a router or a marking host sees them: where things are, and the few fields it
//! rewrites.
//!
//! [`Layout::walk`] checks a packet's headers once; the layout holds no borrow, so that a router
//! may keep it beside a queued packet and rewrite that later. Methods take the packet's bytes
//! again. Given other bytes than those walked they read what is there, or nothing, and never panic.

use core::{
    error, fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::checksum::{Delta, Sum};

const V4_HEADER: u16 = 20;
const V6_HEADER: u16 = 40;
/// IPv6 extension headers that are walked; a packet with more is forwarded unread.
const MAX_EXTENSIONS: usize = 8;

/// Protocol numbers that matter here (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const DCCP: u8 = 33;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
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

/// Which part of a datagram a packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// All of it (an "atomic" fragment of RFC 6946 too).
    Whole,
    /// The beginning, upper-layer header included as far as it fits.
    First,
    /// A later part: its payload means nothing without the first.
    Later,
}

/// Why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkError {
    /// No byte at all, or a version that is neither 4 nor 6.
    Version,
    /// Fewer bytes than a header or than the packet's own length says.
    Truncated,
    /// IPv4 header length below 20 bytes, or beyond the packet's total length.
    HeaderLength,
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "neither IPv4 nor IPv6",
            Self::Truncated => "IP packet cut short",
            Self::HeaderLength => "impossible IPv4 header length",
        })
    }
}

impl error::Error for WalkError {}

/// Where the parts of one IP packet are. Small enough to be passed in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First byte of the upper layer; `end` if the walk stopped before it.
    upper: u32,
    /// One past the last byte of the packet.
    end: u32,
    /// Upper-layer protocol, or the header at which the walk stopped.
    protocol: u8,
    version: Version,
    fragment: Fragment,
    /// An Authentication Header covers the payload (RFC 4302).
    authenticated: bool,
}

impl Layout {
    /// Checks the IP header, options and extension headers in front of `bytes`. Bytes behind the
    /// packet's own length (a link's padding) are ignored. The IPv4 header checksum is not verified
    /// here, see [`header_checksum_ok`](Self::header_checksum_ok).
    ///
    /// # Errors
    /// [`WalkError`]. IPv6 extension headers that are cut short, unknown or too many are no error:
    /// such a packet has no upper layer to look at, but can be forwarded.
    #[inline]
    pub fn walk(bytes: &[u8]) -> Result<Self, WalkError> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => Self::walk_v4(bytes),
            Some(6) => Self::walk_v6(bytes),
            _ => Err(WalkError::Version),
        }
    }

    #[inline]
    fn walk_v4(bytes: &[u8]) -> Result<Self, WalkError> {
        let &[first, _, l0, l1, _, _, f0, f1, _, protocol, ..] = bytes
            .first_chunk::<{ V4_HEADER as usize }>()
            .ok_or(WalkError::Truncated)?;
        let header = u32::from(first & 0x0F) * 4;
        let end = u32::from(u16::from_be_bytes([l0, l1]));
        if header < u32::from(V4_HEADER) || header > end {
            return Err(WalkError::HeaderLength);
        }
        if end as usize > bytes.len() {
            return Err(WalkError::Truncated);
        }
        let field = u16::from_be_bytes([f0, f1]);
        let fragment = fragment_kind(field & 0x1FFF, field & 0x2000 != 0);
        let layout = Self {
            upper: if fragment == Fragment::Later {
                end
            } else {
                header
            },
            end,
            protocol,
            version: Version::V4,
            fragment,
            authenticated: false,
        };
        if protocol == protocol::AUTHENTICATION && fragment != Fragment::Later {
            return Ok(layout.extensions(bytes, protocol));
        }
        Ok(layout)
    }

    #[inline]
    fn walk_v6(bytes: &[u8]) -> Result<Self, WalkError> {
        let &[_, _, _, _, l0, l1, next, ..] = bytes
            .first_chunk::<{ V6_HEADER as usize }>()
            .ok_or(WalkError::Truncated)?;
        let end = u32::from(V6_HEADER) + u32::from(u16::from_be_bytes([l0, l1]));
        if end as usize > bytes.len() {
            return Err(WalkError::Truncated);
        }
        let layout = Self {
            upper: V6_HEADER.into(),
            end,
            protocol: next,
            version: Version::V6,
            fragment: Fragment::Whole,
            authenticated: false,
        };
        if is_extension(next) {
            return Ok(layout.extensions(bytes, next));
        }
        Ok(layout)
    }

    /// Walks extension headers (RFC 8200 §4) from `self.upper` on. Takes and returns the layout by
    /// value, so that packets without any need not put theirs into memory.
    #[cold]
    fn extensions(mut self, bytes: &[u8], mut next: u8) -> Self {
        let mut at = self.upper;
        for _ in 0..MAX_EXTENSIONS {
            self.protocol = next;
            if !is_extension(next) {
                // A last header longer than the packet leaves nothing behind it.
                self.upper = at.min(self.end);
                return self;
            }
            let Some(&[following, length, b2, b3]) = bytes
                .get(at as usize..self.end as usize)
                .and_then(|header| header.first_chunk::<4>())
            else {
                break;
            };
            at += match next {
                protocol::FRAGMENT => {
                    let field = u16::from_be_bytes([b2, b3]);
                    self.fragment = fragment_kind(field >> 3, field & 1 != 0);
                    if self.fragment == Fragment::Later {
                        self.protocol = following;
                        break;
                    }
                    8
                }
                protocol::AUTHENTICATION => {
                    self.authenticated = true;
                    (u32::from(length) + 2) * 4
                }
                _ => (u32::from(length) + 1) * 8,
            };
            next = following;
        }
        self.upper = self.end;
        self
    }

    /// IP version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Which part of a datagram it holds.
    #[must_use]
    pub const fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// Upper-layer protocol; where the walk had to stop, the extension header it stopped at.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// True if an Authentication Header covers the payload, so that no router may rewrite it.
    #[must_use]
    pub const fn authenticated(&self) -> bool {
        self.authenticated
    }

    /// The packet's own length in bytes, IP header included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub const fn len(&self) -> usize {
        self.end as usize
    }

    /// Where the upper layer's header begins, in bytes from the start of the packet; equal to
    /// [`len`](Self::len) if there is none to look at.
    #[must_use]
    pub const fn upper_offset(&self) -> usize {
        self.upper as usize
    }

    /// The upper layer's header and payload; empty if there is none to look at.
    #[inline]
    #[must_use]
    pub fn upper<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(self.upper_offset()..self.len()).unwrap_or(&[])
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self, bytes: &[u8]) -> Option<IpAddr> {
        match self.version {
            Version::V4 => v4_at(bytes, 12),
            Version::V6 => v6_at(bytes, 8),
        }
    }

    /// Destination address (the next one on the way, where an IPv6 routing header names others).
    #[inline]
    #[must_use]
    pub fn destination(&self, bytes: &[u8]) -> Option<IpAddr> {
        match self.version {
            Version::V4 => v4_at(bytes, 16),
            Version::V6 => v6_at(bytes, 24),
        }
    }

    /// Source and destination port, for protocols that begin with them and packets that hold them.
    #[inline]
    #[must_use]
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

    /// TTL or hop limit.
    #[inline]
    #[must_use]
    pub fn ttl(&self, bytes: &[u8]) -> Option<u8> {
        bytes.get(self.ttl_offset()).copied()
    }

    const fn ttl_offset(&self) -> usize {
        match self.version {
            Version::V4 => 8,
            Version::V6 => 7,
        }
    }

    /// Takes one off the TTL or hop limit, IPv4's header checksum renewed, and returns what is
    /// left. `None`, and nothing changed, if that would be 0: the packet must not be forwarded (RFC
    /// 1812 §5.3.1).
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
    #[must_use]
    pub fn dscp(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? >> 2)
    }

    /// ECN field, 2 bits (RFC 3168).
    #[inline]
    #[must_use]
    pub fn ecn(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? & 3)
    }

    /// Writes the low 6 bits of `dscp`. False, and nothing changed, if the bytes are not there.
    #[inline]
    pub fn set_dscp(&self, bytes: &mut [u8], dscp: u8) -> bool {
        self.update_traffic_class(bytes, |old| dscp << 2 | old & 3)
    }

    /// Writes the low 2 bits of `ecn`. False, and nothing changed, if the bytes are not there.
    #[inline]
    pub fn set_ecn(&self, bytes: &mut [u8], ecn: u8) -> bool {
        self.update_traffic_class(bytes, |old| old & !3 | ecn & 3)
    }

    /// DSCP and ECN field in one byte (IPv4 type of service, IPv6 traffic class).
    #[inline]
    #[must_use]
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

    /// True if IPv4's header checksum is right; IPv6 has none, so always true there.
    #[inline]
    #[must_use]
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

    /// True if the packet must not be fragmented on the way: IPv4's DF flag, IPv6 always.
    #[must_use]
    pub fn dont_fragment(&self, bytes: &[u8]) -> bool {
        self.version == Version::V6 || bytes.get(6).is_some_and(|flags| flags & 0x40 != 0)
    }

    /// Sum over the pseudo-header of an upper layer of `length` bytes (RFC 768, RFC 8200 §8.1), to
    /// start its checksum with.
    #[must_use]
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

    /// A hash of the packet's flow: addresses, protocol, and ports where every packet of the flow
    /// shows them. Fragments hash without ports, so that those of one datagram stay together.
    /// Whoever does not know `seed` cannot aim for collisions cheaply.
    #[inline]
    #[must_use]
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

    /// A hash of where the packet says that it comes from: its IPv4 address, or the 64 bits of its
    /// IPv6 prefix, in which a host may take any address.
    #[must_use]
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

/// Both halves of the 128-bit product, folded: every bit of the result depends on every bit of `a`.
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

#[inline]
const fn fragment_kind(offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

#[inline]
const fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION
            | protocol::MOBILITY
    )
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
