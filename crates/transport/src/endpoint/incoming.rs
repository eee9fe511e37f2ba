//! Clients waiting to be accepted.

use core::net::{IpAddr, SocketAddr};

use super::ConnectionHandle;
use super::initial::Origin;
use crate::Instant;
use crate::connection::Received;
use crate::crypto::Keys;
use crate::wire::ConnectionId;

/// Maximum bytes of datagrams held for a client until it is accepted: a ClientHello of several
/// packets, sent twice.
pub(super) const MAX_WAITING_BYTES: usize = 16 * 1024;

/// A client that asks for a connection. You must return it to
/// [`Endpoint::accept`](super::Endpoint::accept), [`refuse`](super::Endpoint::refuse),
/// [`retry`](super::Endpoint::retry) or [`ignore`](super::Endpoint::ignore) within 10 seconds.
/// Until then, it counts as a half-open handshake.
#[derive(Debug)]
#[must_use = "an incoming connection is accepted, refused, retried or ignored"]
pub struct Incoming {
    pub(super) handle: ConnectionHandle,
    pub(super) serial: u64,
    pub(super) received: Received,
    /// Destination id of the Initial.
    pub(super) dcid: ConnectionId,
    /// The client's source id.
    pub(super) scid: ConnectionId,
    pub(super) origin: Origin,
}

impl Incoming {
    /// Returns the client's address, according to its packet.
    pub fn remote_address(&self) -> SocketAddr {
        self.received.remote
    }

    /// Returns the local address at which the packet arrived, if the driver knows it.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.received.local
    }

    /// Returns true if the client has proved its address by presenting a token.
    pub fn is_validated(&self) -> bool {
        self.origin.validated
    }

    /// Returns true if you can still send a Retry, because the client hasn't followed one yet.
    pub fn may_retry(&self) -> bool {
        self.origin.retry_scid.is_none()
    }
}

/// The state held for an [`Incoming`].
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) serial: u64,
    pub(super) expires: Instant,
    pub(super) datagrams: Vec<(Received, Vec<u8>)>,
    /// Keys for its Initial packets, until its connection takes them.
    pub(super) keys: Option<Keys>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(serial: u64, expires: Instant, keys: Keys) -> Self {
        Self {
            serial,
            expires,
            datagrams: Vec::new(),
            keys: Some(keys),
            bytes: 0,
        }
    }

    /// Stores a datagram. Returns false if there is no more room.
    pub(super) fn hold(&mut self, received: Received, datagram: &[u8]) -> bool {
        let bytes = self.bytes + datagram.len();
        if bytes > MAX_WAITING_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.datagrams.push((received, datagram.to_vec()));
        true
    }
}
