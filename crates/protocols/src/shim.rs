//! The kinds of shim that ports read and write, by their numbers.

use std::net::IpAddr;

use pathmark_cc::{Answer, Carried, OwnWords};
use pathmark_shim::Kind;
use pathmark_shim::demux::Datagram as Contents;
use pathmark_shim::frame::{MAX_LEN, declared_len};
use pathmark_shim::udp::{ChecksumState, Datagram};
use qs_proto::answer;
use vcp_proto::mark::{self, Lifted};
use xcp_proto::stamp;

use crate::registry;

pub use xcp_proto::Identity;

/// Which part of a packet carries feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// The packet carries none.
    #[default]
    None,
    /// A VCP shim at the start of the UDP payload; in a super-packet, the first one.
    Vcp(Lifted),
    /// Another shim at the start of the UDP payload.
    Shim {
        /// Where this payload starts, in bytes from the start of the packet.
        payload: u16,
    },
    /// The IP ECN field.
    Ecn,
}

impl Carrier {
    /// Returns true if a shim carries it.
    #[inline]
    pub const fn is_shim(&self) -> bool {
        matches!(self, Self::Vcp(_) | Self::Shim { .. })
    }
}

/// The part of an IP header that is needed for reading shims.
pub trait Outer {
    /// Returns a hash of the source address.
    fn source_hash(&self) -> u32;
    /// Returns the source address.
    fn source(&self) -> Option<IpAddr>;
    /// Returns the TTL or hop limit with which the packet leaves this router, provided that the
    /// router decrements it.
    fn ttl(&self) -> Option<u8>;
}

/// Used for a datagram whose IP header is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeader;

impl Outer for NoHeader {
    fn source_hash(&self) -> u32 {
        0
    }

    fn source(&self) -> Option<IpAddr> {
        None
    }

    fn ttl(&self) -> Option<u8> {
        None
    }
}

/// Returns the fields that control laws read from the shim of a UDP payload. `packet_bytes` is the
/// length of its IP packet, and `ip` is its header. Returns [`Carried::Foreign`] if there is no
/// shim of a known kind that is valid.
#[inline]
pub fn read(payload: &[u8], packet_bytes: u32, ip: &impl Outer) -> Carried {
    match Contents::classify(payload) {
        Contents::Shim(Kind::VCP) => vcp_proto::mark::from_payload(payload),
        Contents::Shim(Kind::XCP) => read_xcp(payload, packet_bytes, ip),
        Contents::Shim(Kind::QUICK_START) => {
            qs_proto::answer::from_payload(payload, ip.source_hash())
        }
        Contents::Shim(kind) => read_own(kind, payload),
        _ => Carried::Foreign,
    }
}

/// Returns the router as VCP's marks name it. Because only shims that have passed a hop are
/// answered, a host's own port counts as a hop.
pub(crate) fn vcp_router(router: &Identity) -> mark::Router {
    mark::Router {
        id: router.id,
        hops: router.hops.max(1),
    }
}

/// Reads the header of a registered protocol.
fn read_own(kind: Kind, payload: &[u8]) -> Carried {
    let kind = kind.number();
    let words = registry::find(kind).and_then(|own| own.read(payload));
    words.map_or(Carried::Foreign, |words| {
        Carried::Own(OwnWords { kind, words })
    })
}

#[inline]
fn read_xcp(payload: &[u8], packet_bytes: u32, ip: &impl Outer) -> Carried {
    match ip.ttl() {
        Some(ttl) => xcp_proto::stamp::from_forwarded(payload, packet_bytes, ttl, || ip.source()),
        None => xcp_proto::stamp::from_payload(payload, packet_bytes),
    }
}

/// Like [`read`] for a UDP datagram inside an IP packet, and also returns the position of the shim.
#[inline]
pub fn find(
    bytes: &[u8],
    udp: &Datagram,
    packet_bytes: u32,
    ip: &impl Outer,
) -> (Carried, Carrier) {
    match Contents::classify(udp.payload(bytes)) {
        Contents::Shim(Kind::VCP) => match Lifted::find(bytes, udp) {
            Ok(lifted) => (
                vcp_proto::mark::from_packet(&lifted.packet()),
                Carrier::Vcp(lifted),
            ),
            Err(_) => (Carried::Foreign, Carrier::None),
        },
        Contents::Shim(kind) => find_other(kind, bytes, udp, packet_bytes, ip),
        _ => (Carried::Foreign, Carrier::None),
    }
}

/// A separate function, so that the code that runs for each VCP packet stays small.
#[inline(never)]
fn find_other(
    kind: Kind,
    bytes: &[u8],
    udp: &Datagram,
    packet_bytes: u32,
    ip: &impl Outer,
) -> (Carried, Carrier) {
    let payload = udp.payload(bytes);
    let carried = match kind {
        Kind::XCP => read_xcp(payload, packet_bytes, ip),
        Kind::QUICK_START => qs_proto::answer::from_payload(payload, ip.source_hash()),
        _ => read_own(kind, payload),
    };
    if carried == Carried::Foreign {
        return (carried, Carrier::None);
    }
    let payload = u16::try_from(udp.payload_offset()).unwrap_or(u16::MAX);
    (carried, Carrier::Shim { payload })
}

/// Writes a port's answer into the shim at the start of a UDP payload. Returns false, without
/// changing anything, if there is no such shim.
#[inline]
pub fn write(payload: &mut [u8], answer: &Answer, packet_bytes: u32, router: &Identity) -> bool {
    match answer {
        Answer::Vcp(answer) => {
            let outcome = mark::mark_payload(payload, answer, vcp_router(router));
            outcome == mark::Outcome::Marked
        }
        Answer::Xcp(answer) => {
            let outcome = stamp::stamp_payload(payload, answer, packet_bytes, router);
            outcome == stamp::Outcome::Stamped
        }
        Answer::QuickStart(answer) => {
            answer::answer_payload(payload, answer, router.hops) == answer::Outcome::Answered
        }
        Answer::Own(answer) => {
            let len = declared_len(payload).unwrap_or(0);
            let shim = payload.get_mut(..len).unwrap_or_default();
            registry::find(answer.kind).is_some_and(|own| own.write(answer.words, router.id, shim))
        }
        _ => false,
    }
}

/// Writes a port's answer at `offset` in the payload of a datagram inside an IP packet, and updates
/// its complete UDP checksum. Returns false, without changing anything, if there is no shim of the
/// answer's kind.
#[inline]
pub fn write_packet(
    bytes: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &Answer,
    packet_bytes: u32,
    router: &Identity,
) -> bool {
    let state = ChecksumState::Complete;
    match answer {
        Answer::Vcp(answer) => {
            let outcome = mark::mark_packet(bytes, udp, offset, answer, vcp_router(router), state);
            outcome == mark::Outcome::Marked
        }
        Answer::Xcp(answer) => {
            let outcome =
                stamp::stamp_packet(bytes, udp, offset, answer, packet_bytes, router, state);
            outcome == stamp::Outcome::Stamped
        }
        Answer::QuickStart(answer) => {
            let outcome = answer::answer_packet(bytes, udp, offset, answer, router.hops, state);
            outcome == answer::Outcome::Answered
        }
        Answer::Own(answer) => write_own(bytes, udp, offset, answer, router.id),
        _ => false,
    }
}

/// Writes the answer of a registered protocol's port, and updates the UDP checksum.
fn write_own(
    bytes: &mut [u8],
    udp: &Datagram,
    offset: usize,
    answer: &OwnWords,
    router: u16,
) -> bool {
    let Some(own) = registry::find(answer.kind) else {
        return false;
    };
    let payload = udp.payload(bytes).get(offset..).unwrap_or_default();
    let mut shim = [0; MAX_LEN];
    let Some(shim) = declared_len(payload)
        .ok()
        .and_then(|len| shim.get_mut(..len).zip(payload.get(..len)))
        .map(|(shim, old)| {
            shim.copy_from_slice(old);
            shim
        })
    else {
        return false;
    };
    own.write(answer.words, router, shim) && udp.replace(bytes, offset, shim)
}

/// Returns true if a port may read the shim of the first of two datagrams that were sent together
/// for both. This is the case if neither has a shim, or if both have shims of the same kind. With
/// XCP and registered protocols, each datagram has its own fields, so the shims must be equal.
#[inline]
pub fn alike(first: &[u8], other: &[u8]) -> bool {
    fn fields(payload: &[u8]) -> (Option<Kind>, Option<&[u8]>) {
        let Contents::Shim(kind) = Contents::classify(payload) else {
            return (None, None);
        };
        let each = kind == Kind::XCP || registry::find(kind.number()).is_some();
        let len = each.then(|| declared_len(payload).ok()).flatten();
        (Some(kind), len.and_then(|len| payload.get(..len)))
    }
    fields(first) == fields(other)
}
