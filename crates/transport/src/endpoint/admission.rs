//! Which clients are heard: from a first packet to an [`Incoming`].

use std::sync::Arc;

use super::incoming::{Incoming, MAX_WAITING_BYTES, Waiting};
use super::initial::{self, Origin};
use super::{ConnectionHandle, DatagramEvent, Endpoint, Slot};
use crate::connection::Received;
use crate::crypto::{Keys, ServerCrypto};
use crate::wire::packet::{MIN_INITIAL_DATAGRAM, Protected};
use crate::wire::{TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// How long an [`Incoming`] may wait for the application: no client waits longer for a first
/// answer.
const WAITING_TIME: Duration = Duration::from_secs(10);

/// The shortest Destination Connection ID of a client's first Initial (RFC 9000 §7.2).
const MIN_INITIAL_DCID: usize = 8;

impl Endpoint {
    /// A client's first packet, or its first one after a Retry.
    pub(super) fn handle_initial(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        found: &Protected,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let Some(server) = &self.config.server else {
            return self.foreign();
        };
        let crypto = Arc::clone(&server.crypto);
        if datagram.len() < MIN_INITIAL_DATAGRAM || found.dcid.len() < MIN_INITIAL_DCID {
            self.stats.dropped_short_initials += 1;
            return DatagramEvent::Nothing;
        }
        let token = datagram.get(found.token.clone()).unwrap_or(&[]);
        let wall = self.wall(now);
        let origin = match Origin::read(
            &*self.config.key,
            &self.used_tokens,
            token,
            received.remote,
            &found.dcid,
            wall,
        ) {
            Ok((origin, worthy)) => {
                self.stats.tokens_refused += u64::from(!worthy);
                origin
            }
            Err(_) => {
                // A bit error in the token must not end the handshake of an honest client.
                if self.opens(&*crypto, found, datagram).is_none() {
                    return DatagramEvent::Nothing;
                }
                self.stats.tokens_refused += 1;
                let error = TransportError::new(
                    TransportErrorCode::INVALID_TOKEN,
                    "the Retry token is forged, expired or of another address",
                );
                return self.send_close(now, &found.dcid, &found.scid, &error, answer);
            }
        };
        if !origin.validated && self.retry.is_on(now, self.half_open.count()) {
            return self.send_retry(now, received, &found.dcid, &found.scid, answer);
        }
        self.expire(now);
        let address = received.remote.ip();
        let is_full = self.half_open.count() >= self.config.max_half_open;
        let makes_room = match is_full {
            true => self.half_open.makes_room(now, address),
            false => None,
        };
        if is_full && makes_room.is_none()
            || self.slots.len() >= self.config.max_connections
            || datagram.len() > MAX_WAITING_BYTES
        {
            self.stats.dropped_full += 1;
            return DatagramEvent::Nothing;
        }
        let Some(keys) = self.opens(&*crypto, found, datagram) else {
            return DatagramEvent::Nothing;
        };
        if let Some(id) = origin.token {
            // Spent by a packet that its client made, on a connection that is begun, and by nothing
            // else.
            self.used_tokens.first_use(id, wall);
        }
        if let Some(handle) = makes_room {
            self.evict(handle);
        }
        DatagramEvent::Incoming(self.admit(now, received, datagram, found, origin, keys))
    }

    /// The keys of the Initial, if it is as its client made it.
    fn opens(
        &mut self,
        crypto: &dyn ServerCrypto,
        found: &Protected,
        datagram: &[u8],
    ) -> Option<Keys> {
        self.scratch.clear();
        self.scratch.extend_from_slice(datagram);
        let keys = initial::keys_that_open(crypto, found, &mut self.scratch);
        self.stats.dropped_forged_initials += u64::from(keys.is_none());
        keys
    }

    fn admit(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        found: &Protected,
        origin: Origin,
        keys: Keys,
    ) -> Incoming {
        let serial = self.next_serial;
        self.next_serial += 1;
        let mut waiting = Waiting::new(serial, now + WAITING_TIME, keys);
        waiting.hold(*received, datagram);
        let handle = ConnectionHandle(self.slots.insert(Slot::Waiting(waiting)));
        let address = received.remote.ip();
        self.half_open.add(now, serial, handle, address);
        if self.waiting.len() > 2 * self.config.max_half_open {
            self.forget_decided();
        }
        self.waiting.push_back((handle, serial));
        self.demux.add_initial(handle, found.dcid, received.remote);
        self.stats.incoming += 1;
        Incoming {
            handle,
            serial,
            received: *received,
            dcid: found.dcid,
            scid: found.scid,
            origin,
        }
    }

    /// Ends a handshake, whose place is wanted.
    fn evict(&mut self, handle: ConnectionHandle) {
        self.stats.evicted += 1;
        match self.slots.get_mut(handle.0) {
            Some(slot @ Slot::Connection { .. }) => {
                if let Slot::Connection {
                    half_open: Some(serial),
                } = core::mem::replace(slot, Slot::Evicted)
                {
                    self.half_open.remove(serial);
                }
                self.demux.remove(handle);
                self.evicted.push_back(handle);
            }
            _ => self.remove(handle),
        }
    }

    fn forget_decided(&mut self) {
        let slots = &self.slots;
        self.waiting.retain(|(handle, serial)| {
            matches!(slots.get(handle.0), Some(Slot::Waiting(w)) if w.serial == *serial)
        });
    }

    /// Forgets clients that nobody accepted in time.
    fn expire(&mut self, now: Instant) {
        while let Some((handle, serial)) = self.waiting.front().copied() {
            match self.slots.get(handle.0) {
                Some(Slot::Waiting(w)) if w.serial == serial && w.expires > now => return,
                Some(Slot::Waiting(w)) if w.serial == serial => {
                    self.stats.expired += 1;
                    self.remove(handle);
                }
                // Decided upon in the meantime.
                _ => {}
            }
            self.waiting.pop_front();
        }
    }
}
