//! The kinds of shim that ports read and write, by their numbers.

use std::net::IpAddr;

use pathmark_cc::{Answer, Carried, CloudAnswer};
use pathmark_shim::Kind;
use pathmark_shim::demux::Datagram as Contents;
use qs_proto::answer;
use vcp_proto::mark;
use xcp_proto::stamp;

pub use xcp_proto::Identity;

/// What of an IP header shims have to do with.
pub trait Outer {
    /// A hash of the source address.
    fn source_hash(&self) -> u32;
    /// The source address.
    fn source(&self) -> Option<IpAddr>;
    /// The TTL or hop limit that the packet leaves this router with.
    fn ttl(&self) -> Option<u8>;
}

/// For a datagram without a known IP header.
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

/// The same for a payload with an XCP shim.
#[inline]
#[must_use]
pub fn read_xcp(payload: &[u8], packet_bytes: u32, ip: &impl Outer) -> Carried {
    match ip.ttl() {
        Some(ttl) => xcp_proto::carried::from_forwarded(payload, packet_bytes, ttl, || ip.source()),
        None => xcp_proto::carried::from_payload(payload, packet_bytes),
    }
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
                // Stamping takes one off `xcp_ttl`, and a host takes none off the TTL: modulo 256
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
