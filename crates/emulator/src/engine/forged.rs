//! Forged shims: headers that no law sends, but that any host can write in front of packets.

use pathmark_cc::{Duration, Instant};
use pathmark_protocols::forged::{self, Claim};

use super::identity::address;
use crate::scenario::Forge;

/// Writes one shim in front of each packet, and chooses the flow to which a packet claims to
/// belong.
#[derive(Debug)]
pub(super) struct Forger {
    shim: Vec<u8>,
    ports: Option<Duration>,
    start: Instant,
}

impl Forger {
    /// Forges shims for packets of `bytes` IP bytes at `rate` bytes per second.
    pub(super) fn new(forge: &Forge, bytes: u16, rate: u64, start: Instant) -> Self {
        Self {
            shim: shim(forge, bytes, rate),
            ports: forge.ports,
            start,
        }
    }

    /// Writes the shim into a datagram that has room for it.
    pub(super) fn write(&self, datagram: &mut [u8]) {
        if let Some(front) = datagram.get_mut(..self.shim.len()) {
            front.copy_from_slice(&self.shim);
        }
    }

    /// The hash of the flow to which a packet sent now claims to belong; `own` is that of the
    /// first one.
    pub(super) fn flow_hash(&self, now: Instant, own: u32) -> u32 {
        let Some(ports) = self.ports else {
            return own;
        };
        let elapsed = (now - self.start).as_nanos();
        let turn = u32::try_from(elapsed / ports.as_nanos().max(1)).unwrap_or(u32::MAX);
        own ^ turn.wrapping_mul(0x9E37_79B1)
    }
}

/// The shim's bytes.
fn shim(forge: &Forge, bytes: u16, rate: u64) -> Vec<u8> {
    let claim = Claim {
        rtt: forge.rtt,
        bytes,
        rate,
        last_router: forge.names.map(address),
    };
    forged::shim(forge.shim.0, &claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ForgedShim;

    fn forger() -> Forger {
        let forge = Forge {
            shim: ForgedShim(forged::kind("vcp").unwrap()),
            rtt: Duration::from_millis(80),
            ports: Some(Duration::from_millis(100)),
            names: None,
        };
        Forger::new(&forge, 1500, 1_500_000, Instant::ZERO)
    }

    #[test]
    fn ports_change_when_their_time_is_over() {
        let forger = forger();
        let at = |ms| forger.flow_hash(Instant::from_millis(ms), 7);
        assert_eq!((at(0), at(99)), (7, 7));
        assert!(at(100) != 7 && at(100) == at(199) && at(200) != at(100));
    }
}
