//! What a packet tells the link half of the law.

use core::net::IpAddr;

use pathmark_cc::{Carried, Cloud, Upstream, XcpCarried};

use crate::header::{Body, Full, Packet};

/// Reads the shim in front of a UDP payload that came in an IP packet of `bytes`.
/// [`Carried::Foreign`] if there is no sound XCP shim, or one that routers leave alone.
#[inline]
#[must_use]
pub fn from_payload(payload: &[u8], bytes: u32) -> Carried {
    read(payload, bytes, |_, _| None)
}

/// The same, and the cloud that the packet came through: `ttl` is the IP TTL or hop limit that it
/// leaves this router's box with if the box takes one off it, `source` tells its source address. A
/// header in the compact form has no room for the router before the cloud, and tells of none.
#[inline]
#[must_use]
pub fn from_forwarded(
    payload: &[u8],
    bytes: u32,
    ttl: u8,
    source: impl FnOnce() -> Option<IpAddr>,
) -> Carried {
    read(payload, bytes, |xcp_ttl, full| {
        // TTLs are compared modulo 256: whatever rewrites them on the way is as unknown as a hop.
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
