//! The endpoint's answers to unknown senders, with their rate limits, and detection of
//! stateless resets.

use super::{ConnectionHandle, DatagramEvent, Endpoint, known, respond};
use crate::Instant;
use crate::cid::fresh_id;
use crate::connection::Received;
use crate::crypto::ResetToken;
use crate::crypto::reset::MIN_RESET_LEN;
use crate::crypto::token;
use crate::wire::packet::{MIN_INITIAL_DATAGRAM, Unknown};
use crate::wire::{ConnectionId, TransportError};

impl Endpoint {
    /// Returns the connection that the datagram resets, if it is a stateless reset. Such a
    /// datagram may have a header of any form (RFC 9000 §10.3).
    pub(super) fn resets(&self, received: &Received, datagram: &[u8]) -> Option<ConnectionHandle> {
        // [9000 10.3 any-form] [9000 10.3.1 compared]
        let token = ResetToken::at_end_of(datagram)?;
        let key = &*self.config.key;
        self.demux.by_token(key, received.remote, &token)
    }

    /// Handles a packet with a long header that belongs to no connection: either a stateless
    /// reset or a foreign packet.
    #[cold]
    pub(super) fn odd(&mut self, received: &Received, datagram: &[u8]) -> DatagramEvent {
        match self.resets(received, datagram) {
            Some(handle) => known(handle),
            None => self.foreign(),
        }
    }

    /// Sends a stateless reset to the sender of a packet of `len` bytes to `dcid`.
    pub(super) fn send_reset(
        &mut self,
        now: Instant,
        dcid: &[u8],
        len: usize,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        if len <= MIN_RESET_LEN {
            self.stats.dropped_unknown += 1;
            return DatagramEvent::Nothing;
        }
        if !self.resets.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        if !respond::stateless_reset(answer, &mut self.random, &*self.config.key, dcid, len) {
            self.stats.dropped_unknown += 1;
            return DatagramEvent::Nothing;
        }
        self.stats.resets_sent += 1;
        DatagramEvent::Respond
    }

    /// Sends a Version Negotiation packet to the sender of a packet of another version.
    pub(super) fn negotiate(
        &mut self,
        now: Instant,
        datagram: &[u8],
        unknown: &Unknown,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        // Smaller datagrams must not be answered (RFC 9000 §6.1).
        // [9000 5.2.2 small-unknown-version]
        if self.config.server.is_none() || datagram.len() < MIN_INITIAL_DATAGRAM {
            return self.foreign();
        }
        let (Some(dcid), Some(scid)) = (
            datagram.get(unknown.dcid.clone()),
            datagram.get(unknown.scid.clone()),
        ) else {
            return self.foreign();
        };
        if !self.negotiations.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        match respond::version_negotiation(answer, &mut self.random, dcid, scid) {
            Ok(()) => {
                // [9000 17.2.1 one-negotiation]
                self.stats.version_negotiations_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => self.foreign(),
        }
    }

    pub(super) fn send_retry(
        &mut self,
        now: Instant,
        received: &Received,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let Some(server) = &self.config.server else {
            return DatagramEvent::Nothing;
        };
        let expires = self
            .wall(now)
            .saturating_add(self.config.retry_token_lifetime);
        // [9000 17.2.5.1 other-id]
        let retry_scid = fresh_id(&mut self.random);
        let token = token::retry(
            &*self.config.key,
            &mut self.random,
            received.remote,
            dcid,
            &retry_scid,
            expires,
        );
        let crypto = &*server.crypto;
        match respond::retry(
            answer,
            &mut self.random,
            crypto,
            dcid,
            scid,
            &retry_scid,
            &token,
        ) {
            Ok(()) => {
                // [9000 17.2.5.1 one-retry]
                self.stats.retries_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => DatagramEvent::Nothing,
        }
    }

    pub(super) fn send_close(
        &mut self,
        now: Instant,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        error: &TransportError,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let Some(server) = &self.config.server else {
            return DatagramEvent::Nothing;
        };
        if !self.refusals.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        match respond::close(answer, &*server.crypto, dcid, scid, error) {
            Ok(()) => {
                self.stats.refusals_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => DatagramEvent::Nothing,
        }
    }
}
