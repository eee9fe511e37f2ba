//! How a connection or a stream of HTTP/3 fails.

use ::h3::error::{ConnectionError, StreamError};

/// Error codes of HTTP/3 (RFC 9114 section 8.1) that this crate sends.
pub mod codes {
    /// The connection or stream ends without an error.
    pub const NO_ERROR: u64 = 0x100;
    /// The sender of the code failed.
    pub const INTERNAL_ERROR: u64 = 0x102;
    /// A frame does not follow its format.
    pub const FRAME_ERROR: u64 = 0x106;
    /// The peer's behaviour would take too much of this side's resources.
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    /// A client does not want the response any more.
    pub const REQUEST_CANCELLED: u64 = 0x10c;
    /// The request's stream ended, or stopped to progress, before the request did.
    pub const REQUEST_INCOMPLETE: u64 = 0x10d;
}

/// A failure of a connection or stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer closed the connection without an error, or does not begin further requests.
    #[error("the peer closed the connection; connect again")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}; connect again")]
    Connection(String),
    /// The peer reset or stopped the stream.
    #[error("the peer ended the transfer with the HTTP/3 error code {code:#x}; try again")]
    Reset {
        /// Its application error code.
        code: u64,
    },
    /// The peer's message does not follow the protocol.
    #[error("the peer's message does not follow HTTP/3: {0}")]
    Message(String),
    /// The header section is larger than its receiver allows.
    #[error("the header section takes {size} bytes, and its receiver allows {most}")]
    HeadTooLarge {
        /// Its size as RFC 9114 section 4.2.2 counts it.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// The peer took longer than the limit.
    #[error("the peer made no progress within the time limit; try again")]
    TimedOut,
}

impl From<ConnectionError> for LinkError {
    fn from(error: ConnectionError) -> Self {
        match error {
            error if error.is_h3_no_error() => Self::Closed,
            error => Self::Connection(error.to_string()),
        }
    }
}

impl From<StreamError> for LinkError {
    fn from(error: StreamError) -> Self {
        match error {
            error if error.is_h3_no_error() => Self::Closed,
            StreamError::RemoteTerminate { code, .. } => Self::Reset { code: code.value() },
            StreamError::HeaderTooBig {
                actual_size: size,
                max_size: most,
                ..
            } => Self::HeadTooLarge { size, most },
            StreamError::StreamError { reason, .. } => Self::Message(reason),
            // The variants that are left cannot be named outside of `h3`.
            error => Self::Connection(error.to_string()),
        }
    }
}
