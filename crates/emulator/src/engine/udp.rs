//! Packets without a connection, which are sent at their times regardless of losses. They may
//! carry forged shims: headers that no law sends, but that any host can write in front of packets.

use std::net::SocketAddr;

use pathmark_cc::{Duration, Instant};
use pathmark_protocols::forged::{self, Claim};
use pathmark_transport::Ecn;
use pathmark_transport::connection::Transmit;

use super::address;
use super::pattern::Ticks;
use crate::scenario::Forge;

/// Sends packets of one size.
#[derive(Debug)]
pub(super) struct Emitter {
    ticks: Ticks,
    /// UDP payload of each packet.
    payload: u16,
    stop: Option<Instant>,
    forger: Option<Forger>,
    due: u64,
    sent: u64,
    over: bool,
}

impl Emitter {
    pub(super) fn new(ticks: Ticks, payload: u16, stop: Option<Instant>) -> Self {
        Self {
            ticks,
            payload,
            stop,
            forger: None,
            due: 0,
            sent: 0,
            over: false,
        }
    }

    /// Puts a shim in front of each packet.
    pub(super) fn with_shims(mut self, forger: Option<Forger>) -> Self {
        self.forger = forger;
        self
    }

    /// The hash of the flow to which packets sent now claim to belong.
    pub(super) fn flow_hash(&self, now: Instant, own: u32) -> u32 {
        let forger = self.forger.as_ref();
        forger.map_or(own, |forger| forger.flow_hash(now, own))
    }

    /// When [`on_time`](Self::on_time) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.over).then(|| self.ticks.deadline())
    }

    /// Creates the packets that are due.
    pub(super) fn on_time(&mut self, now: Instant) {
        if self.stop.is_some_and(|stop| stop <= now) {
            self.over = true;
        } else if self.ticks.take(now) > 0 {
            // A tick is a packet, and the agenda stops at each tick.
            self.due += 1;
        }
    }

    /// Returns packets to send now. They contain zeros, which no router mistakes for a shim,
    /// after a forged shim if there is one.
    pub(super) fn poll_transmit(
        &mut self,
        remote: SocketAddr,
        buffer: &mut [u8],
        batch: usize,
    ) -> Option<Transmit> {
        let segment = usize::from(self.payload).max(1);
        let count = usize::try_from(self.due)
            .unwrap_or(batch)
            .min(batch)
            .min(buffer.len() / segment);
        if count == 0 {
            return None;
        }
        self.due -= count as u64;
        self.sent += count as u64;
        let len = count * segment;
        let batch = buffer.get_mut(..len)?;
        batch.fill(0);
        if let Some(forger) = &self.forger {
            for datagram in batch.chunks_mut(segment) {
                forger.write(datagram);
            }
        }
        Some(Transmit {
            remote,
            local: None,
            ecn: Ecn::NotEct,
            len,
            segment_size: segment,
        })
    }

    /// Packets sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

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
