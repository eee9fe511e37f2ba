//! A router's two roles: it answers requests and sends its own.

use core::net::SocketAddr;

use pathmark_cc::Instant;

use crate::auth::{Key, Own};
use crate::message::{BadMessage, Body, Message};
use crate::prober::Prober;
use crate::requester::{Received, Requester};

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

#[cfg(test)]
#[path = "edge_tests.rs"]
mod tests;
