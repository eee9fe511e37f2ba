//! The send buffer shared by all streams, and the writers that wait for room in it.

use core::ops::Range;
use std::collections::VecDeque;

use super::{Events, Record, Records, SendPart, SendState, StreamEvent, StreamId, WriteError};

/// Buffer size in congestion windows: one in flight, and one to send next. Bytes acknowledged
/// behind a hole don't count, so loss requires no more.
const WINDOWS: u64 = 2;

/// Buffer size in addition to that: how far the application may be ahead while the window is
/// small.
const AHEAD: u64 = 128 * 1024;

/// Each stream may buffer this much even if the buffer is full, so that a stream that waits for
/// its peer's credit can't keep others from sending.
pub(super) const STREAM_FLOOR: u64 = 16 * 1024;

/// Queues with fewer entries aren't worth cleaning up.
const FEW_ENTRIES: usize = 32;

/// Returns true if most of a queue's `entries` are of streams that no longer exist, given that
/// each of the `live` streams is in the queue at most once. Removing them costs at most as much
/// as adding them did.
pub(super) const fn mostly_gone(entries: usize, live: usize) -> bool {
    entries > FEW_ENTRIES && entries / 2 > live
}

/// The room that all streams share for data that isn't acknowledged yet.
///
/// A write takes room, and an acknowledgement or a reset gives it back. A writer that finds none
/// waits in a queue, from which it is woken once there is room again.
#[derive(Debug)]
pub(crate) struct SendAccount {
    /// Bytes written but not acknowledged.
    unacked: u64,
    limit: u64,
    max: u64,
    /// Bytes at the start of flows that were written since the last call of `take_starts`.
    starts: u64,
    /// Streams whose writers wait for room.
    waiting: VecDeque<StreamId>,
}

impl SendAccount {
    pub(super) fn new(max: u64) -> Self {
        let mut account = Self {
            unacked: 0,
            limit: 0,
            max,
            starts: 0,
            waiting: VecDeque::new(),
        };
        account.on_congestion_window(0);
        account
    }

    /// Returns the bytes written but not acknowledged, on all streams.
    pub(crate) fn unacked(&self) -> u64 {
        self.unacked
    }

    /// Returns the bytes at the start of [flows](super::Streams::start_flow) that were written
    /// since the last call.
    pub(crate) fn take_starts(&mut self) -> u64 {
        core::mem::take(&mut self.starts)
    }

    /// Returns the limit that applies if the window is unlimited.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Sets the maximum of the limit.
    pub(super) fn set_max(&mut self, bytes: u64) {
        self.max = bytes;
        self.limit = self.limit.min(bytes);
    }

    pub(super) fn on_congestion_window(&mut self, bytes: u64) {
        let limit = bytes.saturating_mul(WINDOWS).saturating_add(AHEAD);
        self.limit = limit.min(self.max);
    }

    /// Returns false if the application appears to have nothing more than the buffered data,
    /// that is, if no writer waits and the buffer isn't so full that the rest might simply not
    /// have been written yet.
    pub(super) fn has_more(&self) -> bool {
        self.writers_wait() || self.unacked > self.limit / 2
    }

    pub(super) fn writers_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the bytes that a stream that has `own` buffered may add, limited to its
    /// allowance of the shared room.
    fn room(&self, own: u64, allowance: u32) -> u64 {
        let allowed = match allowance {
            u32::MAX => u64::MAX,
            bytes => bytes.into(),
        };
        let shared = self.limit.saturating_sub(self.unacked).min(allowed);
        shared.max(STREAM_FLOOR.saturating_sub(own))
    }

    /// Adds as many of `wanted` bytes to a stream's buffer as there is room for, and returns
    /// their number: at least one, unless `wanted` is 0. After [`WriteError::Blocked`], the
    /// writer waits.
    pub(super) fn write(
        &mut self,
        (id, record): (StreamId, &mut Record),
        wanted: usize,
        put: impl FnOnce(&mut SendPart, usize),
    ) -> Result<usize, WriteError> {
        let send = record.send.as_mut().ok_or(WriteError::Closed)?;
        send.check_writable()?;
        let shared = self.room(send.unacked(), record.allowance);
        let room = shared.min(send.useful(STREAM_FLOOR));
        if room == 0 && wanted > 0 {
            record.writer_waits = true;
            if shared == 0 && !record.in_waiting {
                record.in_waiting = true;
                self.waiting.push_back(id);
            }
            return Err(WriteError::Blocked);
        }
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(wanted);
        put(send, taken);
        self.unacked += taken as u64;
        if record.allowance < u32::MAX {
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            record.allowance = record.allowance.saturating_sub(taken);
        }
        self.starts += send.take_start(taken as u64);
        Ok(taken)
    }

    /// Processes the acknowledgement of a stream's data. Returns true if this completes the
    /// sending part.
    pub(super) fn on_acked(
        &mut self,
        (id, record): (StreamId, &mut Record),
        range: Range<u64>,
        fin: bool,
        events: &mut Events,
    ) -> bool {
        let Some(send) = record.send.as_mut() else {
            return false;
        };
        let acked = send.on_acked(range, fin);
        self.unacked = self.unacked.saturating_sub(acked);
        if record.writer_waits
            && send.unacked() <= STREAM_FLOOR / 2
            && send.useful(STREAM_FLOOR) > 0
        {
            record.writer_waits = false;
            events.push(StreamEvent::Writable(id));
        }
        let done = send.state() == SendState::DataRecvd;
        if done {
            events.push(StreamEvent::Finished(id));
        }
        done
    }

    pub(super) fn on_dropped(&mut self, bytes: u64) {
        self.unacked = self.unacked.saturating_sub(bytes);
    }

    /// Processes the peer's credit of up to `max` bytes on a stream.
    pub(super) fn on_credit(
        &mut self,
        (id, record): (StreamId, &mut Record),
        max: u64,
        events: &mut Events,
    ) {
        let Some(send) = record.send.as_mut() else {
            return;
        };
        send.on_max_stream_data(max);
        let room = self.room(send.unacked(), record.allowance);
        if record.writer_waits && room.min(send.useful(STREAM_FLOOR)) > 0 {
            record.writer_waits = false;
            events.push(StreamEvent::Writable(id));
        }
    }

    /// Wakes waiting writers once an eighth of the limit is free, so that waking them is
    /// worthwhile. If several wait, each gets an allowance in proportion to its stream's
    /// weight. Otherwise, the first one would fill the buffer, and the others would have
    /// nothing to send in their turns.
    pub(super) fn wake_writers(&mut self, records: &mut Records, events: &mut Events) {
        if self.unacked > self.limit - self.limit / 8 {
            return;
        }
        let senders = self
            .waiting
            .iter()
            .filter_map(|id| records.get(id)?.send.as_ref());
        let weights = senders.map(SendPart::weight);
        let part = (self.waiting.len() > 1)
            .then(|| (self.limit - self.unacked) / weights.sum::<u64>().max(1));
        while let Some(id) = self.waiting.pop_front() {
            if let Some(record) = records.get_mut(&id) {
                record.in_waiting = false;
                let weight = record.send.as_ref().map_or(1, SendPart::weight);
                let part = part.map(|part| part.max(STREAM_FLOOR).saturating_mul(weight));
                record.allowance =
                    part.map_or(u32::MAX, |part| u32::try_from(part).unwrap_or(u32::MAX));
                // A writer that also waits for the peer's credit is woken by that instead.
                let useful = record.send.as_ref().map_or(0, |s| s.useful(STREAM_FLOOR));
                if record.writer_waits && useful > 0 {
                    record.writer_waits = false;
                    events.push(StreamEvent::Writable(id));
                }
            }
        }
    }

    /// Removes streams that no longer exist once they make up most of the queue.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        if mostly_gone(self.waiting.len(), live) {
            self.waiting.retain(is_live);
        }
    }

    #[cfg(test)]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
