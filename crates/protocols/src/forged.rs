//! Shims for packets that no law would send, for testing ports.

use core::net::Ipv4Addr;

use pathmark_cc::{Duration, Request, XcpRequest};
use pathmark_shim::Kind;
use xcp_proto::Form;
use xcp_proto::header::{Body, LastRouter};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::{NoHeader, read};
    use pathmark_cc::Carried;

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
        assert!(NAMES.iter().all(|name| kind(name).is_some()));
    }
}
