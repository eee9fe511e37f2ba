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
use super::id;
use crate::streams::{
    AckedRun, ClosedStream, Dir, FinishError, OpenError, PeerLimits, ReadError, SentFrames, Side,
    StreamEvent, StreamId, Streams, StreamsConfig, WriteError,
};
use crate::wire::frame::{MaxStreamData, MaxStreams, StreamsBlocked};
use crate::wire::{Frame, Frames, TransportError, Writer};
use crate::{Duration, Instant};

const NOW: Instant = Instant::ZERO;
