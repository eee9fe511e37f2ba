//! Events, datagrams and routes exchanged between a connection and its driver.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::close::ConnectionError;
use crate::Ecn;
use crate::streams::StreamEvent;
use crate::wire::ConnectionId;

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
