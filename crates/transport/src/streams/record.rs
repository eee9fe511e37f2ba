//! The state of an open stream, and of all open streams.

use rustc_hash::FxHashMap;

use super::{RecvPart, SendPart};
use crate::wire::StreamId;

/// Memory of a stream in addition to its buffered data: its record, a place in a hash table
/// that is half empty after growing, and the allocator's overhead for five allocations.
const BOOKKEEPING: usize = size_of::<Record>() + 2 * size_of::<(StreamId, Box<Record>)>() + 5 * 16;

/// Frames due on a stream, other than STREAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) reset: bool,
    pub(super) stop: bool,
    pub(super) max_data: bool,
    pub(super) data_blocked: bool,
}

impl Due {
    pub(super) fn any(self) -> bool {
        self != Self::default()
    }
}

/// Where a stream waits to send data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
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
pub(super) struct Record {
    /// `None`: this side can't send on it, or the part is done.
    pub(super) send: Option<SendPart>,
    /// `None`: this side can't receive on it, or the part is done.
    pub(super) recv: Option<RecvPart>,
    /// The frames that are due, and whether the stream is in the queue of such streams.
    pub(super) due: Due,
    pub(super) in_control: bool,
    pub(super) turn: Turn,
    /// Whether the application waits to write (or to read), and no event has reported yet that
    /// it can.
    pub(super) writer_waits: bool,
    pub(super) reader_waits: bool,
    /// Whether the application tried to read, but there was no data.
    pub(super) read_blocked: bool,
    /// Bytes that the writer may add to the shared buffer until it waits again; `u32::MAX`:
    /// unlimited.
    pub(super) allowance: u32,
    /// Whether it is in the queue of streams whose writers wait for room.
    pub(super) in_waiting: bool,
    /// Whether it is in the queue of streams that wait, or waited, for the connection's credit.
    pub(super) in_parked: bool,
    /// Whether it counts as waiting for the peer's credit.
    pub(super) stalled: bool,
}

impl Record {
    pub(super) fn new(send: Option<SendPart>, recv: Option<RecvPart>) -> Self {
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
    pub(super) fn drop_void(&mut self) -> bool {
        let (send, recv) = (self.send.as_ref(), self.recv.as_ref());
        self.due.reset &= send.is_some_and(|send| send.reset_frame().is_some());
        self.due.data_blocked &= send.is_some_and(|send| send.blocked_at().is_some());
        self.due.stop &= recv.is_some_and(|recv| recv.stop_frame().is_some());
        self.due.max_data &= recv.is_some_and(RecvPart::wants_more);
        self.due.any()
    }

    /// Records that the application no longer waits to read, by updating the number of
    /// `waiting` streams.
    pub(super) fn end_wait(&mut self, waiting: &mut u32) {
        if core::mem::take(&mut self.read_blocked) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

/// Received data that is kept for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffered {
    /// Bytes of memory, including bookkeeping.
    pub(super) memory: usize,
    /// Bytes that can be read.
    pub(super) readable: u64,
}

impl RecvPart {
    pub(super) fn kept(&self) -> Buffered {
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
pub(super) type Records = FxHashMap<StreamId, Box<Record>>;

/// Returns the ids of all streams in order. The order of a hash map differs between machines, but
/// the order of events and frames must not.
pub(super) fn sorted_ids(records: &Records) -> Vec<StreamId> {
    let mut ids: Vec<StreamId> = records.keys().copied().collect();
    ids.sort_unstable();
    ids
}
