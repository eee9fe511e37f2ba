//! Streams and flow control (RFC 9000 §2–4, §19.4–19.14), without I/O.
//!
//! ```text
//!  application ─write─► SendPart ─ SendBuffer ─► Turns ─► packet ─ SentFrames ─► acked, lost
//!                          ▲ room: SendAccount     ▲ credit: SendCredit, Opening
//!                          │ MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
//!                          │ promise: ReceiveWindow, Opening
//!  application ◄─read── RecvPart ─ Reassembly ◄── Receiving ◄── on_stream ◄─ packet
//! ```
//!
//! [`Streams`] combines the parts for one connection. Each part owns the state of one task that all
//! streams share, and receives the record of a stream, or all records, as an argument. No part
//! holds a clock or a packet. Instead, the contents of a packet are stored in a [`SentFrames`]
//! record, which the connection keeps and later returns. The memory that a peer can make the parts
//! hold is bounded by the limits promised to it; a stream that is done leaves nothing but counters.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

mod account;
mod application;
mod control;
mod flow;
mod frames;
mod limits;
mod memory;
mod opening;
mod ranges;
mod reassembly;
mod receiving;
mod recv;
mod send;
mod send_buffer;
mod sent;
mod turn_queue;
mod turns;

#[cfg(test)]
mod tests;

pub use crate::wire::transport_parameters::PeerLimits;
pub use crate::wire::{Dir, Side, StreamId};
pub use flow::{CreditExceeded, ReceiveWindow, SendCredit};
pub use limits::{LocalStreams, RemoteStreams, StreamLimitExceeded};
pub use memory::ReceiveMemory;
pub use reassembly::Reassembly;
pub use recv::{RecvError, RecvPart, RecvState};
pub use send::{Piece, SendPart, SendState};
pub use send_buffer::SendBuffer;
pub use sent::{AckedRun, SentFrames};
pub use turn_queue::Schedule;

use account::SendAccount;
use control::Control;
use opening::Opening;
use receiving::Receiving;
use turns::Turns;

#[cfg(test)]
fn id(n: u64) -> StreamId {
    StreamId::from_u64(n).unwrap()
}

/// All streams of a connection.
///
/// You can freely mix the application's calls ([`open`](Self::open), [`write`](Self::write),
/// [`read`](Self::read), …) and the connection's ([`on_stream`](Self::on_stream),
/// [`write_frames`](Self::write_frames), [`gather_acked`](Self::gather_acked), …). After any of
/// these, call [`poll_event`](Self::poll_event) to learn about changes, and
/// [`wants_to_send`](Self::wants_to_send) to decide whether to build packets.
#[derive(Debug)]
pub struct Streams {
    pub(crate) opening: Opening,
    pub(crate) account: SendAccount,
    pub(crate) turns: Turns,
    pub(crate) receiving: Receiving,
    control: Control,
    records: Records,
    events: Events,
}

/// Limits that this side sets. The first five are sent in its transport parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsConfig {
    /// `initial_max_data`: bytes that the peer can initially send on all streams together. All
    /// streams share this window, so unread data on some leaves less for the others, and their
    /// readers must wait when it is exhausted.
    pub initial_connection_window: u64,
    /// `initial_max_stream_data_*`: bytes that the peer can initially send on each stream.
    pub initial_stream_window: u64,
    /// `initial_max_streams_bidi`: bidirectional streams that the peer can have open at once.
    pub max_bidi_streams: u64,
    /// `initial_max_streams_uni`: unidirectional streams that the peer can have open at once.
    pub max_uni_streams: u64,
    /// Maximum size to which the window of the connection and of each stream grows automatically,
    /// in bytes.
    pub max_window: u64,
    /// Maximum size to which the send buffer of all streams together grows automatically, in bytes.
    pub max_send_buffer: u64,
}

impl StreamsConfig {
    /// Raises the initial windows for senders that routers grant a rate within the first round
    /// trip: to 0.4 of a bandwidth-delay product of 2.5 Gbit/s and 130 ms per stream. This matters
    /// because a sender never asks its routers for more than its receiver has promised.
    #[must_use]
    pub const fn with_room_for_grants(mut self) -> Self {
        self.initial_connection_window = 24 << 20;
        self.initial_stream_window = 16 << 20;
        self
    }

    /// Lowers the initial windows to the share of `memory` for a new connection. In this case,
    /// each stream gets at most three quarters of the connection's window, so that an unread
    /// stream leaves some for others.
    #[must_use]
    pub fn within(mut self, memory: &ReceiveMemory) -> Self {
        let connection = memory.first_promise(self.initial_connection_window);
        if connection < self.initial_connection_window {
            self.initial_connection_window = connection;
            self.initial_stream_window = self.initial_stream_window.min(connection / 4 * 3);
        }
        self
    }
}

impl Default for StreamsConfig {
    /// Windows are initially small, but can grow enough for 10 Gbit/s over 720 ms (900 MB in
    /// flight): five times that is 4.5 GB.
    fn default() -> Self {
        Self {
            initial_connection_window: 1536 * 1024,
            initial_stream_window: 1024 * 1024,
            max_bidi_streams: 128,
            max_uni_streams: 128,
            max_window: 5 << 30,
            max_send_buffer: 5 << 30,
        }
    }
}

/// Error returned when a stream can't be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// You already have as many streams open as the peer allows. Wait for
    /// [`StreamEvent::Available`] before trying again.
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
    /// The send buffer is full. Wait for [`StreamEvent::Writable`]
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
    /// [`StreamEvent::Readable`] before trying again.
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

/// A queue with room for more events than this releases its memory once it is empty.
const ROOM: usize = 1024;

/// Something that an application may be waiting for.
///
/// An event is repeated only after another call that couldn't proceed (`Blocked`, or
/// [`OpenError::Limit`]). So if a driver takes all events before making
/// calls, the queue is bounded by the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened one or more streams. Call [`Streams::accept`] until
    /// it returns `None`.
    Opened(Dir),
    /// The peer raised its limit after you received [`OpenError::Limit`].
    Available(Dir),
    /// You can read data, the end of the stream or a reset, either for the first time or after
    /// [`ReadError::Blocked`].
    Readable(StreamId),
    /// You can write again after [`WriteError::Blocked`].
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
struct Events(VecDeque<StreamEvent>);

impl Events {
    fn push(&mut self, event: StreamEvent) {
        self.0.push_back(event);
    }

    fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.0.pop_front();
        if self.0.is_empty() && self.0.capacity() > ROOM {
            self.0 = VecDeque::new();
        }
        event
    }
}

/// Memory of a stream in addition to its buffered data: its record, a place in a hash table
/// that is half empty after growing, and the allocator's overhead for five allocations.
const BOOKKEEPING: usize = size_of::<Record>() + 2 * size_of::<(StreamId, Box<Record>)>() + 5 * 16;

/// Frames due on a stream, other than STREAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due {
    reset: bool,
    stop: bool,
    max_data: bool,
    data_blocked: bool,
}

impl Due {
    fn any(self) -> bool {
        self != Self::default()
    }
}

/// Where a stream waits to send data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    None,
    /// In the schedule.
    Scheduled,
    /// Waiting for the connection's credit.
    Parked,
    /// Waiting until the peer's limit allows the stream, because an earlier limit, under which
    /// it was opened, no longer applies.
    Held,
}

/// A stream with at least one part that isn't done.
#[derive(Debug)]
struct Record {
    /// `None`: this side can't send on it, or the part is done.
    send: Option<SendPart>,
    /// `None`: this side can't receive on it, or the part is done.
    recv: Option<RecvPart>,
    /// The frames that are due, and whether the stream is in the queue of such streams.
    due: Due,
    in_control: bool,
    turn: Turn,
    /// Whether the application waits to write (or to read), and no event has reported yet that
    /// it can.
    writer_waits: bool,
    reader_waits: bool,
    /// Whether the application tried to read, but there was no data.
    read_blocked: bool,
    /// Bytes that the writer may add to the shared buffer until it waits again; `u32::MAX`:
    /// unlimited.
    allowance: u32,
    /// Whether it is in the queue of streams whose writers wait for room.
    in_waiting: bool,
    /// Whether it is in the queue of streams that wait, or waited, for the connection's credit.
    in_parked: bool,
    /// Whether it counts as waiting for the peer's credit.
    stalled: bool,
}

impl Record {
    fn new(send: Option<SendPart>, recv: Option<RecvPart>) -> Self {
        Self {
            send,
            recv,
            due: Due::default(),
            in_control: false,
            turn: Turn::None,
            writer_waits: false,
            allowance: u32::MAX,
            in_waiting: false,
            in_parked: false,
            // The first data causes an event even if the application has not tried to read.
            reader_waits: true,
            read_blocked: false,
            stalled: false,
        }
    }

    /// Clears frames that are due but no longer meaningful. Returns true if any is left.
    fn drop_void(&mut self) -> bool {
        let (send, recv) = (self.send.as_ref(), self.recv.as_ref());
        self.due.reset &= send.is_some_and(|send| send.reset_frame().is_some());
        self.due.data_blocked &= send.is_some_and(|send| send.blocked_at().is_some());
        self.due.stop &= recv.is_some_and(|recv| recv.stop_frame().is_some());
        self.due.max_data &= recv.is_some_and(RecvPart::wants_more);
        self.due.any()
    }

    /// Records that the application no longer waits to read, by updating the number of
    /// `waiting` streams.
    fn end_wait(&mut self, waiting: &mut u32) {
        if core::mem::take(&mut self.read_blocked) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

/// Received data that is kept for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Buffered {
    /// Bytes of memory, including bookkeeping.
    memory: usize,
    /// Bytes that can be read.
    readable: u64,
}

impl RecvPart {
    fn kept(&self) -> Buffered {
        let held = self.buffer.memory();
        let is_empty = self.buffer.base() == self.buffer.highest();
        Buffered {
            // If a peer sends a single byte on each of many streams, the streams must be
            // charged as well. Idle streams are limited by their number.
            memory: held + if is_empty { 0 } else { BOOKKEEPING },
            readable: self.buffer.readable(),
        }
    }
}

/// Open streams. Boxed, so that records need not move when the table grows.
type Records = FxHashMap<StreamId, Box<Record>>;

/// Returns the ids of all streams in order. The order of a hash map differs between machines, but
/// the order of events and frames must not.
fn sorted_ids(records: &Records) -> Vec<StreamId> {
    let mut ids: Vec<StreamId> = records.keys().copied().collect();
    ids.sort_unstable();
    ids
}
