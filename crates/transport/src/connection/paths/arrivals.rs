//! What arrives for the paths: bytes, which feed amplification limits, and PATH_CHALLENGE and
//! PATH_RESPONSE frames.

use std::net::SocketAddr;

use super::address::Address;
use super::{OffPath, Others, Paths};
use crate::Instant;
use crate::cid::RemoteIds;
use crate::connection::Received;
use crate::path::{AmplificationLimit, PathResponses};

impl Paths {
    /// A datagram of `bytes` came in: it feeds the amplification limit of its address. True if that
    /// is the one in use.
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

    /// Bytes of the datagram at hand, if it is from `remote` and no limit has been fed with it.
    pub(super) fn take_credit(&mut self, remote: SocketAddr) -> u64 {
        let source = self.unknown_source.take();
        source
            .filter(|(from, _)| *from == remote)
            .map_or(0, |(_, bytes)| bytes)
    }

    /// A PATH_CHALLENGE arrived, in a datagram of `bytes`.
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
            // A peer that sends by a new path challenges it: its later shims describe that path.
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

    /// A PATH_RESPONSE arrived. It comes to where its challenge left from (RFC 9000 §8.2.2).
    /// True if the path in use is validated now.
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
        // Too small a challenge proves the address, but not that the path carries QUIC (RFC 9000
        // §8.2.1).
        // [9000 8.2.1 second-challenge]
        address.validation = (!validated.full_size).then(|| others.validation(now));
        if validated.full_size && self.side.is_client() {
            self.fallback = None;
        }
        // [9000 14 narrow-path]
        validated.full_size
    }
}
