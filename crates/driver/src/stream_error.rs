//! Errors of reading and writing streams.

use std::io;

use pathmark_transport::connection::ConnectionError;

/// Why writing to a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer asked you to stop, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset.
    #[error("the stream is closed for writing")]
    ClosedStream,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why reading from a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer abandoned the stream, with this application error code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// You have stopped the stream.
    #[error("the stream is closed for reading")]
    ClosedStream,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why reading a whole stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stream is longer than the limit.
    #[error("the stream is longer than the limit")]
    TooLong,
}

/// Why a read of an exact number of bytes failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended after this number of bytes.
    #[error("the stream ended after {0} bytes")]
    FinishedEarly(usize),
    /// Reading failed.
    #[error(transparent)]
    ReadError(#[from] ReadError),
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::ClosedStream | WriteError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ClosedStream | ReadError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}
