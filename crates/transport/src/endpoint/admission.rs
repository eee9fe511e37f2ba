//! Admission of clients: from a first packet, before any state about the client is kept, to an
//! [`Incoming`].

use core::net::SocketAddr;
use std::sync::Arc;

use super::half_open::{Incoming, MAX_WAITING_BYTES, Origin, Waiting};
use super::{ConnectionHandle, DatagramEvent, Endpoint, Slot, Sorted};
use crate::connection::Received;
use crate::crypto::token::{self, ReplayFilter, Token, TokenError};
use crate::crypto::{
    DirectionalKeys, EndpointKey, InitialCrypto, Keys, SAMPLE_LEN, ServerCrypto, SharedEndpointKey,
    Side,
};
use crate::wire::packet::{PlainHeader, Protected};
use crate::wire::{ConnectionId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// How long an [`Incoming`] may wait for the application. No client waits longer for a first
/// answer.
const WAITING_TIME: Duration = Duration::from_secs(10);

/// The shortest Destination Connection ID of a client's first Initial (RFC 9000 §7.2).
const MIN_INITIAL_DCID: usize = 8;

/// A client's first packet, ready to be [opened](Self::open). Opening doesn't need the endpoint, so
/// if you guard the endpoint with a lock, you can release it meanwhile.
#[derive(Debug)]
pub struct FirstPacket {
    found: Protected,
    crypto: Arc<dyn ServerCrypto>,
    key: SharedEndpointKey,
    wall: Duration,
    /// Whether the packet is refused unless it has a valid token.
    needs_token: bool,
}

/// A client's first packet after trying to open it, for passing to [`Endpoint::admit`].
#[derive(Debug)]
pub struct OpenedFirst {
    found: Protected,
    wall: Duration,
    token: Result<TokenRead, TokenError>,
    /// `None`: the packet can't be opened.
    keys: Option<Keys>,
}

#[cfg(test)]
impl OpenedFirst {
    pub(super) const fn is_opened(&self) -> bool {
        self.keys.is_some()
    }
}

/// The reason that a client isn't admitted.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// It must prove its address first.
    Unproven,
    /// There is no room.
    Full,
}

impl FirstPacket {
    /// Opens the packet, which must be at the beginning of `datagram`, and the token that it
    /// carries.
    pub fn open(self, received: &Received, datagram: &[u8]) -> OpenedFirst {
        let Self {
            found,
            crypto,
            key,
            wall,
            needs_token,
        } = self;
        let token = datagram.get(found.token.clone()).unwrap_or(&[]);
        // [9000 8.1.3 token-read]
        let token = TokenRead::new(&*key, token, received.remote, &found.dcid, wall);
        let is_refused = needs_token && token == Ok(TokenRead::Worthless);
        let keys = match datagram.get(..found.len) {
            // A copy, because the connection opens the packet again.
            Some(packet) if !is_refused => keys_that_open(&*crypto, &found, &mut packet.to_vec()),
            _ => None,
        };
        OpenedFirst {
            found,
            wall,
            token,
            keys,
        }
    }
}

impl Endpoint {
    /// Sorts a client's first packet, or its first one after a Retry. If there is no room, or
    /// if clients must prove their address first, packets without a token are refused without
    /// opening them.
    pub(super) fn sort_initial(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        found: Protected,
        answer: &mut Vec<u8>,
    ) -> Sorted {
        let Some(server) = &self.config.server else {
            return self.foreign().into();
        };
        let crypto = Arc::clone(&server.crypto);
        let full = server.transport.full_datagram();
        if datagram.len() < full || found.dcid.len() < MIN_INITIAL_DCID {
            self.stats.dropped_short_initials += 1;
            return DatagramEvent::Nothing.into();
        }
        let room = self.room(now, received, datagram, false, |_| false);
        if let (Err(refusal), true) = (room, found.token.is_empty()) {
            return self
                .refuse_first(refusal, now, received, &found, answer)
                .into();
        }
        Sorted::First(FirstPacket {
            crypto,
            key: Arc::clone(&self.config.key),
            wall: self.wall(now),
            needs_token: room.is_err(),
            found,
        })
    }

    /// Continues processing a client's first packet after opening it. `answer` is cleared, and
    /// filled only for [`DatagramEvent::Respond`].
    ///
    /// If places are scarce, a handshake normally loses its place to a new client. However, while
    /// packets that have arrived for it are still `unread`, it can keep its place for up to two
    /// seconds.
    pub fn admit(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        opened: OpenedFirst,
        unread: impl Fn(ConnectionHandle) -> bool,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let OpenedFirst {
            found,
            wall,
            token,
            keys,
        } = opened;
        if self.config.server.is_none() {
            // No clients are admitted anymore.
            return self.foreign();
        }
        if let Some(handle) = self.demux.by_initial(&found.dcid, received.remote) {
            // A duplicate has arrived in the meantime through another socket.
            return self.handle_begun(handle, received, datagram);
        }
        let origin = match token {
            Ok(token) => {
                let (origin, worthy) = Origin::new(token, &self.used_tokens, &found.dcid, wall);
                self.stats.tokens_refused += u64::from(!worthy);
                origin
            }
            // A bit error in the token must not end the handshake of an honest client.
            Err(_) if keys.is_none() => return self.forged(),
            Err(_) => {
                self.stats.tokens_refused += 1;
                let error = TransportError::new(
                    TransportErrorCode::INVALID_TOKEN,
                    "the Retry token is forged, expired or of another address",
                );
                return self.send_close(now, &found.dcid, &found.scid, &error, answer);
            }
        };
        let makes_room = match self.room(now, received, datagram, origin.validated, unread) {
            Ok(makes_room) => makes_room,
            Err(refusal) => return self.refuse_first(refusal, now, received, &found, answer),
        };
        // Alternatively, there was no room when the packet arrived, so it wasn't opened.
        let Some(keys) = keys else {
            return self.forged();
        };
        if let Some(id) = origin.token {
            // A token may only be spent by an authentic packet of its client, for a connection that
            // begins.
            // [9000 8.1.4 replayed-token]
            self.used_tokens.first_use(id, wall);
        }
        if let Some(handle) = makes_room {
            self.evict(handle);
        }
        DatagramEvent::Incoming(self.wait(now, received, datagram, &found, origin, keys))
    }

    fn forged(&mut self) -> DatagramEvent {
        self.stats.dropped_forged_initials += 1;
        DatagramEvent::Nothing
    }

    /// Checks for room for a client. Returns the handshake that must make room if no place is
    /// free.
    fn room(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        validated: bool,
        unread: impl Fn(ConnectionHandle) -> bool,
    ) -> Result<Option<ConnectionHandle>, Refusal> {
        if !validated && self.retry.is_on(now, self.half_open.count()) {
            return Err(Refusal::Unproven);
        }
        self.expire(now);
        let address = received.remote.ip();
        let is_full = self.half_open.count() >= self.config.max_half_open;
        let makes_room = if is_full {
            self.half_open.makes_room(now, address, unread)
        } else {
            None
        };
        let is_refused = is_full && makes_room.is_none()
            || self.slots.len() >= self.config.max_connections
            || datagram.len() > MAX_WAITING_BYTES;
        if is_refused {
            return Err(Refusal::Full);
        }
        Ok(makes_room)
    }

    fn refuse_first(
        &mut self,
        refusal: Refusal,
        now: Instant,
        received: &Received,
        found: &Protected,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        match refusal {
            Refusal::Unproven => self.send_retry(now, received, &found.dcid, &found.scid, answer),
            Refusal::Full => {
                self.stats.dropped_full += 1;
                DatagramEvent::Nothing
            }
        }
    }

    fn wait(
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

    /// Ends a handshake whose place is needed.
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

    /// Forgets clients that were not accepted in time.
    fn expire(&mut self, now: Instant) {
        while let Some((handle, serial)) = self.waiting.front().copied() {
            match self.slots.get(handle.0) {
                Some(Slot::Waiting(w)) if w.serial == serial && w.expires > now => return,
                Some(Slot::Waiting(w)) if w.serial == serial => {
                    self.stats.expired += 1;
                    self.remove(handle);
                }
                // It was accepted or refused in the meantime.
                _ => {}
            }
            self.waiting.pop_front();
        }
    }
}

/// The token of an Initial, as far as it can be checked without the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRead {
    /// There is no token.
    None,
    /// Valid, unless it was used before.
    Good(Token),
    /// Invalid, so it proves nothing.
    Worthless,
}

impl TokenRead {
    /// Reads the token of an Initial to `dcid`.
    ///
    /// # Errors
    /// [`TokenError::InvalidRetry`] if the client must be refused.
    pub(super) fn new(
        key: &dyn EndpointKey,
        token: &[u8],
        client: SocketAddr,
        dcid: &ConnectionId,
        wall: Duration,
    ) -> Result<Self, TokenError> {
        if token.is_empty() {
            return Ok(Self::None);
        }
        match token::open(key, token, client, dcid, wall) {
            Ok(token) => Ok(Self::Good(token)),
            Err(TokenError::Worthless) => Ok(Self::Worthless),
            Err(error @ TokenError::InvalidRetry) => Err(error),
        }
    }
}

impl Origin {
    /// Evaluates the token of an Initial to `dcid`. The second value is false if the token is
    /// invalid.
    pub(super) fn new(
        token: TokenRead,
        used: &ReplayFilter,
        dcid: &ConnectionId,
        wall: Duration,
    ) -> (Self, bool) {
        let unknown = Self {
            original_dcid: *dcid,
            retry_scid: None,
            validated: false,
            token: None,
        };
        match token {
            TokenRead::None => (unknown, true),
            TokenRead::Good(Token::Retry {
                original_dcid,
                retry_scid,
            }) => {
                let followed = Self {
                    original_dcid,
                    retry_scid: Some(retry_scid),
                    validated: true,
                    token: None,
                };
                (followed, true)
            }
            TokenRead::Good(Token::New { id }) if used.is_fresh(id, wall) => {
                let known = Self {
                    validated: true,
                    token: Some(id),
                    ..unknown
                };
                (known, true)
            }
            TokenRead::Good(Token::New { .. }) | TokenRead::Worthless => (unknown, false),
        }
    }
}

/// Returns the keys for the Initial that `found` describes if they open it, which proves that
/// it is undamaged and its sender speaks the protocol. `packet` must be a copy, because it is
/// overwritten.
pub(super) fn keys_that_open(
    crypto: &dyn InitialCrypto,
    found: &Protected,
    packet: &mut [u8],
) -> Option<Keys> {
    let keys = crypto.initial_keys(found.dcid.as_slice(), Side::Server);
    opens(&keys.remote, found, packet).then_some(keys)
}

fn opens(keys: &DirectionalKeys, found: &Protected, packet: &mut [u8]) -> bool {
    let Some(sample) = found
        .sample()
        .and_then(|range| packet.get(range)?.first_chunk::<SAMPLE_LEN>())
    else {
        return false;
    };
    let [first_mask, number_mask @ ..] = keys.header.mask(sample);
    let Some(first) = packet.first_mut() else {
        return false;
    };
    *first ^= first_mask & 0x0f;
    let number_len = usize::from(*first & 3) + 1;
    if let Some(number) = packet.get_mut(found.number_at..found.number_at + number_len) {
        number
            .iter_mut()
            .zip(number_mask)
            .for_each(|(b, m)| *b ^= m);
    }
    let Ok(header) = PlainHeader::decode(packet, found) else {
        return false;
    };
    // This is the first packet from this client, so numbers start at 0.
    let number = header.number.expand(0);
    packet
        .get_mut(..found.len)
        .is_some_and(|packet| keys.packet.open(number, packet, header.payload_at).is_ok())
}
