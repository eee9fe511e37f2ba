//! A router's two roles: it measures the clouds upstream of it, and answers downstream routers that
//! measure theirs.

use core::net::SocketAddr;

use pathmark_cc::{CloudEstimate, Instant};

use crate::Transmit;
use crate::auth::{Key, Own};
use crate::estimator::Estimator;
use crate::message::{BadMessage, Body, Message};
use crate::prober::Prober;
use crate::requester::{MOST_UPSTREAMS, Received, Requester, Step};

/// A router's end of all messages.
#[derive(Debug)]
pub struct Edge {
    own: Own,
    key: Key,
    /// Answers requests.
    pub prober: Prober,
    /// Sends requests.
    pub requester: Requester,
    forged: u64,
    foreign: u64,
}

impl Edge {
    /// Creates a router with the addresses `own`.
    pub fn new(own: impl Into<Own>, key: Key, prober: Prober, requester: Requester) -> Self {
        Self {
            own: own.into(),
            key,
            prober,
            requester,
            forged: 0,
            foreign: 0,
        }
    }

    /// Handles a datagram. A datagram that was not created with the secret is only counted.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Option<Received> {
        let route = self.own.way_from(from.ip());
        let message = match Message::read(&self.key, &route, bytes) {
            Ok(message) => message,
            Err(BadMessage::Forged) => {
                self.forged += 1;
                return None;
            }
            Err(_) => {
                self.foreign += 1;
                return None;
            }
        };
        if let Body::Request(token, train) = &message.body {
            self.prober.on_request(now, from, &message, token, train);
            return None;
        }
        self.requester.on_answer(now, from, &message, bytes.len())
    }

    /// The next deadline.
    pub fn deadline(&self) -> Option<Instant> {
        let both = [self.prober.deadline(), self.requester.deadline()];
        both.into_iter().flatten().min()
    }

    /// Number of datagrams with a wrong authenticator.
    pub const fn forged(&self) -> u64 {
        self.forged
    }

    /// Number of datagrams that are not valid messages, or that request a train out of range.
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }
}

#[derive(Debug)]
struct Cloud {
    from: SocketAddr,
    /// Total bytes of its own traffic at the last call of `estimate`.
    came: u64,
    estimator: Estimator,
}

/// Measures the clouds upstream of a router.
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

#[cfg(test)]
#[path = "edge_tests.rs"]
mod tests;
