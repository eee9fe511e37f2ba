//! Bytes of a stream from the application's write to their acknowledgement.
//!
//! ```text
//!   base ──────────────────────── sent ──────────── end
//!    │ in flight, with holes of     │ never sent yet  │
//!    │ acknowledged and lost ranges │                 │
//! ```
//!
//! `Bytes` from the application are kept without copying; small writes are copied into blocks. A
//! block is freed as soon as it is entirely acknowledged, even behind a hole. Otherwise, a lost
//! packet would keep a round trip's worth of data in memory.

use core::ops::Range;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

#[cfg(test)]
mod tests;

use super::ranges::RangeSet;

/// Maximum block for copied writes, bytes. A block is freed once it is entirely acknowledged: at
/// 1 % loss, nine of ten blocks of this size have no hole.
const BLOCK: usize = 16 * 1024;

/// Minimum block for copied writes, bytes.
const FIRST_BLOCK: usize = 1024;

/// `Bytes` below this length are copied, because keeping them would cost more memory than their
/// size.
const COPY_BELOW: usize = 256;

#[derive(Debug)]
struct Chunk {
    start: u64,
    end: u64,
    /// `end - start` bytes, or empty once they are all acknowledged.
    data: Bytes,
}

/// The bytes of a stream from `base`, below which all are acknowledged.
///
/// A byte is unsent until it is taken, and then in flight. If it is declared lost, it is taken
/// again; once it is acknowledged, it is gone.
#[derive(Debug, Default)]
pub struct SendBuffer {
    /// Contiguous from at most `base` to the start of `tail`.
    chunks: VecDeque<Chunk>,
    /// Copied bytes up to `end`, in a block that still has room.
    tail: BytesMut,
    base: u64,
    sent: u64,
    end: u64,
    /// Acknowledged ranges above `base`.
    acked: RangeSet,
    /// Ranges that were declared lost and not sent again since; disjoint from `acked`.
    lost: RangeSet,
    repeats: Repeats,
    /// Index in `chunks` at which the last read ended. The next one almost always continues
    /// there.
    cursor: usize,
}

impl SendBuffer {
    /// Returns the bytes written but not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.end - self.base - self.acked.len()
    }

    /// Returns the offset after the last byte written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the first offset that was never sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of bytes that were never sent.
    pub fn unsent(&self) -> u64 {
        self.end - self.sent
    }

    /// Returns true if lost bytes wait to be sent again.
    pub fn has_lost(&self) -> bool {
        self.first_lost().is_some()
    }

    /// Returns the lost bytes that are sent again next.
    pub fn first_lost(&self) -> Option<Range<u64>> {
        self.lost.first().or_else(|| self.repeats.first())
    }

    /// Returns the first range of bytes that were sent but not acknowledged, at most `most`
    /// bytes.
    pub fn first_unacked(&self, most: u64) -> Range<u64> {
        let acked = self.acked.first().map_or(self.sent, |acked| acked.start);
        self.base..acked.min(self.base.saturating_add(most))
    }

    /// Returns true if everything written was acknowledged.
    pub fn all_acked(&self) -> bool {
        self.base == self.end
    }

    /// Appends a copy of `data`.
    pub fn write(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = self.tail.capacity() - self.tail.len();
            if room == 0 {
                self.seal_tail();
                // Idle streams get small blocks, whereas busy streams soon get full-sized blocks.
                let queued = usize::try_from(self.unacked()).unwrap_or(BLOCK);
                let size = data
                    .len()
                    .max(queued)
                    .next_multiple_of(FIRST_BLOCK)
                    .min(BLOCK);
                self.tail = BytesMut::with_capacity(size);
                continue;
            }
            let (now, later) = data.split_at(room.min(data.len()));
            self.tail.extend_from_slice(now);
            self.end += now.len() as u64;
            data = later;
        }
    }

    /// Appends `data` without copying it, unless it is so short that a copy uses less memory.
    pub fn push(&mut self, data: Bytes) {
        if data.len() < COPY_BELOW {
            self.write(&data);
            return;
        }
        self.seal_tail();
        let start = self.end;
        self.end += data.len() as u64;
        self.chunks.push_back(Chunk {
            start,
            end: self.end,
            data,
        });
    }

    /// Turns the contents of the tail into a chunk. The remaining room in its block stays
    /// usable.
    fn seal_tail(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        let data = self.tail.split().freeze();
        self.chunks.push_back(Chunk {
            start: self.end - data.len() as u64,
            end: self.end,
            data,
        });
    }

    /// Takes at most `max` lost bytes to send them again.
    // [9000 2.2 same-data]
    pub fn take_lost(&mut self, max: u64) -> Option<Range<u64>> {
        let Some(range) = self.lost.pop_front(max) else {
            return self.repeats.take(max);
        };
        self.repeats.on_sent(&range, self.sent);
        Some(range)
    }

    /// Takes at most `max` bytes that were never sent.
    pub fn take_unsent(&mut self, max: u64) -> Option<Range<u64>> {
        let start = self.sent;
        self.sent = self.end.min(start.saturating_add(max));
        (start < self.sent).then_some(start..self.sent)
    }

    /// Passes the bytes of `range` to `put`, in order. The range must have been taken, and must
    /// not have been acknowledged since.
    pub fn read(&mut self, range: Range<u64>, mut put: impl FnMut(&[u8])) {
        let mut at = range.start;
        let mut i = self.chunk_at(at);
        while at < range.end {
            self.cursor = i;
            let (start, data) = match self.chunks.get(i) {
                Some(chunk) => (chunk.start, &chunk.data[..]),
                None => (self.end - self.tail.len() as u64, &self.tail[..]),
            };
            let from = index(at.saturating_sub(start));
            let to = index(range.end.saturating_sub(start)).min(data.len());
            match data.get(from..to) {
                Some(piece) if !piece.is_empty() => {
                    put(piece);
                    at += piece.len() as u64;
                }
                _ => {
                    debug_assert!(false, "{range:?} is not in the buffer");
                    return;
                }
            }
            i += 1;
        }
    }

    /// Returns the index of the chunk that contains offset `at`, or the number of chunks if it
    /// is in the tail.
    fn chunk_at(&self, at: u64) -> usize {
        let holds = |i: usize| match (self.chunks.get(i), i.checked_sub(1)) {
            (Some(chunk), _) => chunk.start <= at && at < chunk.end,
            (None, Some(last)) => self.chunks.get(last).is_some_and(|chunk| chunk.end <= at),
            (None, None) => true,
        };
        let next = self.cursor.saturating_add(1);
        match (holds(self.cursor), holds(next)) {
            (true, _) => self.cursor,
            (false, true) => next,
            _ => self.chunks.partition_point(|chunk| chunk.end <= at),
        }
    }

    /// Records that the peer acknowledged `range`. Returns the number of newly acknowledged
    /// bytes.
    pub fn on_acked(&mut self, range: Range<u64>) -> u64 {
        let before = self.unacked();
        let start = range.start.max(self.base);
        let end = range.end.min(self.sent);
        if start >= end {
            return 0;
        }
        self.lost.remove(start..end);
        self.repeats.forget(start..end);
        if start == self.base {
            self.base = end;
            while let Some(first) = self.acked.first()
                && first.start <= self.base
            {
                self.acked.pop_front(u64::MAX);
                self.base = self.base.max(first.end);
            }
            self.drop_acked();
        } else {
            let merged = self.acked.insert(start..end);
            self.free_inside(start..end, &merged);
        }
        before - self.unacked()
    }

    /// Records that a packet with `range` was lost, except for bytes that another packet
    /// delivered.
    pub fn on_lost(&mut self, range: Range<u64>) {
        self.lose(range, false);
    }

    /// Does the same for a packet in which `range` was retransmitted.
    pub fn on_lost_again(&mut self, range: Range<u64>) {
        self.lose(range, true);
    }

    /// Treats all copies of `range` in flight as lost.
    pub fn on_forgotten(&mut self, range: Range<u64>) {
        self.repeats.forget(range.clone());
        self.lose(range, false);
    }

    fn lose(&mut self, range: Range<u64>, again: bool) {
        let start = range.start.max(self.base);
        let end = range.end.min(self.sent);
        if start >= end {
            return;
        }
        self.lost.insert(start..end);
        if again {
            self.repeats.on_lost_again(start..end);
        }
        for acked in self.acked.overlaps(start..end) {
            self.lost.remove(acked.clone());
            self.repeats.forget(acked);
        }
        while let Some(spared) = self.repeats.take_spared(start..end) {
            self.lost.remove(spared);
        }
    }

    /// Treats all data as never sent. Nothing may have been acknowledged.
    pub fn start_over(&mut self) {
        debug_assert!(self.acked.is_empty());
        if self.all_acked() {
            // Nothing was written, or everything was dropped.
            *self = Self::default();
        }
        debug_assert_eq!(self.base, 0);
        self.sent = 0;
        self.lost = RangeSet::default();
        self.repeats = Repeats::default();
        self.cursor = 0;
    }

    /// Drops all data, as a reset does. `sent` is kept.
    pub fn clear(&mut self) {
        let sent = self.sent;
        *self = Self {
            base: sent,
            sent,
            end: sent,
            ..Self::default()
        };
    }

    fn drop_acked(&mut self) {
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.end <= self.base)
        {
            self.chunks.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
        }
        if self.base == self.end {
            // An idle stream uses no memory.
            self.tail = BytesMut::new();
            self.chunks = VecDeque::new();
        }
    }

    /// Frees the data of chunks that overlap `fresh` and are inside `acked`.
    fn free_inside(&mut self, fresh: Range<u64>, acked: &Range<u64>) {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.end <= fresh.start);
        for chunk in self.chunks.range_mut(first..) {
            if chunk.start >= fresh.end {
                break;
            }
            if acked.start <= chunk.start && chunk.end <= acked.end {
                chunk.data = Bytes::new();
            }
        }
    }
}

/// Converts an offset into a chunk. Offsets beyond the address space are beyond every chunk.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Data is sent twice only up to this fraction of the bytes that a stream has sent.
const SHARE: u64 = 8;

/// Data of a stream that is sent in two packets, because it was lost in a retransmission. All sets
/// contain only unacknowledged bytes.
///
/// If a share p of the packets is lost at random, the last of n packets arrives after log n /
/// log (1/p) round trips: after nine for 80,000 packets at 30 % loss. Until then, the receiver
/// must hold back all data that follows. With two packets for data that was lost twice, each
/// round trip leaves only a share of p² lost. This costs p²/(1 − p²) of the bytes, that is, 10 %
/// more at 30 % loss and 0.25 % at 5 %, limited to an eighth plus one packet.
///
/// The second packet is sent after everything else that waits to be sent again. Data counts as
/// lost once both packets are lost.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Lost again and not sent since.
    due: RangeSet,
    /// Sent since, and must be sent once more.
    second: RangeSet,
    /// In flight in two packets.
    both: RangeSet,
    bytes: u64,
}

impl Repeats {
    /// Records the loss of a packet in which `range` was retransmitted.
    pub(super) fn on_lost_again(&mut self, range: Range<u64>) {
        self.due.insert(range);
    }

    /// Returns the first part of `range` that is still in flight in another packet, and removes
    /// it, because only that packet is left.
    pub(super) fn take_spared(&mut self, range: Range<u64>) -> Option<Range<u64>> {
        let part = self.both.overlaps(range).next()?;
        self.both.remove(part.clone());
        self.due.remove(part.clone());
        Some(part)
    }

    /// Records that lost bytes of `range` are sent, on a stream that has sent `sent` bytes.
    pub(super) fn on_sent(&mut self, range: &Range<u64>, sent: u64) {
        loop {
            let Some(part) = self.due.overlaps(range.clone()).next() else {
                return;
            };
            self.due.remove(part.clone());
            if self.bytes < sent / SHARE {
                self.bytes += part.end - part.start;
                self.second.insert(part);
            }
        }
    }

    /// Returns the lowest bytes that must be sent once more.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.second.first()
    }

    pub(super) fn take(&mut self, max: u64) -> Option<Range<u64>> {
        let range = self.second.pop_front(max)?;
        self.both.insert(range.clone());
        Some(range)
    }

    /// Removes bytes whose copies in flight no longer matter, or that were acknowledged.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        for set in [&mut self.due, &mut self.second, &mut self.both] {
            set.remove(range.clone());
        }
    }
}
