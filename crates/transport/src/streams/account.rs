//! How much all streams together may buffer for sending.

use std::collections::VecDeque;

use crate::wire::StreamId;

/// Buffer in congestion windows: one in flight, one to go on with. Bytes acknowledged behind a hole
/// do not count, so loss needs no more.
const WINDOWS: u64 = 2;

/// Buffer in addition to that: what the application may be ahead while the window is small.
const AHEAD: u64 = 128 * 1024;

/// What each stream may buffer however full the rest is, so that a stream that waits for its peer's
/// credit cannot keep others from sending.
pub(super) const STREAM_FLOOR: u64 = 16 * 1024;

/// Entries of a queue that are worth no walk over it.
const FEW_ENTRIES: usize = 32;

/// True if most of a queue's `entries` are of streams that are gone, where `live` are there and
/// each stands in it once: to drop them all costs no more than to have put them there.
pub(super) const fn mostly_gone(entries: usize, live: usize) -> bool {
    entries > FEW_ENTRIES && entries / 2 > live
}

/// See the module.
#[derive(Debug)]
pub(super) struct SendAccount {
    /// Bytes written and not acknowledged.
    pub(super) unacked: u64,
    /// Bytes that were sent again, over all streams and times.
    pub(super) retransmitted: u64,
    /// Streams whose data waits for the peer's credit on that stream.
    pub(super) stalled: usize,
    limit: u64,
    max: u64,
    /// Streams whose writers wait for room.
    waiting: VecDeque<StreamId>,
}

impl SendAccount {
    pub(super) fn new(max: u64) -> Self {
        let mut account = Self {
            unacked: 0,
            retransmitted: 0,
            stalled: 0,
            limit: 0,
            max,
            waiting: VecDeque::new(),
        };
        account.on_congestion_window(0);
        account
    }

    pub(super) fn on_congestion_window(&mut self, bytes: u64) {
        let limit = bytes.saturating_mul(WINDOWS).saturating_add(AHEAD);
        self.limit = limit.min(self.max);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The greatest limit from now on.
    pub(super) fn set_max(&mut self, bytes: u64) {
        self.max = bytes;
        self.limit = self.limit.min(bytes);
    }

    /// The limit when the window knows no bound.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// True unless it looks as if the application had nothing more than what is buffered: a writer
    /// waits, or the buffer is so full that none needs to have written the rest yet.
    pub(super) fn has_more(&self) -> bool {
        self.writers_wait() || self.unacked > self.limit / 2
    }

    /// Bytes that a stream which holds `own` may add.
    pub(super) fn room(&self, own: u64) -> u64 {
        let shared = self.limit.saturating_sub(self.unacked);
        shared.max(STREAM_FLOOR.saturating_sub(own))
    }

    /// True once an eighth of the limit is free, for which waking writers is worth it.
    pub(super) fn has_worthwhile_room(&self) -> bool {
        self.unacked <= self.limit - self.limit / 8
    }

    pub(super) fn wait(&mut self, id: StreamId) {
        self.waiting.push_back(id);
    }

    /// Drops streams that are gone, once they are most of those that wait.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        if mostly_gone(self.waiting.len(), live) {
            self.waiting.retain(is_live);
        }
    }

    pub(super) fn writers_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Entries of the queue of writers.
    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// The stream that has waited longest.
    pub(super) fn next_waiting(&mut self) -> Option<StreamId> {
        self.waiting.pop_front()
    }
}
