//! Errors when using a stream: one type per operation.
//!
//! Application error codes are varints (RFC 9000 §20.2).

use super::Dir;

/// Error returned when a stream can't be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// You already have as many streams open as the peer allows. Wait for
    /// [`StreamEvent::Available`](super::StreamEvent::Available) before trying again.
    #[error("the peer allows no further {} stream yet; wait until it does", name(*.0))]
    Limit(Dir),
}

fn name(dir: Dir) -> &'static str {
    match dir {
        Dir::Bi => "bidirectional",
        Dir::Uni => "unidirectional",
    }
}

/// Error returned when data can't be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The send buffer is full. Wait for [`StreamEvent::Writable`](super::StreamEvent::Writable)
    /// before trying again.
    #[error("the send buffer is full; wait until the stream is writable")]
    Blocked,
    /// The peer asked to stop sending, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset by this side, isn't one that it can write to, or is done
    /// and forgotten.
    #[error("the stream is closed for writing")]
    Closed,
}

/// Error returned when a stream can't be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer asked to stop sending, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was already finished or reset, isn't one that this side can write to, or is done
    /// and forgotten.
    #[error("the stream is closed for writing")]
    Closed,
}

/// Error returned when data can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There's nothing to read yet. Wait for
    /// [`StreamEvent::Readable`](super::StreamEvent::Readable) before trying again.
    #[error("nothing to read yet; wait until the stream is readable")]
    Blocked,
    /// The peer reset the stream with this application error code. This is reported only once; the
    /// receiving part is then done.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The stream was stopped by this side, already read to its end, or skipped, or isn't one that
    /// this side can read from.
    #[error("the stream is closed for reading")]
    Closed,
}

/// Error returned when the stream doesn't exist (anymore), or the relevant part is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
