//! Arrivals that concern the paths: bytes, which raise amplification limits, and PATH_CHALLENGE and
//! PATH_RESPONSE frames.

use std::net::SocketAddr;

use super::address::Address;
use super::{OffPath, Others, Paths};
use crate::Instant;
use crate::cid::RemoteIds;
use crate::connection::Received;
use crate::path::{AmplificationLimit, PathResponses};

impl Paths {
    /// Counts a datagram of `bytes` for the amplification limit of its address. Returns true if it
    /// arrived on the current path.
    #[inline]
    pub(in crate::connection) fn on_datagram(&mut self, received: &Received, bytes: u64) -> bool {
        let in_use = self.path.brought(received);
        if in_use {
            // [9000 8.1 counted-bytes]
            self.path.address.limit.on_received(bytes);
        } else if let Some(off) = &mut self.off_path
            && off.remote == received.remote
        {
            off.limit.on_received(bytes);
        } else {
            self.unknown_source = Some((received.remote, bytes));
        }
        in_use
    }

    /// Returns the bytes of the current datagram if it is from `remote` and hasn't been counted for
    /// a limit.
    pub(super) fn take_credit(&mut self, remote: SocketAddr) -> u64 {
        let source = self.unknown_source.take();
        source
            .filter(|(from, _)| *from == remote)
            .map_or(0, |(_, bytes)| bytes)
    }

    /// Processes a PATH_CHALLENGE in a datagram of `bytes`.
    pub(in crate::connection) fn on_challenge(
        &mut self,
        received: &Received,
        data: [u8; 8],
        bytes: usize,
        ids: &mut RemoteIds,
    ) {
        // [9000 8.2.1 small-challenge-read]
        let full_size = bytes >= self.full_datagram();
        if self.path.brought(received) {
            self.path.address.responses.on_challenge(data, full_size);
            // A peer that sends on a new path challenges it, so its later shims describe this path.
            self.path.feedback.on_new_incoming_path();
            return;
        }
        let known = self
            .off_path
            .as_ref()
            .is_some_and(|off| off.remote == received.remote);
        if !known {
            if let Some(old) = self.off_path.take() {
                ids.give_up(old.id.sequence);
            }
            let Some(id) = ids.allot() else {
                return;
            };
            self.tokens_moved = true;
            let mut limit = AmplificationLimit::new();
            limit.on_received(self.take_credit(received.remote));
            self.off_path = Some(OffPath {
                remote: received.remote,
                local: received.local,
                limit,
                responses: PathResponses::new(),
                id,
            });
        }
        if let Some(off) = &mut self.off_path {
            off.responses.on_challenge(data, full_size);
        }
    }

    /// Processes a PATH_RESPONSE, which arrives at the address from which the challenge was sent
    /// (RFC 9000 §8.2.2). Returns true if the current path is now validated.
    pub(in crate::connection) fn on_response<F>(
        &mut self,
        now: Instant,
        received: &Received,
        data: [u8; 8],
        others: &mut Others<'_, F>,
    ) -> bool {
        let answered = |address: &Address| {
            let validation = address.validation.as_ref();
            validation.and_then(|validation| validation.on_response(now, data))
        };
        let Some(validated) = answered(&self.path.address) else {
            if let Some(old) = &mut self.fallback
                && answered(&old.address).is_some()
            {
                old.address.validation = None;
                old.address.prove(now);
            }
            return false;
        };
        let address = &mut self.path.address;
        address.local = address.local.or(received.local);
        address.prove(now);
        others.recovery.set_amplification_blocked(now, false);
        // A challenge that was too small proves the address, but not that the path carries QUIC
        // (RFC 9000 §8.2.1).
        // [9000 8.2.1 second-challenge]
        address.validation = (!validated.full_size).then(|| others.validation(now));
        if validated.full_size && self.side.is_client() {
            self.fallback = None;
        }
        // [9000 14 narrow-path]
        validated.full_size
    }
}
