//! The kinds of shim that routers read and write, by their numbers.

use std::net::IpAddr;

use pathmark_cc::{Answer, Carried, CloudAnswer};
use pathmark_shim::Kind;
use pathmark_shim::demux::Datagram as Contents;
use pathmark_shim::frame::declared_len;
use pathmark_shim::udp::{ChecksumState, Datagram};
use qs_proto::answer;
use vcp_proto::mark::{self, Lifted};
use xcp_proto::{Identity, stamp};

use super::frame::Carrier;
use crate::offload::Super;

/// What a router takes off the IP TTL.
pub(super) const FORWARDED: u8 = 1;

/// What of an IP header shims have to do with.
pub trait Outer {
    /// A hash of the source address.
    fn source_hash(&self) -> u32;
    /// The source address.
    fn source(&self) -> Option<IpAddr>;
    /// The TTL or hop limit that the packet leaves this router with.
    fn ttl(&self) -> Option<u8>;
}

/// For a datagram whose IP header nobody has seen.
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

/// What the shim in front of a UDP payload tells control laws; `packet_bytes` is the length of its
/// IP packet, `ip` its header. [`Carried::Foreign`] if there is none that is known and sound.
#[inline]
#[must_use]
pub fn read(payload: &[u8], packet_bytes: u32, ip: &impl Outer) -> Carried {
    match Contents::classify(payload) {
        Contents::Shim(Kind::VCP) => vcp_proto::carried::from_payload(payload),
        Contents::Shim(Kind::XCP) => read_xcp(payload, packet_bytes, ip),
        Contents::Shim(Kind::QUICK_START) => {
            qs_proto::carried::from_payload(payload, ip.source_hash())
        }
        _ => Carried::Foreign,
    }
}

#[inline]
fn read_xcp(payload: &[u8], packet_bytes: u32, ip: &impl Outer) -> Carried {
    match ip.ttl() {
        Some(ttl) => xcp_proto::carried::from_forwarded(payload, packet_bytes, ttl, || ip.source()),
        None => xcp_proto::carried::from_payload(payload, packet_bytes),
    }
}

/// The same for the shim in a UDP datagram inside an IP packet, and where it is.
#[inline]
pub(super) fn find(
    bytes: &[u8],
    udp: &Datagram,
    packet_bytes: u32,
    ip: &impl Outer,
) -> (Carried, Carrier) {
    match Contents::classify(udp.payload(bytes)) {
        Contents::Shim(Kind::VCP) => match Lifted::find(bytes, udp) {
            Ok(lifted) => (
                vcp_proto::carried::from_packet(&lifted.packet()),
                Carrier::Vcp(lifted),
            ),
            Err(_) => (Carried::Foreign, Carrier::None),
        },
        Contents::Shim(kind) => find_other(kind, bytes, udp, packet_bytes, ip),
        _ => (Carried::Foreign, Carrier::None),
    }
}

/// Apart, so that what comes before each packet of VCP stays small.
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
        Kind::QUICK_START => qs_proto::carried::from_payload(payload, ip.source_hash()),
        _ => return (Carried::Foreign, Carrier::None),
    };
    let payload = u16::try_from(udp.payload_offset()).unwrap_or(u16::MAX);
    (carried, Carrier::Shim { payload })
}

/// True if all packets of a super-packet tell a port the same: none has a shim, or each has one of
/// the same kind, and of XCP the same one. Packets of one sender that it sent together do, unless
/// only some bear a shim or a router has stamped them.
#[inline]
pub(super) fn tell_alike(bytes: &[u8], whole: &Super) -> bool {
    if !whole.is_udp() {
        return true;
    }
    let told = |index| {
        let payload = whole.segment_payload(bytes, index);
        let Contents::Shim(kind) = Contents::classify(payload) else {
            return (None, None);
        };
        let same = (kind == Kind::XCP).then(|| declared_len(payload).ok());
        (
            Some(kind),
            same.flatten().and_then(|len| payload.get(..len)),
        )
    };
    let first = told(0);
    (1..whole.segments()).all(|index| told(index) == first)
}

/// Writes a port's answer into the shim in front of a UDP payload. `hops` is what the router takes
/// off the IP TTL: 1, or 0 at a host's own port. False, and nothing changed, if there is no such
/// shim.
#[inline]
pub fn write(
    payload: &mut [u8],
    answer: &Answer,
    packet_bytes: u32,
    router: &Identity,
    hops: u8,
) -> bool {
    match answer {
        Answer::Vcp(answer) => {
            mark::mark_payload(payload, answer, router.id) == mark::Outcome::Marked
        }
        Answer::Xcp(answer) => {
            let mut answer = *answer;
            if hops == 0 {
                // Stamping takes one off `xcp_ttl`, and nobody takes one off the TTL: modulo 256
                // this adds it again.
                answer.cloud = CloudAnswer::Counted { hops: u8::MAX };
            }
            let outcome = stamp::stamp_payload(payload, &answer, packet_bytes, router);
            outcome == stamp::Outcome::Stamped
        }
        Answer::QuickStart(answer) => {
            answer::answer_payload(payload, answer, hops) == answer::Outcome::Answered
        }
        _ => false,
    }
}

/// The same at `offset` of the payload of a datagram inside an IP packet, whose whole UDP checksum
/// is renewed.
#[inline]
pub(super) fn write_packet(
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
            let outcome = mark::mark_packet(bytes, udp, offset, answer, router.id, state);
            outcome == mark::Outcome::Marked
        }
        Answer::Xcp(answer) => {
            let outcome =
                stamp::stamp_packet(bytes, udp, offset, answer, packet_bytes, router, state);
            outcome == stamp::Outcome::Stamped
        }
        Answer::QuickStart(answer) => {
            let outcome = answer::answer_packet(bytes, udp, offset, answer, FORWARDED, state);
            outcome == answer::Outcome::Answered
        }
        _ => false,
    }
}
