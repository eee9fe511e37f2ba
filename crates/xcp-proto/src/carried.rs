//! What a packet tells the link half of the law.

use pathmark_cc::{Carried, XcpCarried};

use crate::header::{Body, Format, Packet};

/// Reads the shim in front of a UDP payload that came in an IP packet of `bytes`. [`Carried::Foreign`] if there is no sound
/// XCP shim, or one that routers leave alone.
#[inline]
#[must_use]
pub fn from_payload(payload: &[u8], bytes: u32) -> Carried {
    match Packet::parse(payload) {
        Ok(packet) if packet.format() == Format::Standard => {
            Carried::Xcp(match packet.repr().body {
                Body::Full(full) => XcpCarried {
                    rtt_us: full.rtt_us,
                    x: full.x,
                    delta: full.delta,
                    covers: full.covers,
                },
                Body::Compact(compact) => compact.carried(bytes),
            })
        }
        _ => Carried::Foreign,
    }
}
