//! Bytes of a stream from their arrival, in any order, to the application.
//!
//! ```text
//!   base ───────────── frontier ─────────────────── highest
//!    │ readable           │ gaps and islands (bits)    │
//!    ├────────┬───────────┼─────┬───────────┬──────────┤
//!    │ block  │ block      block │ (nothing) │  block   │
//! ```
//!
//! Data is copied out of the datagram into blocks by offset, so neither a tiny nor an overlapping
//! frame can keep a datagram alive. Blocks exist only where data is. Little that has arrived ahead
//! of the frontier is kept as [`Pieces`], in proportion to its bytes; more of it in place, with one
//! bit per byte, so a whole window of gaps costs an eighth of the window at most, however the
//! frames are cut. An insertion costs about the same with one gap as with a million.

mod pieces;

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use pieces::Pieces;

/// Bytes of offset space per block.
const BLOCK: u64 = 32 * 1024;

/// Words of presence bits per block.
const WORDS: usize = (BLOCK / 64) as usize;

/// Least capacity of a block, bytes.
const FIRST_CAPACITY: usize = 256;

/// Places for blocks that a stream keeps when nothing is buffered.
const KEPT_PLACES: usize = 8;

/// One bit per byte of a block.
type Bits = Box<[u64; WORDS]>;

#[derive(Debug)]
struct Block {
    /// Offset within the block at which `data` begins: what came before was read.
    skip: usize,
    data: BytesMut,
    /// Which bytes of `data` beyond the frontier are there; `None` while none are.
    present: Option<Bits>,
    /// What else is there beyond the frontier; empty where there are bits.
    pieces: Pieces,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Blocks from that of `base` on.
    blocks: VecDeque<Option<Box<Block>>>,
    /// Number (offset / BLOCK) of the first.
    first: u64,
    base: u64,
    frontier: u64,
    highest: u64,
    /// `base` when the buffer was empty last, and how much went through it between the two times
    /// before: bulk transfers get their blocks in full, streams of short messages small ones.
    empty_at: u64,
    last_burst: u64,
    /// Bytes of memory that the blocks hold.
    held: usize,
    /// Arrivals are counted and not read any more: see [`skip`](Self::skip).
    counted: bool,
}

impl Reassembly {
    /// The offset of the next byte to read.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The offset after the highest byte that arrived.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The offset up to which there is no gap.
    #[must_use]
    pub fn frontier(&self) -> u64 {
        self.frontier
    }

    /// Bytes that can be read.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.frontier - self.base
    }

    /// Bytes of memory held, bookkeeping included.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.held + self.blocks.capacity() * size_of::<Option<Box<Block>>>()
    }

    /// Takes in `data` at `offset`. Bytes that are there already are not taken twice.
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

    /// True if `len` bytes at `offset` come next and nothing is held: they count as read. For a
    /// reader that takes them from where they are.
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

    /// Moves the frontier over islands that it has reached.
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

    /// The next piece, at most `max` bytes, without copying. `None` if there is nothing to read.
    pub fn read_chunk(&mut self, max: usize) -> Option<Bytes> {
        let len = index(self.readable()).min(max);
        let within = index(self.base % BLOCK);
        let len = len.min(index(BLOCK) - within);
        if len == 0 {
            return None;
        }
        let block = self.blocks.front_mut()?.as_mut()?;
        self.held -= block.memory();
        // `read` leaves what it has copied in place.
        let read = within.saturating_sub(block.skip).min(block.data.len());
        block.data.advance(read);
        let len = len.min(block.data.len());
        let chunk = block.data.split_to(len).freeze();
        block.skip = within + len;
        self.held += block.memory();
        self.advance(len);
        Some(chunk)
    }

    /// Copies what can be read into `out`; returns how much.
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

    /// Drops what can be read; returns how much. From the first call on, data that arrives in order
    /// is not kept but counted, so that [`read`](Self::read) and [`read_chunk`](Self::read_chunk)
    /// find nothing to rely on: they are not to be called any more.
    pub fn skip(&mut self) -> u64 {
        self.counted = true;
        let from = self.base;
        while self.readable() > 0 {
            let room = BLOCK - self.base % BLOCK;
            self.advance(index(self.readable().min(room)));
        }
        self.base - from
    }

    /// True once [`skip`](Self::skip) was called.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.counted
    }

    /// Forgets all data, as after a reset. Offsets stay.
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

    /// `len` bytes of the first block were read.
    fn advance(&mut self, len: usize) {
        self.base += len as u64;
        if self.base == self.highest {
            // A stream at rest holds no memory.
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
    /// A block in which nothing will be written before `skip`.
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

    /// Data beyond a gap.
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

    /// The end of what is there without a gap from `within` on, where the frontier is. All of it
    /// lies in `data` then.
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

    /// Copies `data` to its place, with room for `likely` bytes if there is none yet.
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

/// How many ones follow each other in `bits` from bit `from` on.
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

/// An offset into a buffer; one beyond the address space lies beyond every buffer.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
