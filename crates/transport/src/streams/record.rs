//! State of an open stream, and of all of them.

use rustc_hash::FxHashMap;

use super::{RecvPart, SendPart};
use crate::wire::StreamId;

/// Bytes that a stream takes in addition to its buffered data: its record, a place in the table of
/// streams that is half empty after it grew, and what the allocator adds to five allocations.
const BOOKKEEPING: usize = size_of::<Record>() + 2 * size_of::<(StreamId, Box<Record>)>() + 5 * 16;

/// Frames of a stream other than STREAM that are due.
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
    /// For the connection's credit.
    Parked,
    /// For the peer to allow the stream: it was opened when the peer seemed to.
    Held,
}

/// A stream with at least one part that is not done.
#[derive(Debug)]
pub(super) struct Record {
    /// `None`: not ours to send on, or done.
    pub(super) send: Option<SendPart>,
    /// `None`: not ours to receive on, or done.
    pub(super) recv: Option<RecvPart>,
    /// Frames due, and whether the stream stands in the queue of those with such frames.
    pub(super) due: Due,
    pub(super) in_control: bool,
    pub(super) turn: Turn,
    /// The application waits to write (or to read), and no event has reported that it can.
    pub(super) writer_waits: bool,
    pub(super) reader_waits: bool,
    /// It has tried to read, and there was nothing.
    pub(super) read_blocked: bool,
    /// Bytes that the writer may add to the common buffer until it waits again; `u32::MAX`: all.
    pub(super) allowance: u32,
    /// Whether it stands in the queue of those whose writers wait for room.
    pub(super) in_waiting: bool,
    /// Whether it stands in the queue of those that wait, or waited, for the connection's credit.
    pub(super) in_parked: bool,
    /// Counted among the streams that wait for the peer's credit.
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
            // The first data causes an event even without an attempt to read.
            reader_waits: true,
            read_blocked: false,
            stalled: false,
        }
    }

    /// Takes back what is due but has lost its meaning. True if anything is left.
    pub(super) fn drop_void(&mut self) -> bool {
        let (send, recv) = (self.send.as_ref(), self.recv.as_ref());
        self.due.reset &= send.is_some_and(|send| send.reset_frame().is_some());
        self.due.data_blocked &= send.is_some_and(|send| send.blocked_at().is_some());
        self.due.stop &= recv.is_some_and(|recv| recv.stop_frame().is_some());
        self.due.max_data &= recv.is_some_and(RecvPart::wants_more);
        self.due.any()
    }

    /// The application does not wait to read any more; `waiting` streams are waited for.
    pub(super) fn end_wait(&mut self, waiting: &mut u32) {
        if core::mem::take(&mut self.read_blocked) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

/// Received data that a part keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffered {
    /// Bytes of memory, bookkeeping included.
    pub(super) memory: usize,
    /// Bytes that can be read.
    pub(super) readable: u64,
}

impl RecvPart {
    /// The received data that is kept.
    pub(super) fn kept(&self) -> Buffered {
        let held = self.buffer.memory();
        let is_empty = self.buffer.base() == self.buffer.highest();
        Buffered {
            // A peer that sends one byte on each of many streams is charged for the streams too.
            // Those at rest are bounded by their number.
            memory: held + if is_empty { 0 } else { BOOKKEEPING },
            readable: self.buffer.readable(),
        }
    }
}

/// Open streams. Boxed, so that a burst of streams does not move what is there.
pub(super) type Records = FxHashMap<StreamId, Box<Record>>;

/// All streams. A map's order differs from machine to machine; that of events and of what is sent
/// must not.
pub(super) fn sorted_ids(records: &Records) -> Vec<StreamId> {
    let mut ids: Vec<StreamId> = records.keys().copied().collect();
    ids.sort_unstable();
    ids
}
