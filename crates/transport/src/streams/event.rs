//! Events of the streams, for the driver.

use std::collections::VecDeque;

use super::{Dir, StreamId};

/// With room for more events than this, the queue gives its memory back once it is empty.
const ROOM: usize = 1024;

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

/// Events that the application has not taken yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<StreamEvent>);

impl Events {
    pub(super) fn push(&mut self, event: StreamEvent) {
        self.0.push_back(event);
    }

    pub(super) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.0.pop_front();
        if self.0.is_empty() && self.0.capacity() > ROOM {
            self.0 = VecDeque::new();
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_many_is_given_back_after_the_last() {
        let mut events = Events::default();
        let many = (0..3000).map(|n| StreamEvent::Readable(StreamId::from_u64(n).unwrap()));
        many.clone().for_each(|event| events.push(event));
        for event in many {
            assert!(events.0.capacity() >= 3000);
            assert_eq!(events.pop(), Some(event));
        }
        assert_eq!((events.0.capacity(), events.pop()), (0, None));
        events.push(StreamEvent::Opened(Dir::Bi));
        assert_eq!(events.pop(), Some(StreamEvent::Opened(Dir::Bi)));
        assert!(
            (1..=ROOM).contains(&events.0.capacity()),
            "kept for the next"
        );
    }
}
