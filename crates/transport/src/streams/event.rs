//! Stream events for the driver.

use std::collections::VecDeque;

use super::{Dir, StreamId};

/// A queue with room for more events than this releases its memory once it is empty.
const ROOM: usize = 1024;

/// Something that an application may be waiting for.
///
/// An event is repeated only after another call that couldn't proceed (`Blocked`, or
/// [`OpenError::Limit`](super::OpenError::Limit)). So if a driver takes all events before making
/// calls, the queue is bounded by the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened one or more streams. Call [`Streams::accept`](super::Streams::accept) until
    /// it returns `None`.
    Opened(Dir),
    /// The peer raised its limit after you received [`OpenError::Limit`](super::OpenError::Limit).
    Available(Dir),
    /// You can read data, the end of the stream or a reset, either for the first time or after
    /// [`ReadError::Blocked`](super::ReadError::Blocked).
    Readable(StreamId),
    /// You can write again after [`WriteError::Blocked`](super::WriteError::Blocked).
    Writable(StreamId),
    /// The peer acknowledged all data and the end of the stream. The sending part is done.
    Finished(StreamId),
    /// The peer acknowledged this side's reset. The sending part is done.
    ResetAcked(StreamId),
    /// The peer asked this side to stop sending (STOP_SENDING), with this application error code.
    /// The sending part was reset.
    Stopped(StreamId, u64),
}

/// Events not yet taken by the application, oldest first.
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
        let kept = events.0.capacity();
        assert!((1..=ROOM).contains(&kept), "kept for the next");
    }
}
