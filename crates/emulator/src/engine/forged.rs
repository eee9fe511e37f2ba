//! Forged shims: headers in front of packets that no law sends, as any host can write them.

use core::net::IpAddr;

use pathmark_cc::{Duration, Instant, Request, XcpRequest};
use xcp_proto::Form;
use xcp_proto::header::{Body, LastRouter};

use super::setup::address;
use crate::scenario::{Forge, ForgedShim};

/// TTL that XCP's header repeats: the one that packets are sent with.
const TTL: u8 = 64;
/// The rate that an XCP header requests, in 2^-16 bytes per second: more than any port has.
const WISH: i64 = 1 << 56;

/// Writes one shim in front of each packet and chooses the flow that a packet claims to be of.
#[derive(Debug)]
pub(super) struct Forger {
    shim: Vec<u8>,
    ports: Option<Duration>,
    start: Instant,
}

impl Forger {
    /// For packets of `bytes` IP bytes at `rate` bytes per second.
    pub(super) fn new(forge: &Forge, bytes: u16, rate: u64, start: Instant) -> Self {
        Self {
            shim: shim(forge, bytes, rate),
            ports: forge.ports,
            start,
        }
    }

    /// Puts the shim in front of a datagram that has room for it.
    pub(super) fn write(&self, datagram: &mut [u8]) {
        if let Some(front) = datagram.get_mut(..self.shim.len()) {
            front.copy_from_slice(&self.shim);
        }
    }

    /// The hash of the flow that a packet is of which leaves now, where `own` is the first one's.
    pub(super) fn flow_hash(&self, now: Instant, own: u32) -> u32 {
        let Some(ports) = self.ports else {
            return own;
        };
        let elapsed = (now - self.start).as_nanos();
        let turn = u32::try_from(elapsed / ports.as_nanos().max(1)).unwrap_or(u32::MAX);
        own ^ turn.wrapping_mul(0x9E37_79B1)
    }
}

/// The shim's bytes: of a BISE sender, or of an XCP sender that states its true rate and requests
/// more than any port has.
fn shim(forge: &Forge, bytes: u16, rate: u64) -> Vec<u8> {
    match forge.shim {
        ForgedShim::Vcp => {
            let mut request = Request::default();
            request.bise = true;
            request.min_rtt = Some(forge.rtt);
            vcp_proto::Repr::initial(&request, true).emit().to_vec()
        }
        ForgedShim::Xcp => {
            let x = (u64::from(bytes) << 40).checked_div(rate).unwrap_or(0);
            let request = XcpRequest {
                rtt_us: u32::try_from(forge.rtt.as_micros()).unwrap_or(u32::MAX),
                x,
                delta: WISH,
                covers: 1,
                window: 0,
                packet: bytes,
            };
            let mut shim = vec![0; Form::V4.len()];
            let mut repr = xcp_proto::Repr::initial(Form::V4, Some(&request), TTL);
            if let Body::Full(full) = &mut repr.body
                && let Some(IpAddr::V4(last)) = forge.names.map(address)
            {
                full.last = LastRouter::V4(last);
            }
            // There is room.
            let _ = repr.emit(&mut shim);
            shim
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_cc::Carried;
    use pathmark_router::forward::shim::{NoHeader, read};

    fn forger(shim: ForgedShim) -> Forger {
        let forge = Forge {
            shim,
            rtt: Duration::from_millis(80),
            ports: Some(Duration::from_millis(100)),
            names: None,
        };
        Forger::new(&forge, 1500, 1_500_000, Instant::ZERO)
    }

    #[test]
    fn routers_read_what_is_written() {
        let mut datagram = [0; 1472];
        forger(ForgedShim::Vcp).write(&mut datagram);
        let Carried::Vcp(vcp) = read(&datagram, 1500, &NoHeader) else {
            panic!("VCP");
        };
        assert!(vcp.bise && vcp.min_rtt >= Some(Duration::from_millis(70)));
        let mut datagram = [0; 1472];
        forger(ForgedShim::Xcp).write(&mut datagram);
        let Carried::Xcp(xcp) = read(&datagram, 1500, &NoHeader) else {
            panic!("XCP");
        };
        // A packet each millisecond.
        assert_eq!((xcp.rtt_us, xcp.x), (80_000, (1 << 40) / 1000));
    }

    #[test]
    fn ports_change_when_their_time_is_over() {
        let forger = forger(ForgedShim::Vcp);
        let at = |ms| forger.flow_hash(Instant::from_millis(ms), 7);
        assert_eq!((at(0), at(99)), (7, 7));
        assert!(at(100) != 7 && at(100) == at(199) && at(200) != at(100));
    }
}
