//! Reads a packet's XCP shim for a port's law, and writes the router's answer into it.
//!
//! | field | becomes |
//! |---|---|
//! | stamped | set |
//! | format | in the full form, 3 if the answer does not account for a cloud before the router |
//! | xcp_ttl | lower by the hops that this router's machine subtracts from the IP TTL |
//! | feedback | the router's, if lower; never raised |
//! | last router | in the full form, this router's address |
//! | router | this router's identity, if it lowered the feedback |
//! | translated | whether its law is another, if it lowered the feedback or none before has |
//! | corruption | in the full form, the class of its total with this router's declared loss |
//!
//! XCP-i routers also subtract the hops of a cloud in front of them from xcp_ttl, which counts
//! modulo 256. After a cloud that the port does not look for, the last router stays unchanged. All
//! other fields stay as the sender wrote them, and a header in the minimal format is not changed at
//! all.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::header::{
    Body, FORMAT, Form, Format, Full, LEN_COMPACT, LEN_V4, LEN_V6, Packet, STAMPED, TRANSLATED, put,
};
use pathmark_cc::{Carried, Cloud, CloudAnswer, Upstream, XcpAnswer, XcpCarried};
use pathmark_shim::udp::{ChecksumState, Datagram};
use pathmark_shim::{corruption, frame};

/// The identity of a router in shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number, chosen by the operator; not 0.
    pub id: u16,
    /// Its IPv4 address; unspecified if it has none.
    pub v4: Ipv4Addr,
    /// Its IPv6 address; unspecified if it has none.
    pub v6: Ipv6Addr,
    /// The hops that its machine subtracts from the IP TTL: 1, more if the kernel forwards its
    /// packets as well, or 0 at a host's own port.
    pub hops: u8,
}

impl Identity {
    /// Creates an identity without addresses that subtracts one hop from the IP TTL.
    pub const fn new(id: u16) -> Self {
        Self {
            id,
            v4: Ipv4Addr::UNSPECIFIED,
            v6: Ipv6Addr::UNSPECIFIED,
            hops: 1,
        }
    }
}

/// The result of stamping a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The answer is written.
    Stamped,
    /// There was no valid XCP shim of the standard format, so nothing was changed.
    Untouched,
}

/// Stamps the shim at the start of a UDP payload that arrived in an IP packet of `bytes`.
#[inline]
pub fn stamp_payload(
    payload: &mut [u8],
    answer: &XcpAnswer,
    bytes: u32,
    router: &Identity,
) -> Outcome {
    fn replace<const N: usize>(
        payload: &mut [u8],
        stamped: impl FnOnce(&[u8; N]) -> Option<[u8; N]>,
    ) -> bool {
        let Some(shim) = payload.first_chunk_mut::<N>() else {
            return false;
        };
        match stamped(shim) {
            Some(new) => {
                *shim = new;
                true
            }
            None => false,
        }
    }
    outcome(match form(payload) {
        Form::V4 => replace(payload, |shim: &[u8; LEN_V4]| v4(shim, answer, router)),
        Form::V6 => replace(payload, |shim: &[u8; LEN_V6]| v6(shim, answer, router)),
        Form::Compact => replace(payload, |shim: &[u8; LEN_COMPACT]| {
            compact(shim, answer, bytes, router)
        }),
    })
}

/// Stamps the shim at `offset` of a UDP payload inside an IP packet, and updates the UDP checksum
/// as `state` allows. `offset` is 0, or the start of a later segment in a packet that offload will
/// cut. `bytes` is the length of the IP packet, or of the packet that the segment will become.
#[inline]
pub fn stamp_packet(
    packet: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &XcpAnswer,
    bytes: u32,
    router: &Identity,
    state: ChecksumState,
) -> Outcome {
    let form = form(udp.payload(packet).get(offset..).unwrap_or(&[]));
    outcome(match form {
        Form::V4 => udp.rewrite(packet, offset, state, |shim: &[u8; LEN_V4]| {
            v4(shim, answer, router)
        }),
        Form::V6 => udp.rewrite(packet, offset, state, |shim: &[u8; LEN_V6]| {
            v6(shim, answer, router)
        }),
        Form::Compact => udp.rewrite(packet, offset, state, |shim: &[u8; LEN_COMPACT]| {
            compact(shim, answer, bytes, router)
        }),
    })
}

const fn outcome(stamped: bool) -> Outcome {
    if stamped {
        Outcome::Stamped
    } else {
        Outcome::Untouched
    }
}

/// The form according to the length field; arbitrary without a shim.
#[inline]
fn form(payload: &[u8]) -> Form {
    match payload.get(1).map(|byte| usize::from(byte & 0x0F) * 4) {
        Some(LEN_V4) => Form::V4,
        Some(LEN_V6) => Form::V6,
        _ => Form::Compact,
    }
}

#[inline]
fn v4(shim: &[u8; LEN_V4], answer: &XcpAnswer, router: &Identity) -> Option<[u8; LEN_V4]> {
    full(shim, answer, router, router.v4.octets())
}

#[inline]
fn v6(shim: &[u8; LEN_V6], answer: &XcpAnswer, router: &Identity) -> Option<[u8; LEN_V6]> {
    full(shim, answer, router, router.v6.octets())
}

#[inline]
fn full<const N: usize, const A: usize>(
    shim: &[u8; N],
    answer: &XcpAnswer,
    router: &Identity,
    address: [u8; A],
) -> Option<[u8; N]> {
    let (mut new, packet) = begin(shim, router.hops)?;
    if let crate::header::Body::Full(fields) = packet.repr().body {
        put(&mut new, 20, fields.delta.min(answer.delta).to_be_bytes());
    }
    if answer.corruption_ppm > 0
        && let Some(first) = new.get_mut(4)
    {
        let class = corruption::add(packet.corruption(), answer.corruption_ppm);
        *first = *first & !corruption::MASK | class;
    }
    pass_cloud(&mut new, answer.cloud);
    if answer.cloud != CloudAnswer::Passed {
        put(&mut new, 28, address);
    }
    if answer.bounding {
        put(&mut new, 28 + A, router.id.to_be_bytes());
    }
    if answer.bounding || packet.router() == 0 {
        name_law(&mut new, answer.translated);
    }
    frame::renew_check(&mut new);
    Some(new)
}

/// Hides the cloud before this router from later routers, and marks it if it is not accounted
/// for.
#[inline]
fn pass_cloud<const N: usize>(shim: &mut [u8; N], cloud: CloudAnswer) {
    let (hops, known) = match cloud {
        CloudAnswer::None | CloudAnswer::Passed => return,
        CloudAnswer::Counted { hops } => (hops, true),
        CloudAnswer::Unknown { hops } => (hops, false),
    };
    if let Some(xcp_ttl) = shim.get_mut(5) {
        *xcp_ttl = xcp_ttl.wrapping_sub(hops);
    }
    if !known && let Some(first) = shim.get_mut(4) {
        *first = *first & !FORMAT | (Format::Uncounted as u8) << 4;
    }
}

/// Writes whether this router runs another law. This is necessary even if it lowers nothing,
/// because a sender that does not request anything yet must learn which law the port runs.
#[inline]
fn name_law<const N: usize>(shim: &mut [u8; N], translated: bool) {
    if let Some(first) = shim.get_mut(4) {
        *first &= !TRANSLATED;
        if translated {
            *first |= TRANSLATED;
        }
    }
}

#[inline]
fn compact(
    shim: &[u8; LEN_COMPACT],
    answer: &XcpAnswer,
    bytes: u32,
    router: &Identity,
) -> Option<[u8; LEN_COMPACT]> {
    let (mut new, packet) = begin(shim, router.hops)?;
    pass_cloud(&mut new, answer.cloud);
    // If the port only passes a request on, its feedback word must not change.
    if answer.bounding {
        if let crate::header::Body::Compact(fields) = packet.repr().body {
            let word = fields.lowered(answer.delta, bytes);
            put(&mut new, 10, word.to_be_bytes());
        }
        put(&mut new, 12, router.id.to_be_bytes());
    }
    if answer.bounding || packet.router() == 0 {
        name_law(&mut new, answer.translated);
    }
    frame::renew_check(&mut new);
    Some(new)
}

/// Checks the shim, and returns a copy that is stamped by a router that subtracts `hops` hops.
#[inline]
fn begin<const N: usize>(shim: &[u8; N], hops: u8) -> Option<([u8; N], Packet<'_>)> {
    let packet = Packet::parse(shim).ok()?;
    if !packet.format().asks() || packet.form().len() != N {
        return None;
    }
    let mut new = *shim;
    let flags = shim.get(4).copied().unwrap_or(0) | STAMPED;
    put(&mut new, 4, [flags, packet.xcp_ttl().wrapping_sub(hops)]);
    Some((new, packet))
}

/// Reads the shim in front of a UDP payload that arrived in an IP packet of `bytes` bytes. Returns
/// [`Carried::Foreign`] if there is no valid XCP shim, or if routers must not change it.
#[inline]
pub fn from_payload(payload: &[u8], bytes: u32) -> Carried {
    read(payload, bytes, |_, _| None)
}

/// Reads the same, and the cloud that the packet crossed. `ttl` is the IP TTL or hop limit with
/// which it leaves this router's machine if the machine subtracts one, and `source` returns its
/// source address. The compact form has no room for the upstream router, so it reports no cloud.
#[inline]
pub fn from_forwarded(
    payload: &[u8],
    bytes: u32,
    ttl: u8,
    source: impl FnOnce() -> Option<IpAddr>,
) -> Carried {
    read(payload, bytes, |xcp_ttl, full| {
        // TTLs are compared modulo 256, so that rewriting on the way counts as unknown hops.
        let hops = xcp_ttl.wrapping_sub(1).wrapping_sub(ttl);
        if hops == 0 {
            return None;
        }
        let upstream = full.last.address().or_else(source)?;
        Some(Cloud {
            upstream: Upstream::of(upstream)?,
            hops,
        })
    })
}

#[inline]
fn read(payload: &[u8], bytes: u32, cloud: impl FnOnce(u8, &Full) -> Option<Cloud>) -> Carried {
    match Packet::parse(payload) {
        Ok(packet) if packet.format().asks() => Carried::Xcp(match packet.repr().body {
            Body::Full(full) => XcpCarried {
                rtt_us: full.rtt_us,
                x: full.x,
                delta: full.delta,
                covers: full.covers,
                cloud: cloud(packet.xcp_ttl(), &full),
            },
            Body::Compact(compact) => compact.carried(bytes),
        }),
        _ => Carried::Foreign,
    }
}

#[cfg(test)]
#[path = "stamp_tests.rs"]
mod tests;
