//! Measures the clouds upstream of a router, and answers downstream routers that measure theirs.

use core::net::SocketAddr;

use pathmark_cc::{CloudEstimate, Instant};

use crate::Transmit;
use crate::edge::Edge;
use crate::estimator::Estimator;
use crate::requester::{MOST_UPSTREAMS, Received, Step};

#[derive(Debug)]
struct Cloud {
    from: SocketAddr,
    /// Total bytes of its own traffic at the last call of `estimate`.
    came: u64,
    estimator: Estimator,
}

/// Measures clouds, as described in the module.
#[derive(Debug)]
pub struct Measurer {
    edge: Edge,
    /// UDP payload of packets in trains.
    packet: u16,
    clouds: Vec<Cloud>,
}

impl Measurer {
    /// Creates a measurer from a router's messages. Its trains have packets with `packet` bytes
    /// of UDP payload.
    pub fn new(edge: Edge, packet: u16) -> Self {
        Self {
            edge,
            packet,
            clouds: Vec::with_capacity(MOST_UPSTREAMS),
        }
    }

    /// Returns the unused capacity of the cloud behind the router at `from`, over the time since
    /// the last call; `own` is the total number of bytes from there. Call this several times a
    /// second, because it also reports that packets arrive from this router.
    pub fn estimate(&mut self, now: Instant, from: SocketAddr, own: u64) -> Option<CloudEstimate> {
        if !self.clouds.iter().any(|cloud| cloud.from == from) {
            if own == 0 || !self.edge.requester.saw(now, from) {
                return None;
            }
            // The requester has room for this router, so clouds whose router has lost its place
            // there are no longer measured.
            let requester = &self.edge.requester;
            self.clouds.retain(|cloud| requester.keeps(cloud.from));
            let estimator = Estimator::new(now, self.packet);
            self.clouds.push(Cloud {
                from,
                came: own,
                estimator: match from {
                    SocketAddr::V4(_) => estimator,
                    SocketAddr::V6(_) => estimator.over_ipv6(),
                },
            });
        }
        let cloud = self.clouds.iter_mut().find(|cloud| cloud.from == from)?;
        if own != cloud.came {
            cloud.came = own;
            self.edge.requester.saw(now, from);
        }
        cloud.estimator.estimate(now, own)
    }

    /// Handles a message from `from`. `own` returns the total bytes of traffic from this router
    /// so far.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        own: impl FnOnce() -> u64,
    ) {
        let Some(received) = self.edge.on_datagram(now, from, bytes) else {
            return;
        };
        let Some(cloud) = self.clouds.iter_mut().find(|cloud| cloud.from == from) else {
            return;
        };
        match received {
            Received::Coming {
                number, train, rtt, ..
            } => {
                let ask = cloud.estimator.coming(now, number, &train, rtt);
                self.edge.requester.want(from, ask);
            }
            Received::Probe {
                number,
                probe,
                bytes,
                ..
            } => cloud.estimator.on_probe(now, number, &probe, bytes, own()),
        }
    }

    /// Writes the next datagram that is due into `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Transmit> {
        if let Some(transmit) = self.edge.prober.poll_transmit(now, out) {
            return Some(transmit);
        }
        loop {
            match self.edge.requester.poll(now, out)? {
                Step::Send(transmit) => return Some(transmit),
                // Its estimate will expire by itself.
                Step::Silent(_) => {}
            }
        }
    }

    /// The time of the next action.
    pub fn deadline(&self) -> Option<Instant> {
        self.edge.deadline()
    }

    /// The router's end of all messages.
    pub const fn edge(&self) -> &Edge {
        &self.edge
    }
}
