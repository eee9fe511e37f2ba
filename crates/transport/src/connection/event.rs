//! Events, datagrams and routes between a connection and its driver.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::close::ConnectionError;
use crate::Ecn;
use crate::streams::StreamEvent;
use crate::wire::ConnectionId;

/// Something that happened on a connection; taken with
/// [`Connection::poll_event`](super::Connection::poll_event). A driver that passes over one leaves
/// an application waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's TLS parameters are known
    /// ([`Handshake::data`](super::Handshake::data)).
    HandshakeDataReady,
    /// The handshake is complete on this side: streams may be opened and data sent.
    Connected,
    /// The handshake is confirmed (RFC 9001 §4.1.2): the peer has completed it too.
    Confirmed,
    /// Something about streams.
    Stream(StreamEvent),
    /// A datagram arrived where none waited to be read
    /// ([`Datagrams::read`](super::Datagrams::read)).
    DatagramReceived,
    /// There is room to send datagrams again
    /// ([`Datagrams::try_send`](super::Datagrams::try_send)).
    DatagramRoom,
    /// A token for a later connection to this server (NEW_TOKEN).
    NewToken(Bytes),
    /// The peer now answers from another address, or over another path of this side.
    PathChanged,
    /// The connection is over. It may still want to send and wait
    /// ([`Connection::deadline`](super::Connection::deadline)).
    Lost(ConnectionError),
}

/// What came with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub remote: SocketAddr,
    /// To which of our addresses, where the driver knows.
    pub local: Option<IpAddr>,
    /// IP ECN field.
    pub ecn: Ecn,
    /// IP TTL or hop limit, where the driver knows.
    pub ttl: Option<u8>,
}

/// Datagrams to send, back to back in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub remote: SocketAddr,
    /// From which of our addresses, where it matters.
    pub local: Option<IpAddr>,
    /// IP ECN field.
    pub ecn: Ecn,
    /// Bytes in the buffer.
    pub len: usize,
    /// Size of each datagram but the last, which may be shorter.
    pub segment_size: usize,
}

/// How the endpoint finds this connection from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Datagrams to it belong to this connection.
    Add(ConnectionId),
    /// It is retired.
    Remove(ConnectionId),
    /// The [tokens](super::Connection::reset_tokens) of stateless resets are others now.
    ResetTokens,
}
