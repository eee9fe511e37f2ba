//! Tunnel packets with a shim in front, which is inserted at the tunnel's entry and removed at
//! its exit (`docs/router/tunnels.md`).
//!
//! ```text
//!   IP-in-IP   outer IP ─ inner IP ─ UDP ─ shim ─ …
//!      ⇅       outer IP ─ UDP ─ copy ─ inner IP ─ UDP ─ shim ─ …
//!   VXLAN      outer IP ─ UDP ─ VXLAN ─ Ethernet ─ inner IP ─ UDP ─ shim ─ …
//!      ⇅       outer IP ─ UDP ─ copy ─ VXLAN ─ Ethernet ─ inner IP ─ UDP ─ shim ─ …
//! ```

use std::ops::Range;

use pathmark_protocols::tunnel::{self, Shim};
use pathmark_shim::checksum::{Delta, update_udp};
use pathmark_shim::frame::{self, FramingError};
use pathmark_shim::ip::{Fragment, Layout, Version, protocol};
use pathmark_shim::udp::{Datagram, HEADER_LEN};

use crate::field::{get, put, put_low, renew_v4};

/// UDP port of IP-in-IP packets between two tunnel ports.
pub const IP_IN_UDP: u16 = 6654;
/// UDP port of VXLAN (RFC 7348).
const VXLAN: u16 = 4789;
const VXLAN_HEADER: usize = 8;
/// Flags of a VXLAN header with a valid network identifier. The other bits are reserved.
const VXLAN_FLAGS: [u8; 4] = [8, 0, 0, 0];
/// First source port of IP-in-IP packets between two tunnel ports, following RFC 7510.
const EPHEMERAL: u16 = 0xC000;
/// Maximum number of inserted bytes.
pub(crate) const MAX_INSERTED: usize = HEADER_LEN + frame::MAX_LEN;

/// The encapsulation of a tunnel's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// An IP packet behind an IP header (RFC 2003, 2473, 4213).
    IpInIp,
    /// Ethernet frames behind VXLAN headers (RFC 7348).
    Vxlan,
}

/// The bytes to insert into a tunnel's packet.
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    /// Offset from the start of the packet.
    at: usize,
    bytes: [u8; MAX_INSERTED],
    len: usize,
    /// True if they include a shim.
    copied: bool,
}

/// A tunnel's packet after removing the inserted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Its length in bytes.
    pub len: usize,
    /// If a shim was in front: whether its result was merged into the inner shim.
    pub merged: Option<bool>,
}

/// The inner IP packet.
struct Inner {
    /// Offset from the start of the outer packet.
    at: usize,
    layout: Layout,
}

impl Inner {
    fn find(bytes: &[u8], at: usize) -> Option<Self> {
        let inner = bytes.get(at..)?;
        let layout = Layout::walk(inner).ok()?;
        layout
            .header_checksum_ok(inner)
            .then_some(Self { at, layout })
    }

    /// The number that the outer header names it by as a protocol.
    const fn number(&self) -> u8 {
        match self.layout.version() {
            Version::V4 => protocol::IPV4,
            Version::V6 => protocol::IPV6,
        }
    }

    /// The inner UDP datagram and its shim.
    fn shim(&self, bytes: &[u8]) -> Option<(Datagram, Shim)> {
        let inner = bytes.get(self.at..)?;
        let udp = Datagram::locate(inner, &self.layout)?;
        Some((udp, tunnel::lift(udp.payload(inner))?))
    }

    fn ttl(&self, bytes: &[u8]) -> Option<u8> {
        self.layout.ttl(bytes.get(self.at..)?)
    }
}

impl Encapsulation {
    /// Returns the name used in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IpInIp => "ipip",
            Self::Vxlan => "vxlan",
        }
    }

    /// The UDP port of packets with a shim in front.
    const fn port(self) -> u16 {
        match self {
            Self::IpInIp => IP_IN_UDP,
            Self::Vxlan => VXLAN,
        }
    }

    /// Finds the inner IP packet in a tunnel packet whose headers start at `at` and which ends
    /// with `bytes`.
    fn inner(self, bytes: &[u8], at: usize) -> Option<Inner> {
        match self {
            Self::IpInIp => {
                let inner = Inner::find(bytes, at)?;
                (at + inner.layout.len() == bytes.len()).then_some(inner)
            }
            // Ethernet frames can have padding.
            Self::Vxlan => Inner::find(bytes, behind_vxlan(bytes, at)?),
        }
    }

    /// Returns the bytes to insert into a packet that leaves for the tunnel's exit. This router
    /// must already have decremented its TTL. `None` if the packet passes unchanged. The source
    /// port that distinguishes inner flows depends on `seed`.
    pub fn insertion(self, bytes: &[u8], layout: &Layout, seed: u64) -> Option<Insertion> {
        let bytes = bytes.get(..layout.len())?;
        let at = match self {
            Self::IpInIp => {
                let whole = layout.fragment() == Fragment::Whole && !layout.authenticated();
                whole.then_some(layout.upper_offset())?
            }
            Self::Vxlan => udp_to(VXLAN, bytes, layout)?.payload_offset(),
        };
        let inner = self.inner(bytes, at)?;
        if self == Self::IpInIp && layout.protocol() != inner.number() {
            return None;
        }
        // This router answers the copy with the TTL as it was before decrementing.
        let ttl = layout.ttl(bytes)?.wrapping_add(1);
        let copy = inner
            .shim(bytes)
            .zip(inner.ttl(bytes))
            .map(|((_, shim), inner_ttl)| tunnel::copy_outward(&shim, ttl.wrapping_sub(inner_ttl)));
        let shim = copy.as_ref().map_or(&[][..], Shim::as_ref);
        let mut inserted = [0; MAX_INSERTED];
        let header = match self {
            Self::IpInIp => HEADER_LEN,
            Self::Vxlan if shim.is_empty() => return None,
            Self::Vxlan => 0,
        };
        if header > 0 {
            let hash = inner.layout.flow_hash(bytes.get(inner.at..)?, seed);
            put(&mut inserted, 0, EPHEMERAL | (hash & 0x3FFF) as u16);
            put(&mut inserted, 2, IP_IN_UDP);
            put_low(&mut inserted, 4, header + shim.len() + layout.len() - at);
        }
        let len = header + shim.len();
        inserted.get_mut(header..len)?.copy_from_slice(shim);
        Some(Insertion {
            at,
            bytes: inserted,
            len,
            copied: copy.is_some(),
        })
    }

    /// Returns true if a packet has the UDP port of this tunnel's packets with a shim in front.
    pub fn comes_outside(self, bytes: &[u8], layout: &Layout) -> bool {
        udp_to(self.port(), bytes, layout).is_some()
    }

    /// Removes the bytes inserted at the entry, and merges the copy's result into the inner
    /// shim. If nothing was inserted, returns `None` without changing the packet.
    pub fn remove(self, bytes: &mut [u8], layout: &Layout) -> Option<Removed> {
        let bytes = bytes.get_mut(..layout.len())?;
        let udp = udp_to(self.port(), bytes, layout)?;
        let payload = udp.payload_offset();
        let shim = match frame::declared_len(udp.payload(bytes)) {
            Ok(len) => len,
            Err(FramingError::NotShim) if self == Self::IpInIp => 0,
            Err(_) => return None,
        };
        let behind = payload + shim;
        let inner = self.inner(bytes, behind)?;
        let field = payload - 2;
        let mut checksum = get(bytes, field)?;
        let merged = (shim > 0)
            .then(|| merge(bytes, layout, &inner, payload..behind, &mut checksum).is_some());
        let from = match self {
            Self::IpInIp => {
                set_protocol(bytes, layout, inner.number());
                layout.upper_offset()
            }
            Self::Vxlan => {
                let old = get(bytes, field - 2)?;
                let new = old.wrapping_sub(u16::try_from(shim).ok()?);
                put(bytes, field - 2, new);
                let copy = bytes.get(payload..behind)?;
                checksum = update_udp(checksum, Delta::between(copy, &[]));
                put(bytes, field, with_length(checksum, old, new));
                payload
            }
        };
        bytes.copy_within(behind.., from);
        let len = bytes.len() - (behind - from);
        set_length(bytes, layout, len);
        Some(Removed { len, merged })
    }
}

impl Insertion {
    /// Number of bytes to insert.
    #[expect(clippy::len_without_is_empty, reason = "an insertion is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if they include a shim.
    pub const fn copied(&self) -> bool {
        self.copied
    }

    /// Inserts the bytes into the packet at the start of `buffer`, and returns its new layout.
    /// It must be the packet that they were created for, with complete checksums. If there is
    /// not enough room, returns `None` without changing the packet.
    pub fn insert(&self, buffer: &mut [u8], layout: &Layout) -> Option<Layout> {
        let len = layout.len() + self.len;
        if len > usize::from(u16::MAX) {
            return None;
        }
        let bytes = buffer.get_mut(..len)?;
        let inserted = self.bytes.get(..self.len)?;
        let vxlan = layout.protocol() == protocol::UDP;
        bytes.copy_within(self.at..layout.len(), self.at + self.len);
        bytes
            .get_mut(self.at..self.at + self.len)?
            .copy_from_slice(inserted);
        if !vxlan {
            set_protocol(bytes, layout, protocol::UDP);
        }
        set_length(bytes, layout, len);
        if vxlan {
            let old = get(bytes, self.at - 4)?;
            let new = old.wrapping_add(u16::try_from(self.len).ok()?);
            put(bytes, self.at - 4, new);
            let checksum = get(bytes, self.at - 2)?;
            let checksum = update_udp(checksum, Delta::between(&[], inserted));
            put(bytes, self.at - 2, with_length(checksum, old, new));
            return Layout::walk(bytes).ok();
        }
        let layout = Layout::walk(bytes).ok()?;
        let checksum = Datagram::locate(bytes, &layout)?.compute_checksum(bytes, &layout);
        put(bytes, self.at + 6, checksum);
        Some(layout)
    }
}

/// Merges the result of the copy at `copy` into the inner shim, and updates `checksum`, which
/// covers the inner packet. If merging is refused, returns `None` without changing anything.
fn merge(
    bytes: &mut [u8],
    layout: &Layout,
    inner: &Inner,
    copy: Range<usize>,
    checksum: &mut u16,
) -> Option<()> {
    let outer = tunnel::lift(bytes.get(copy)?)?;
    let (udp, shim) = inner.shim(bytes)?;
    let shift = layout.ttl(bytes)?.wrapping_sub(inner.ttl(bytes)?);
    let merged = tunnel::merge_back(&shim, &outer, shift)?;
    let inside = bytes.get_mut(inner.at..)?;
    let field = udp.payload_offset() - 2;
    let old = get(inside, field)?;
    if !udp.replace(inside, 0, merged.as_ref()) {
        return None;
    }
    *checksum = update_udp(*checksum, Delta::between(shim.as_ref(), merged.as_ref()));
    *checksum = update_udp(*checksum, Delta::word(old, get(inside, field)?));
    Some(())
}

/// The UDP datagram to `port` if the packet is not a fragment and ends with the datagram.
fn udp_to(port: u16, bytes: &[u8], layout: &Layout) -> Option<Datagram> {
    let udp = Datagram::locate(bytes, layout)?;
    let end = udp.payload_offset() + udp.payload(bytes).len();
    let whole = layout.fragment() == Fragment::Whole && end == layout.len();
    (whole && udp.ports(bytes)?.1 == port).then_some(udp)
}

/// The offset of the IP packet whose VXLAN header starts at `at`.
fn behind_vxlan(bytes: &[u8], at: usize) -> Option<usize> {
    const MACS: usize = 12;
    const VLAN: [u8; 2] = [0x81, 0x00];
    if bytes.get(at..at + 4)? != VXLAN_FLAGS {
        return None;
    }
    let mut kind = at + VXLAN_HEADER + MACS;
    if bytes.get(kind..kind + 2)? == VLAN {
        kind += 4;
    }
    matches!(bytes.get(kind..kind + 2)?, [0x08, 0x00] | [0x86, 0xDD]).then_some(kind + 2)
}

/// Updates a UDP checksum after a change of the UDP length, which it covers twice.
fn with_length(checksum: u16, old: u16, new: u16) -> u16 {
    let change = Delta::word(old, new);
    update_udp(update_udp(checksum, change), change)
}

/// Sets the length of an IP packet with the headers of `layout`, and updates an IPv4 header's
/// checksum.
fn set_length(bytes: &mut [u8], layout: &Layout, len: usize) {
    match layout.version() {
        Version::V4 => {
            put_low(bytes, 2, len);
            renew_v4(bytes);
        }
        Version::V6 => put_low(bytes, 4, len.saturating_sub(40)),
    }
}

/// Sets the protocol that follows the IP header and its extensions. The checksum of an IPv4
/// header is updated later, by [`set_length`].
fn set_protocol(bytes: &mut [u8], layout: &Layout, number: u8) {
    let at = match layout.version() {
        Version::V4 => 9,
        Version::V6 => {
            let (mut field, mut header) = (6, 40);
            while header < layout.upper_offset() {
                let words = bytes.get(header + 1).map_or(0, |words| usize::from(*words));
                let fragment = bytes.get(field) == Some(&protocol::FRAGMENT);
                field = header;
                header += if fragment { 8 } else { (words + 1) * 8 };
            }
            field
        }
    };
    if let Some(field) = bytes.get_mut(at) {
        *field = number;
    }
}

#[cfg(test)]
#[path = "encapsulation_tests.rs"]
mod tests;
