//! A router that measures the clouds before it, and lets routers behind it measure theirs.

use core::net::SocketAddr;

use pathmark_cc::{CloudEstimate, Instant};

use crate::Transmit;
use crate::edge::Edge;
use crate::estimator::Estimator;
use crate::requester::{MOST_UPSTREAMS, Received, Step};

/// A cloud that is measured.
#[derive(Debug)]
struct Cloud {
    from: SocketAddr,
    /// Bytes that its own traffic had brought when it was asked about last.
    came: u64,
    estimator: Estimator,
}

/// See the module.
#[derive(Debug)]
pub struct Measurer {
    edge: Edge,
    /// UDP payload of trains' packets.
    packet: u16,
    clouds: Vec<Cloud>,
}

impl Measurer {
    /// A router's messages, and trains of packets with `packet` bytes of UDP payload.
    #[must_use]
    pub fn new(edge: Edge, packet: u16) -> Self {
        Self {
            edge,
            packet,
            clouds: Vec::with_capacity(MOST_UPSTREAMS),
        }
    }

    /// What the cloud behind the router at `from` leaves, for the time since this was asked last;
    /// `own` bytes have come from there in all. To be asked several times a second: this is also
    /// how it learns that packets come from there.
    pub fn estimate(&mut self, now: Instant, from: SocketAddr, own: u64) -> Option<CloudEstimate> {
        if !self.clouds.iter().any(|cloud| cloud.from == from) {
            if own == 0 || !self.edge.requester.saw(now, from) {
                return None;
            }
            // It has a place where routers are asked; who lost his there is not measured any more.
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

    /// A message came from `from`. `own` tells how many bytes of its traffic had come by then in
    /// all.
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
                // Its estimate runs out by itself.
                Step::Silent(_) => {}
            }
        }
    }

    /// When something is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.edge.deadline()
    }

    /// Its messages, to look at.
    #[must_use]
    pub const fn edge(&self) -> &Edge {
        &self.edge
    }
}
