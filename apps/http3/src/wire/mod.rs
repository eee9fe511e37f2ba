//! HTTP on a connection: HTTP/3, or HTTP/2 on TLS over TCP where a network blocks UDP. This is the
//! only module that uses the `h3` and `h2` crates, so that they can be replaced.
//!
//! A server accepts [`Incoming`] requests from a [`ServerLink`], and a client sends requests on
//! a [`ClientLink`]. Both result in an exchange of one request and its response, which is the same
//! for both versions. This module adds some features to `h3` 0.0.8: limits on frames ([`frames`]),
//! a deadline for header sections, a reset of streams that are dropped early, and tunnels with
//! plain and extended CONNECT, HTTP datagrams and capsules.

mod adapter;
mod client;
mod connect;
pub mod datagrams;
pub mod frames;
mod http2;
mod pseudo;
mod server;
mod streams;
mod tcp;
mod tunnel;
mod version;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use ::h3::error::StreamError;
use ::h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};
use pathmark_transport::connection::ConnectionError as Lost;
use pathmark_transport::wire::TransportErrorCode;

pub use connect::ClientConnect;
pub use datagrams as capsule;
pub use datagrams::{DatagramFlow, DatagramRefused};
pub use tcp::{TcpConnection, TcpIncoming, TcpServer};
pub use tunnel::{TunnelRecv, TunnelSend};
pub use version::{ClientExchange, ClientLink, Incoming, ServerExchange, ServerLink};

/// The application protocol's name in TLS (ALPN, RFC 9114 section 3.1).
pub const ALPN: &[u8] = b"h3";
/// The same for HTTP/2 on TLS over TCP (RFC 9113 section 3.1).
pub const ALPN_TCP: &[u8] = b"h2";

/// The `:protocol` of an extended CONNECT, stored as an extension of the incoming request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

/// The extensions that a peer's SETTINGS allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Whether extended CONNECT is allowed.
    pub connect_protocol: bool,
    /// Whether HTTP datagrams are allowed.
    pub datagrams: bool,
}

/// Error codes of HTTP/3 (RFC 9114 section 8.1) that this crate sends.
pub mod codes {
    /// A datagram or capsule is malformed (RFC 9297 section 5.2).
    pub const DATAGRAM_ERROR: u64 = 0x33;
    /// The connection or stream ends without an error.
    pub const NO_ERROR: u64 = 0x100;
    /// An internal error of the sender.
    pub const INTERNAL_ERROR: u64 = 0x102;
    /// A frame is not allowed on its stream.
    pub const FRAME_UNEXPECTED: u64 = 0x105;
    /// A frame is malformed.
    pub const FRAME_ERROR: u64 = 0x106;
    /// The peer's behaviour would use too many resources.
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    /// The server has not processed the request, so that it can be retried (RFC 9114
    /// section 4.1.1).
    pub const REQUEST_REJECTED: u64 = 0x10b;
    /// The client no longer wants the response.
    pub const REQUEST_CANCELLED: u64 = 0x10c;
    /// The request's stream ended or stalled before the request was complete.
    pub const REQUEST_INCOMPLETE: u64 = 0x10d;
    /// An HTTP message is malformed.
    pub const MESSAGE_ERROR: u64 = 0x10e;
    /// The TCP connection of a CONNECT request was reset.
    pub const CONNECT_ERROR: u64 = 0x10f;
}

/// An error of a connection or stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer closed the connection without an error, or accepts no further requests on it.
    #[error("the peer closed the connection{}", because(.0))]
    Closed(String),
    /// The connection failed.
    #[error("the connection failed: {0}; connect again")]
    Connection(Lost),
    /// HTTP ended on the connection.
    #[error("HTTP on the connection ended: {0}; connect again")]
    Ended(String),
    /// The peer reset or stopped the stream.
    #[error("the peer {}", ended(*.code))]
    Reset {
        /// The application error code.
        code: u64,
    },
    /// The peer's message violates the protocol.
    #[error("the peer's message does not follow HTTP: {0}")]
    Message(String),
    /// A later request for the same upload was received.
    #[error("a later request for the upload took the place of this one")]
    Superseded,
    /// The server has run out of places, and this request was the slowest of the host with the
    /// most.
    #[error("the request's place was given to another host, which had fewer; try again")]
    Displaced,
    /// The header section is larger than its receiver allows.
    #[error("the header section takes {size} bytes, and its receiver allows {most}")]
    HeadTooLarge {
        /// The size according to RFC 9114 section 4.2.2.
        size: u64,
        /// The receiver's limit.
        most: u64,
    },
    /// The peer made no progress within the time limit.
    #[error("the peer made no progress within the time limit; try again")]
    TimedOut,
}

impl LinkError {
    /// Returns the error for too many interim responses.
    pub(super) fn endless() -> Self {
        Self::Message("the server sends interim responses without end".to_owned())
    }

    /// Converts the transport's `reason` for the end of a connection. Without a reason, or if
    /// this side closed the connection, `h3`'s `text` is more informative.
    pub(super) fn of_connection(reason: Option<Lost>, text: &dyn Display) -> Self {
        match reason {
            // Clients also close with QUIC's NO_ERROR, as either an application or a transport
            // error.
            Some(Lost::ApplicationClosed(close))
                if [0, codes::NO_ERROR].contains(&close.error_code.into_inner()) =>
            {
                Self::Closed(String::from_utf8_lossy(&close.reason).into_owned())
            }
            Some(Lost::ConnectionClosed(error)) if error.code == TransportErrorCode::NO_ERROR => {
                Self::Closed(String::new())
            }
            None | Some(Lost::LocallyClosed) => Self::Ended(text.to_string()),
            Some(reason) => Self::Connection(reason),
        }
    }

    /// Converts an error of a stream or of its connection, which ended for this `reason`.
    pub(super) fn of_stream(error: StreamError, reason: Option<Lost>) -> Self {
        match error {
            StreamError::RemoteTerminate { code, .. } => Self::Reset { code: code.value() },
            StreamError::HeaderTooBig {
                actual_size: size,
                max_size: most,
                ..
            } => Self::HeadTooLarge { size, most },
            StreamError::StreamError { reason, .. } => Self::Message(reason),
            StreamError::RemoteClosing => Self::Closed("it accepts no further requests".to_owned()),
            // The remaining variants cannot be named outside of `h3`.
            error => Self::of_connection(reason, &error),
        }
    }
}

/// Formats how the peer ended a stream.
fn ended(code: u64) -> String {
    match code {
        codes::REQUEST_CANCELLED => "cancelled the transfer".to_owned(),
        code => format!("ended the transfer with the HTTP error code {code:#x}; try again"),
    }
}

/// Formats a reason from the peer as the end of a sentence.
fn because(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    }
}

/// Converts the end of a connection into `h3`'s type.
pub(super) fn lost(error: Lost) -> ConnectionErrorIncoming {
    match error {
        Lost::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: close.error_code.into_inner(),
        },
        Lost::TimedOut | Lost::HandshakeTimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// Does the same for a stream that ends with its connection.
pub(super) fn no_stream(error: Lost) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: lost(error),
    }
}

/// Runs a step with the time limit.
pub(crate) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let step = tokio::time::timeout(limit, step).await;
    step.unwrap_or(Err(LinkError::TimedOut))
}
