//! Reads a packet's fields for a port's law.

use core::net::IpAddr;

use pathmark_cc::{Carried, Cloud, Upstream, XcpCarried};

use crate::header::{Body, Full, Packet};

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
