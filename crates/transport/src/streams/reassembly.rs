//! Bytes of a stream from their arrival, in any order, to the application.
//!
//! ```text
//!   base ───────────── frontier ─────────────────── highest
//!    │ readable           │ gaps and islands (bits)    │
//!    ├────────┬───────────┼─────┬───────────┬──────────┤
//!    │ block  │ block      block │ (nothing) │  block   │
//! ```
//!
//! Data is copied from the datagram into blocks by offset, so that neither tiny nor overlapping
//! frames can keep a datagram alive. Blocks exist only for data that has arrived. Small amounts
//! ahead of the frontier are kept as [`Pieces`], whose memory is proportional to their bytes.
//! Larger amounts are stored in place with one bit per byte. Even a whole window of gaps therefore
//! costs at most an eighth of the window, regardless of the frames' sizes. An insertion takes about
//! as long with a million gaps as with one.

mod pieces;

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use pieces::Pieces;

/// Bytes of the stream per block.
const BLOCK: u64 = 32 * 1024;

/// Words of presence bits per block.
const WORDS: usize = (BLOCK / 64) as usize;

/// Minimum capacity of a block, bytes.
const FIRST_CAPACITY: usize = 256;

/// Capacity of the block queue that a stream keeps when nothing is buffered.
const KEPT_PLACES: usize = 8;

/// One bit per byte of a block.
type Bits = Box<[u64; WORDS]>;

#[derive(Debug)]
struct Block {
    /// Offset within the block at which `data` begins; earlier bytes were read.
    skip: usize,
    data: BytesMut,
    /// Which bytes of `data` beyond the frontier have arrived; `None` if none have.
    present: Option<Bits>,
    /// Other data beyond the frontier; empty if there are bits.
    pieces: Pieces,
}

/// The received bytes of a stream from `base`, up to which the application has read.
///
/// [`insert`](Self::insert) moves the frontier to the end of what arrived without a gap, and
/// [`read`](Self::read) and [`skip`](Self::skip) move `base` toward it.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Blocks, from the one that contains `base`.
    blocks: VecDeque<Option<Box<Block>>>,
    /// Number (offset / BLOCK) of the first block.
    first: u64,
    base: u64,
    frontier: u64,
    highest: u64,
    /// `base` when the buffer was last empty, and the bytes that passed through it between the
    /// previous two times. Thus bulk transfers get full-sized blocks, and streams of short
    /// messages get small blocks.
    empty_at: u64,
    last_burst: u64,
    /// Bytes of memory that the blocks use.
    held: usize,
    /// Whether arriving data is only counted, because it isn't read anymore: see
    /// [`skip`](Self::skip).
    counted: bool,
}

impl Reassembly {
    /// Returns the offset of the next byte to read.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the offset after the highest byte that arrived.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns the offset of the first gap.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> u64 {
        self.frontier - self.base
    }

    /// Returns the bytes of memory in use, including bookkeeping.
    pub fn memory(&self) -> usize {
        self.held + self.blocks.capacity() * size_of::<Option<Box<Block>>>()
    }

    /// Inserts `data` at `offset`. Bytes that arrived before are ignored.
    pub fn insert(&mut self, offset: u64, data: &[u8]) {
        let end = offset.saturating_add(data.len() as u64);
        let start = offset.max(self.frontier);
        let Some(data) = data.get(index(start - offset)..).filter(|d| !d.is_empty()) else {
            return;
        };
        let in_order = start == self.frontier;
        let alone = in_order && self.frontier == self.highest;
        if alone && self.counted {
            (self.frontier, self.highest) = (end, end);
            return;
        }
        let mut at = start;
        let mut rest = data;
        while !rest.is_empty() {
            let room = BLOCK - at % BLOCK;
            let (now, later) = rest.split_at(rest.len().min(index(room)));
            self.insert_in_block(at, now, in_order);
            at += now.len() as u64;
            rest = later;
        }
        self.highest = self.highest.max(end);
        if in_order {
            self.frontier = end;
            if !alone {
                self.close_gap();
            }
        }
    }

    /// Counts `len` bytes at `offset` as read if they are next and nothing is buffered. The
    /// reader can then take them directly from the datagram.
    pub fn pass(&mut self, offset: u64, len: usize) -> bool {
        if offset != self.base || self.highest != self.base || len == 0 {
            return false;
        }
        self.highest = self.highest.saturating_add(len as u64);
        self.frontier = self.highest;
        self.advance(len);
        true
    }

    fn insert_in_block(&mut self, at: u64, data: &[u8], in_order: bool) {
        let slot = index((at / BLOCK).saturating_sub(self.first));
        if slot >= self.blocks.len() {
            self.blocks.resize_with(slot + 1, || None);
        }
        let within = index(at % BLOCK);
        let Some(place) = self.blocks.get_mut(slot) else {
            return;
        };
        let likely = index(self.last_burst.max(at - self.empty_at));
        let base = self.base;
        let before = place.as_ref().map_or(0, |block| block.memory());
        let block = place.get_or_insert_with(|| {
            let skip = index(base.saturating_sub(at - within as u64));
            Box::new(Block::new(skip))
        });
        if in_order {
            block.write(within, data, likely);
            if within + data.len() == index(BLOCK) {
                block.present = None;
                block.pieces = Pieces::default();
            }
        } else {
            block.insert_island(within, data, likely);
        }
        self.held = self.held + block.memory() - before;
    }

    fn close_gap(&mut self) {
        while self.frontier < self.highest {
            let likely = self.last_burst.max(self.frontier - self.empty_at);
            let slot = index((self.frontier / BLOCK).saturating_sub(self.first));
            let Some(Some(block)) = self.blocks.get_mut(slot) else {
                return;
            };
            let within = index(self.frontier % BLOCK);
            self.held -= block.memory();
            let end = block.follow(within, index(likely));
            self.held += block.memory();
            self.frontier += (end - within) as u64;
            if end < index(BLOCK) {
                return;
            }
        }
    }

    /// Returns the next piece, at most `max` bytes, without copying, or `None` if there is
    /// nothing to read.
    pub fn read_chunk(&mut self, max: usize) -> Option<Bytes> {
        let len = index(self.readable()).min(max);
        let within = index(self.base % BLOCK);
        let len = len.min(index(BLOCK) - within);
        if len == 0 {
            return None;
        }
        let block = self.blocks.front_mut()?.as_mut()?;
        self.held -= block.memory();
        // `read` doesn't remove the bytes that it copies.
        let read = within.saturating_sub(block.skip).min(block.data.len());
        block.data.advance(read);
        let len = len.min(block.data.len());
        let chunk = block.data.split_to(len).freeze();
        block.skip = within + len;
        self.held += block.memory();
        self.advance(len);
        Some(chunk)
    }

    /// Copies readable bytes into `out`, and returns their number.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let len = index(self.readable()).min(rest.len());
            let within = index(self.base % BLOCK);
            let len = len.min(index(BLOCK) - within);
            let Some(Some(block)) = self.blocks.front_mut() else {
                break;
            };
            let from = within.saturating_sub(block.skip);
            match (rest.get_mut(..len), block.data.get(from..from + len)) {
                (Some(to), Some(from)) if len > 0 => to.copy_from_slice(from),
                _ => break,
            }
            self.advance(len);
            done += len;
        }
        done
    }

    /// Drops all readable bytes, and returns their number. From the first call on, data that
    /// arrives in order is counted instead of kept, so [`read`](Self::read) and
    /// [`read_chunk`](Self::read_chunk) must not be called anymore.
    pub fn skip(&mut self) -> u64 {
        self.counted = true;
        let from = self.base;
        while self.readable() > 0 {
            let room = BLOCK - self.base % BLOCK;
            self.advance(index(self.readable().min(room)));
        }
        self.base - from
    }

    /// Returns true once [`skip`](Self::skip) was called.
    pub fn is_counted(&self) -> bool {
        self.counted
    }

    /// Drops all data, for example after a reset. Offsets are kept.
    pub fn clear(&mut self) {
        *self = Self {
            first: self.highest / BLOCK,
            base: self.highest,
            frontier: self.highest,
            highest: self.highest,
            empty_at: self.highest,
            counted: self.counted,
            ..Self::default()
        };
    }

    /// Records that `len` bytes of the first block were read.
    fn advance(&mut self, len: usize) {
        self.base += len as u64;
        if self.base == self.highest {
            // An idle stream uses no memory.
            self.blocks.clear();
            self.blocks.shrink_to(KEPT_PLACES);
            self.held = 0;
            self.first = self.base / BLOCK;
            self.last_burst = self.base - self.empty_at;
            self.empty_at = self.base;
        } else if self.base / BLOCK > self.first {
            let read = self.blocks.pop_front().flatten();
            self.held -= read.map_or(0, |block| block.memory());
            self.first += 1;
        }
    }
}

impl Block {
    /// Creates a block in which nothing will be written before `skip`.
    fn new(skip: usize) -> Self {
        Self {
            skip,
            data: BytesMut::new(),
            present: None,
            pieces: Pieces::default(),
        }
    }

    fn memory(&self) -> usize {
        let bits = self.present.as_ref().map_or(0, |bits| size_of_val(&**bits));
        size_of::<Self>() + self.data.capacity() + bits + self.pieces.memory()
    }

    /// Inserts data beyond a gap.
    fn insert_island(&mut self, within: usize, data: &[u8], likely: usize) {
        if self.present.is_none() {
            if self.pieces.take(data.len()) {
                self.pieces.insert(within, data);
                return;
            }
            let mut pieces = core::mem::take(&mut self.pieces);
            pieces.drain(|at, piece| {
                self.write(at, piece, likely);
                self.mark(at, piece.len());
            });
        }
        self.write(within, data, likely);
        self.mark(within, data.len());
    }

    /// Returns the end of the contiguous data from `within`, which is the frontier. All of this
    /// data is moved to `data`.
    fn follow(&mut self, within: usize, likely: usize) -> usize {
        if let Some(bits) = &self.present {
            let end = within + ones_from(bits, within);
            if end >= self.skip + self.data.len() {
                self.present = None;
            }
            return end;
        }
        if self.pieces.is_empty() {
            return within;
        }
        let mut pieces = core::mem::take(&mut self.pieces);
        let mut at = within;
        let end = pieces.follow(within, |piece| {
            self.write(at, piece, likely);
            at += piece.len();
        });
        self.pieces = pieces;
        end
    }

    /// Copies `data` to its position, allocating room for `likely` bytes if there is none yet.
    fn write(&mut self, within: usize, data: &[u8], likely: usize) {
        if self.data.capacity() == 0 {
            let space = index(BLOCK) - self.skip;
            let needed = (within + data.len()).saturating_sub(self.skip);
            let capacity = needed.max(likely.min(index(BLOCK))).next_power_of_two();
            let capacity = capacity.max(FIRST_CAPACITY).min(space);
            self.data = BytesMut::with_capacity(capacity);
        }
        let from = within.saturating_sub(self.skip);
        let have = self.data.len();
        if from > have {
            self.data.resize(from, 0);
        }
        let (over, new) = data.split_at(self.data.len().saturating_sub(from).min(data.len()));
        if let Some(place) = self.data.get_mut(from..from + over.len()) {
            place.copy_from_slice(over);
        }
        self.data.extend_from_slice(new);
    }

    fn mark(&mut self, from: usize, len: usize) {
        let bits = self.present.get_or_insert_with(|| Box::new([0; WORDS]));
        let (mut at, end) = (from, from + len);
        while at < end {
            let run = (64 - at % 64).min(end - at);
            if let Some(word) = bits.get_mut(at / 64) {
                *word |= (u64::MAX >> (64 - run)) << (at % 64);
            }
            at += run;
        }
    }
}

/// Returns the number of consecutive ones in `bits` from bit `from`.
fn ones_from(bits: &[u64; WORDS], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = bits.get(at / 64) {
        let left = 64 - at % 64;
        let ones = ((word >> (at % 64)).trailing_ones() as usize).min(left);
        at += ones;
        if ones < left {
            break;
        }
    }
    at - from
}

/// Converts an offset into a buffer. Offsets beyond the address space are beyond every buffer.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
