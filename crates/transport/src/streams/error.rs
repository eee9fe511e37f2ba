//! What can go wrong when the application uses a stream: one type per operation.
//!
//! Application error codes are varints (RFC 9000 §20.2).

use super::Dir;

/// A stream cannot be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many are open as the peer allows;
    /// [`StreamEvent::Available`](super::StreamEvent::Available) says when to try again.
    #[error("the peer allows no further {} stream yet; wait until it does", name(*.0))]
    Limit(Dir),
}

fn name(dir: Dir) -> &'static str {
    match dir {
        Dir::Bi => "bidirectional",
        Dir::Uni => "unidirectional",
    }
}

/// Data cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The send buffer is full; [`StreamEvent::Writable`](super::StreamEvent::Writable) says when
    /// to try again.
    #[error("the send buffer is full; wait until the stream is writable")]
    Blocked,
    /// The peer asked to stop sending, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset by this side, is not ours to write, or is done and
    /// forgotten.
    #[error("the stream is closed for writing")]
    Closed,
}

/// A stream cannot be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer asked to stop sending, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset already, is not ours to write, or is done and forgotten.
    #[error("the stream is closed for writing")]
    Closed,
}

/// Data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing to read yet; [`StreamEvent::Readable`](super::StreamEvent::Readable) says when to
    /// try again.
    #[error("nothing to read yet; wait until the stream is readable")]
    Blocked,
    /// The peer reset the stream with this application error code. Reported once; the receiving
    /// part is done.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The stream was stopped by this side, was read to its end before, was skipped, or is not ours
    /// to read.
    #[error("the stream is closed for reading")]
    Closed,
}

/// The stream does not exist (any more), or the part concerned is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
