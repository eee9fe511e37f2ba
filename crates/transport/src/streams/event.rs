//! Events of the streams, for the driver.

use super::{Dir, StreamId};

/// Something that an application may be waiting for.
///
/// An event comes again only after another call that found nothing to do (`Blocked`, or
/// [`OpenError::Limit`](super::OpenError::Limit)). So a driver that takes events before it calls
/// finds the queue bounded by the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened one or more streams: take them with
    /// [`Streams::accept`](super::Streams::accept) until it returns `None`.
    Opened(Dir),
    /// The peer's limit was raised after [`OpenError::Limit`](super::OpenError::Limit).
    Available(Dir),
    /// Data, the end of the stream or a reset can be read, after
    /// [`ReadError::Blocked`](super::ReadError::Blocked) or for the first time.
    Readable(StreamId),
    /// There is room again, after [`WriteError::Blocked`](super::WriteError::Blocked).
    Writable(StreamId),
    /// All data and the end of the stream were acknowledged; the sending part is done.
    Finished(StreamId),
    /// The peer acknowledged this side's reset; the sending part is done.
    ResetAcked(StreamId),
    /// The peer wants no more, with this application error code (STOP_SENDING); the sending part
    /// was reset.
    Stopped(StreamId, u64),
}
