//! Memory for received data is short: what is refused, and when the peer is asked for it.

use pathmark_cc::Instant;

use super::{StreamId, Streams, memory::FLOOR, record::Buffered, slot};
use crate::wire::frame::Stream;

/// Memory of a small stream, for an estimate of how many are accepted next.
const A_STREAM: u64 = 1024;

/// Bytes beyond what was consumed up to which credit grows for a reader that waits: less than the
/// default memory keeps of one connection.
const STRETCHED: u64 = 12 << 20;

impl Streams {
    /// True if a frame's data is not to be kept while memory is scarce.
    pub(super) fn refuses(&self, frame: &Stream<'_>) -> bool {
        let Some(record) = self.records.get(&frame.id) else {
            return false;
        };
        record.recv.as_ref().is_some_and(|recv| {
            if !recv.keeps(frame.offset, frame.data.len()) {
                return false;
            }
            // What the application waits for is always taken, or nothing could ever end the
            // shortage: the next bytes of streams that it tried to read, and of any stream while
            // there is nothing to read at all. Of a stream that has something to read, some more:
            // the application may just not have had its turn to read what came before in the same
            // batch, and the sender takes what is refused for lost. Of no other: the first byte may
            // take a whole block.
            let kept = recv.kept();
            let waits = (record.read_blocked && kept.readable == 0)
                || self.readable == 0
                || (kept.readable > 0 && self.readable < FLOOR);
            !recv.is_next(frame.offset) || (self.has_no_room_for(frame.id) && !waits)
        })
    }

    /// True if memory is too short for data in order that the application does not wait for. What
    /// it accepts next has a place that other streams leave: one that reads a stream after the
    /// other would get one for each round trip.
    fn has_no_room_for(&self, id: StreamId) -> bool {
        let earned = self.window.earned();
        let ahead = self.remote.get(slot(id.dir())).and_then(|remote| {
            let remote = (id.initiator() != self.side).then_some(remote)?;
            remote.ahead_of(id.index())
        });
        if ahead.is_some_and(|ahead| ahead < self.memory.allowed(earned) / A_STREAM) {
            self.memory.is_full(earned)
        } else {
            self.memory.is_out(earned)
        }
    }

    /// True if [`refuses`](Self::refuses) is to be asked.
    pub(super) fn memory_is_scarce(&mut self, now: Instant) -> bool {
        self.memory.is_scarce(self.window.earned()) && {
            self.window.measure(now, self.rtt);
            self.memory.is_scarce(self.window.earned())
        }
    }

    /// A packet was not acknowledged for that reason.
    pub fn on_refused(&self) {
        self.memory.on_refused();
    }

    /// A stream keeps `after` now and kept `before`.
    pub(super) fn on_kept(&mut self, before: Buffered, after: Buffered) {
        let earned = self.window.earned();
        self.readable = (self.readable + after.readable).saturating_sub(before.readable);
        self.memory.change(before.memory, after.memory, earned);
        self.window.set_cap(self.memory.promise(earned));
        if after.readable < before.readable {
            self.asking.on_progress();
        }
    }

    /// Before packets are built. True if the peer is to be asked for data that was refused: it has
    /// a place now.
    pub fn prepare(&mut self, now: Instant) -> bool {
        if self.holds_up_a_reader() {
            self.window.stretch(FLOOR, STRETCHED);
        }
        self.has_a_place() && self.asking.take(now, self.rtt)
    }

    /// True if [`prepare`](Self::prepare) is to be called, since the application has read or waits.
    #[must_use]
    pub fn wants_preparation(&self) -> bool {
        (self.asking.is_wanted() && self.has_a_place()) || self.holds_up_a_reader()
    }

    /// True if some of what was refused would be taken.
    fn has_a_place(&self) -> bool {
        self.asking.readers > 0
            || self.readable == 0
            || !self.memory.is_scarce(self.window.earned())
    }

    /// True if the application waits for a stream while the peer has spent its credit on others.
    fn holds_up_a_reader(&self) -> bool {
        self.asking.readers > 0 && self.memory.is_shared() && self.window.is_used_up(STRETCHED)
    }

    /// True if the connection holds all the memory that it may.
    #[must_use]
    pub fn holds_all_it_may(&self) -> bool {
        self.memory.is_scarce(self.window.earned())
    }

    /// Arrivals that the connection keeps outside of streams take `after` bytes, and took `before`.
    pub fn on_other_memory(&mut self, before: usize, after: usize) {
        self.memory.change(before, after, self.window.earned());
    }
}
