//! Why a connection ended.

use core::fmt;

use bytes::Bytes;

use crate::VarInt;
use crate::wire::TransportError;

/// Why the peer's application closed a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationClose {
    /// Error code of the application.
    pub error_code: VarInt,
    /// Human-readable reason, exactly as the peer sent it.
    pub reason: Bytes,
}

impl fmt::Display for ApplicationClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}{}", self.error_code, reason_text(&self.reason))
    }
}

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer violated the protocol, or the handshake failed on this side. The close sent by this
    /// side contains the reason.
    #[error("{0}")]
    TransportError(TransportError),
    /// The peer's transport closed the connection (CONNECTION_CLOSE of type 0x1c).
    #[error("closed by the peer: {0}")]
    ConnectionClosed(TransportError),
    /// The peer's application closed the connection (CONNECTION_CLOSE of type 0x1d).
    #[error("closed by the peer's application with {0}")]
    ApplicationClosed(ApplicationClose),
    /// This side's application closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The tokio runtime of this side's connection or endpoint has ended.
    #[error("the runtime of this side's connection has ended")]
    RuntimeEnded,
    /// This side's connection panicked, possibly in its congestion controller. The peer was sent a
    /// CONNECTION_CLOSE with INTERNAL_ERROR.
    #[error("this side's connection panicked, in its congestion controller perhaps")]
    Panicked,
    /// The peer no longer knows the connection (RFC 9000 §10.3).
    #[error("reset by the peer")]
    Reset,
    /// No packet arrived from the peer within the idle timeout.
    #[error("timed out: no packet from the peer")]
    TimedOut,
    /// The handshake didn't complete in time.
    #[error("timed out: the handshake did not complete in time")]
    HandshakeTimedOut,
    /// The socket failed and can't be used anymore.
    #[error("the socket failed: {0}")]
    Socket(std::io::ErrorKind),
    /// Client: a router or the server's host answered the handshake's first packets by ICMP.
    /// `ConnectionRefused` means that no socket is bound to the port.
    #[error("{}", unreachable_text(*.0))]
    Unreachable(std::io::ErrorKind),
    /// Client: the interface to the server, or a link behind a router that reports this by ICMP,
    /// can't carry datagrams of this many bytes, which the handshake requires (RFC 9000 §14.1).
    #[error(
        "a link on the path to the server carries no datagrams of {0} bytes: set a smaller \
         `initial_mtu` at both ends"
    )]
    PathTooNarrow(u16),
    /// The server doesn't support any version that this side supports.
    #[error("the server does not speak QUIC version 1")]
    VersionMismatch,
    /// The server's Retry token has this many bytes. Because each Initial packet must carry it (RFC
    /// 9000 §8.1.2), there would be no room for the handshake.
    #[error("the server's Retry token has {0} bytes: no room is left for the handshake")]
    TokenTooLong(usize),
}

impl From<ConnectionError> for std::io::Error {
    fn from(error: ConnectionError) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => ErrorKind::TimedOut,
            ConnectionError::Reset => ErrorKind::ConnectionReset,
            ConnectionError::ApplicationClosed { .. } | ConnectionError::ConnectionClosed(_) => {
                ErrorKind::ConnectionAborted
            }
            ConnectionError::Socket(kind) | ConnectionError::Unreachable(kind) => *kind,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

fn unreachable_text(kind: std::io::ErrorKind) -> String {
    match kind {
        std::io::ErrorKind::ConnectionRefused => {
            "the host refuses: no server listens on this UDP port (ICMP)".to_owned()
        }
        kind => format!("out of reach: {kind} (ICMP)"),
    }
}

fn reason_text(reason: &Bytes) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", String::from_utf8_lossy(reason))
    }
}
