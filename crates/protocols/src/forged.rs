//! Shims of senders without a law of this library: those that a law would not send, for testing
//! ports, and those of the papers' TCPs.

use core::net::Ipv4Addr;

use pathmark_cc::{Carried, Duration, Request, XcpRequest};
use pathmark_shim::Kind;
use xcp_proto::Form;
use xcp_proto::header::{Body, LastRouter};

use crate::shim::{NoHeader, read};

/// The TTL that XCP's header repeats, with which packets are sent.
const TTL: u8 = 64;
/// The rate that an XCP header requests, in 2^-16 bytes per second: more than any port has.
const WISH: i64 = 1 << 56;

/// The properties that a forged shim claims.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The sender's round trip.
    pub rtt: Duration,
    /// IP bytes of each packet.
    pub bytes: u16,
    /// The sender's rate in bytes per second.
    pub rate: u64,
    /// The last router that the packet has passed, if the shim can name one.
    pub last_router: Option<Ipv4Addr>,
}

/// Names of TCPs, and the kind of shim in front of their packets.
pub const TCPS: [(&str, Option<Kind>); 2] = [("tcp-reno", None), ("tcp-xcp", Some(Kind::XCP))];

/// Names of the kinds that can be forged.
pub const NAMES: &[&str] = &["vcp", "xcp"];

/// Returns the kind with this name, which must be one of [`NAMES`].
pub fn kind(name: &str) -> Option<Kind> {
    match name {
        "vcp" => Some(Kind::VCP),
        "xcp" => Some(Kind::XCP),
        _ => None,
    }
}

/// Returns true if shims of this kind name the last router that they have passed.
pub fn names_router(kind: Kind) -> bool {
    kind == Kind::XCP
}

/// Returns the shim of a BISE sender, or of an XCP sender that states its true rate and requests
/// all available capacity. Returns an empty vector for other kinds.
pub fn shim(kind: Kind, claim: &Claim) -> Vec<u8> {
    match kind {
        Kind::VCP => {
            let mut request = Request::default();
            request.bise = true;
            request.min_rtt = Some(claim.rtt);
            vcp_proto::Repr::initial(&request, true).emit().to_vec()
        }
        Kind::XCP => {
            let x = (u64::from(claim.bytes) << 40).checked_div(claim.rate);
            let request = XcpRequest {
                rtt_us: u32::try_from(claim.rtt.as_micros()).unwrap_or(u32::MAX),
                x: x.unwrap_or(0),
                delta: WISH,
                covers: 1,
                window: 0,
                packet: claim.bytes,
            };
            let mut shim = vec![0; Form::V4.len()];
            let mut repr = xcp_proto::Repr::initial(Form::V4, Some(&request), TTL);
            if let Body::Full(full) = &mut repr.body
                && let Some(last) = claim.last_router
            {
                full.last = LastRouter::V4(last);
            }
            // There is enough room.
            let _ = repr.emit(&mut shim);
            shim
        }
        _ => Vec::new(),
    }
}

/// The state of a TCP that its shims contain.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// The smoothed round trip. `None`: it is unknown, and nothing is requested.
    pub rtt: Option<Duration>,
    /// The window in 2^-16 packets.
    pub window: u64,
    /// IP bytes of a packet.
    pub bytes: u16,
}

/// Bytes of a TCP's shim.
pub const fn tcp_shim_len() -> usize {
    Form::V4.len()
}

/// Writes the shim of a TCP, which requests all available capacity. A buffer shorter than
/// [`tcp_shim_len`] stays unchanged.
pub fn write_tcp_shim(stated: &Stated, shim: &mut [u8]) {
    let window = u128::from(stated.window.max(1));
    let bytes = u128::from(stated.bytes);
    let mut request = XcpRequest {
        covers: 1,
        window: u64::try_from((window >> 16) * bytes).unwrap_or(u64::MAX),
        packet: stated.bytes,
        ..XcpRequest::default()
    };
    if let Some(rtt) = stated.rtt {
        let nanos = rtt.as_nanos().max(1);
        let x = (((nanos << 40) / 1_000_000_000) << 16) / window;
        request.rtt_us = u32::try_from(nanos / 1_000).unwrap_or(u32::MAX).max(1);
        request.x = u64::try_from(x).unwrap_or(u64::MAX);
        request.delta = WISH;
    }
    // This only fails if there is not enough room.
    let _ = xcp_proto::Repr::initial(Form::V4, Some(&request), TTL).emit(shim);
}

/// Returns the change of the rate that routers granted to this packet of `bytes` bytes, in 2^-16
/// bytes per second, or 0 if its shim carries none.
pub fn granted(payload: &[u8], bytes: u32) -> i64 {
    match read(payload, bytes, &NoHeader) {
        Carried::Xcp(carried) => carried.delta,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_read_what_is_written() {
        let claim = Claim {
            rtt: Duration::from_millis(80),
            bytes: 1500,
            rate: 1_500_000,
            last_router: None,
        };
        let datagram = |name| {
            let mut datagram = shim(kind(name).unwrap(), &claim);
            datagram.resize(1472, 0);
            datagram
        };
        let Carried::Vcp(vcp) = read(&datagram("vcp"), 1500, &NoHeader) else {
            panic!("VCP");
        };
        assert!(vcp.bise && vcp.min_rtt >= Some(Duration::from_millis(70)));
        let Carried::Xcp(xcp) = read(&datagram("xcp"), 1500, &NoHeader) else {
            panic!("XCP");
        };
        // One packet per millisecond.
        assert_eq!((xcp.rtt_us, xcp.x), (80_000, (1 << 40) / 1000));
        assert_eq!(granted(&datagram("xcp"), 1500), WISH);
        assert_eq!(granted(&datagram("vcp"), 1500), 0);
        assert!(NAMES.iter().all(|name| kind(name).is_some()));
    }
}
