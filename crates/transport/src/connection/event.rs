//! Messages of a connection to its driver.

use bytes::Bytes;

use super::close::ConnectionError;
use crate::streams::StreamEvent;

/// Something that happened on a connection; taken with
/// [`Connection::poll_event`](super::Connection::poll_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer's TLS parameters are known
    /// ([`Connection::handshake_data`](super::Connection::handshake_data)).
    HandshakeDataReady,
    /// The handshake is complete on this side: streams may be opened and data sent.
    Connected,
    /// The handshake is confirmed (RFC 9001 §4.1.2): the peer has completed it too.
    Confirmed,
    /// Something about streams.
    Stream(StreamEvent),
    /// A datagram arrived where none waited to be read
    /// ([`Connection::read_datagram`](super::Connection::read_datagram)).
    DatagramReceived,
    /// There is room to send datagrams again
    /// ([`Connection::try_send_datagram`](super::Connection::try_send_datagram)).
    DatagramRoom,
    /// A token for a later connection to this server (NEW_TOKEN).
    NewToken(Bytes),
    /// The peer now answers from another address, or over another path of this side.
    PathChanged,
    /// The connection is over. It may still want to send and wait
    /// ([`Connection::deadline`](super::Connection::deadline)).
    Lost(ConnectionError),
}
