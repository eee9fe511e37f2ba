//! Two ends over a channel, and violations by a peer.

mod channel;
mod exchange;
mod lossy;
mod queues;
mod violations;
mod waiting;

use bytes::Bytes;
use pathmark_cc::Limit;

use self::channel::*;
use super::*;
use crate::streams::{
    AckedRun, ClosedStream, Dir, FinishError, OpenError, PeerLimits, ReadError, SentFrames, Side,
    StreamEvent, StreamId, Streams, StreamsConfig, WriteError,
};
use crate::wire::frame::{MaxStreamData, MaxStreams, StreamsBlocked};
use crate::wire::{Frame, Frames, TransportError, Writer};
use crate::{Duration, Instant};

const NOW: Instant = Instant::ZERO;

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
