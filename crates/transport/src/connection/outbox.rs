//! Notifications of a connection: events for the application, and changes in how the endpoint finds
//! the connection.

use crate::Ecn;
use crate::crypto::ResetToken;
use crate::observe::ConnectionError;
use crate::streams::StreamEvent;
use crate::wire::ConnectionId;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Number of waiting events beyond which tokens are dropped, because a peer can send any number of
/// tokens.
const MAX_EVENTS: usize = 64;

/// The notifications that are waiting, oldest first.
#[derive(Debug)]
pub(super) struct Outbox {
    events: VecDeque<Event>,
    routing: VecDeque<Routing>,
    /// The reset token of the current path that the endpoint uses.
    routed_token: Option<ResetToken>,
}

impl Outbox {
    /// Creates the notifications of a connection that is found by `local_id`.
    pub(super) fn new(local_id: ConnectionId) -> Self {
        Self {
            events: VecDeque::new(),
            routing: VecDeque::from([Routing::Add(local_id)]),
            routed_token: None,
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Adds an event unless too many are waiting, because a peer can cause it as often as it likes.
    pub(super) fn push_if_room(&mut self, event: impl FnOnce() -> Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event());
        }
    }

    /// Adds an event unless the same event is already waiting.
    pub(super) fn push_once(&mut self, event: Event) {
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    /// Returns the oldest event.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Routes datagrams to `id` to this connection.
    pub(super) fn add_id(&mut self, id: ConnectionId) {
        self.routing.push_back(Routing::Add(id));
    }

    /// Retires `id`.
    pub(super) fn remove_id(&mut self, id: ConnectionId) {
        self.routing.push_back(Routing::Remove(id));
    }

    /// Returns the oldest change for the endpoint. `token` is the reset token of the current path,
    /// and `moved` is true if the addresses from which resets are accepted have changed.
    pub(super) fn poll_routing(
        &mut self,
        token: Option<ResetToken>,
        moved: bool,
    ) -> Option<Routing> {
        if moved || token != self.routed_token {
            self.routed_token = token;
            return Some(Routing::ResetTokens);
        }
        self.routing.pop_front()
    }

    /// Returns true if there's a change for the endpoint.
    pub(super) fn has_routing(&self, token: Option<ResetToken>, moved: bool) -> bool {
        !self.routing.is_empty() || moved || token != self.routed_token
    }

    /// Returns the number of waiting events and changes.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> [usize; 2] {
        [self.events.len(), self.routing.len()]
    }

    /// Makes the endpoint's token unknown.
    #[cfg(test)]
    pub(super) const fn forget_token(&mut self) {
        self.routed_token = None;
    }
}

/// Something that happened on a connection, returned by
/// [`Connection::poll_event`](super::Connection::poll_event). Drivers must handle every event,
/// because ignoring one can leave an application waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's TLS parameters are available ([`Handshake::data`](super::Handshake::data)).
    HandshakeDataReady,
    /// The handshake is complete on this side. You can now open streams and send data.
    Connected,
    /// The handshake is confirmed (RFC 9001 §4.1.2): the peer has also completed it.
    Confirmed,
    /// A stream event.
    Stream(StreamEvent),
    /// A datagram arrived while none was waiting to be read
    /// ([`Datagrams::read`](super::Datagrams::read)).
    DatagramReceived,
    /// You can send datagrams again ([`Datagrams::try_send`](super::Datagrams::try_send)).
    DatagramRoom,
    /// The server sent a token for a later connection (NEW_TOKEN).
    NewToken(Bytes),
    /// The peer now responds from another address, or through another path of this side.
    PathChanged,
    /// The connection is over. It may still have to send something, and to wait
    /// ([`Connection::deadline`](super::Connection::deadline)).
    Lost(ConnectionError),
}

/// Metadata of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Source address.
    pub remote: SocketAddr,
    /// Local destination address, if the driver provides it.
    pub local: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// IP TTL or hop limit, if the driver provides it.
    pub ttl: Option<u8>,
}

#[cfg(test)]
impl Received {
    /// Arrived from `remote`, without a mark.
    pub(crate) fn plain(remote: SocketAddr) -> Self {
        Self {
            remote,
            local: None,
            ecn: Ecn::NotEct,
            ttl: None,
        }
    }
}

/// Datagrams to send, stored back to back in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Destination address.
    pub remote: SocketAddr,
    /// Local address to send from, if that matters.
    pub local: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Size of each datagram except the last, which can be shorter.
    pub segment_size: usize,
}

/// Change in how the endpoint must route datagrams to this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Datagrams to this id belong to the connection.
    Add(ConnectionId),
    /// This id is retired.
    Remove(ConnectionId),
    /// The [tokens](super::Connection::reset_tokens) of stateless resets have changed.
    ResetTokens,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn id(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8]).unwrap()
    }

    #[test]
    fn events_come_out_in_order_and_repeats_wait_once() {
        let mut outbox = Outbox::new(id(1));
        outbox.push(Event::Connected);
        outbox.push_once(Event::DatagramReceived);
        outbox.push(Event::Confirmed);
        outbox.push_once(Event::DatagramReceived);
        let events: Vec<_> = core::iter::from_fn(|| outbox.poll_event()).collect();
        let expected = [Event::Connected, Event::DatagramReceived, Event::Confirmed];
        assert_eq!(events, expected);
        outbox.push_once(Event::DatagramReceived);
        assert_eq!(outbox.poll_event(), Some(Event::DatagramReceived));
    }

    #[test]
    fn a_flood_of_tokens_leaves_room_for_other_events() {
        let mut outbox = Outbox::new(id(1));
        for _ in 0..2 * MAX_EVENTS {
            outbox.push_if_room(|| Event::NewToken(Bytes::new()));
        }
        outbox.push(Event::Confirmed);
        assert_eq!(outbox.events.len(), MAX_EVENTS + 1);
        assert_eq!(outbox.events.back(), Some(&Event::Confirmed));
        assert_eq!(outbox.poll_event(), Some(Event::NewToken(Bytes::new())));
    }

    #[test]
    fn a_token_is_announced_when_it_or_a_path_changes() {
        let mut outbox = Outbox::new(id(1));
        let token = Some(ResetToken::new([7; 16]));
        assert!(outbox.has_routing(None, false));
        assert_eq!(outbox.poll_routing(None, false), Some(Routing::Add(id(1))));
        assert!(!outbox.has_routing(None, false));
        assert_eq!(outbox.poll_routing(None, false), None);
        outbox.add_id(id(2));
        outbox.remove_id(id(1));
        // Tokens are returned first.
        assert!(outbox.has_routing(token, false));
        let change = outbox.poll_routing(token, false);
        assert_eq!(change, Some(Routing::ResetTokens));
        assert_eq!(outbox.poll_routing(token, true), Some(Routing::ResetTokens));
        assert_eq!(outbox.poll_routing(token, false), Some(Routing::Add(id(2))));
        let removed = outbox.poll_routing(token, false);
        assert_eq!(removed, Some(Routing::Remove(id(1))));
        assert!(!outbox.has_routing(token, false) && outbox.has_routing(token, true));
    }
}
