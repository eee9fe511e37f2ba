//! Packets without a connection, which are sent at their times regardless of losses.

use std::net::SocketAddr;

use pathmark_cc::Instant;
use pathmark_transport::Ecn;
use pathmark_transport::connection::Transmit;

use super::forged::Forger;
use super::pattern::Ticks;

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
