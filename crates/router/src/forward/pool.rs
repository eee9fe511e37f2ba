//! The pool that packet buffers come from, and who may hold how much of it.
//!
//! Each port has an account: bytes of buffers that it may always hold, and beyond them what is left
//! of the part that all share. So a port whose queue is full takes no buffer that another port was
//! promised. What counts is the size of the buffers, not that of the packets in them.

use pathmark_cc::{Duration, Instant};

pub(super) use super::account::Account;
use super::frame::Frame;
use crate::offload::Offload;

/// Room for any packet that an interface with offloads hands over.
pub const LARGE: usize = 65_600;
/// Room for a packet of the usual MTU.
pub const USUAL: usize = 2_048;
/// Buffer sizes. A packet takes the smallest that holds it, so that a queue of small packets does
/// not pin large buffers.
const CLASSES: [usize; 9] = [256, 512, 1_024, USUAL, 4_096, 10_240, 20_480, 40_960, LARGE];
/// Bytes of the pool that belong to no port: packets that are being cut, put together or read.
pub const WORKING: usize = 4 * LARGE;

/// Bytes of unused buffers that are kept whatever happens.
const SPARE: usize = 1 << 20;
/// Bytes that the rest of the router has when the system refuses memory for packets: for a status
/// of hundreds of ports.
const OTHERS: usize = 4 << 20;
/// How long the most that was used at once is remembered.
const LOOK: Duration = Duration::from_secs(1);
/// Buffers released in one step, and the pause until the next: the thread that does it moves
/// packets.
const STEP: usize = 256;
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes released after which it is worth to ask the allocator to pass them on.
const WORTH: usize = 4 << 20;

/// The size of the buffer that a packet of `len` bytes takes; `None` beyond the largest.
#[must_use]
pub fn cost(len: usize) -> Option<usize> {
    CLASSES.get(class_of(len)).copied()
}

/// The smallest class that holds `len` bytes; beyond the largest, the number of classes.
#[inline]
fn class_of(len: usize) -> usize {
    if len <= USUAL {
        // 256, 512, 1024, 2048: by the leading bit.
        let units = len.saturating_sub(1) >> 8;
        (usize::BITS - units.leading_zeros()) as usize
    } else {
        let larger = CLASSES.iter().position(|size| *size >= len);
        larger.unwrap_or(CLASSES.len())
    }
}

/// What an account holds.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    reserve: usize,
    /// Bytes held; what exceeds the reserve is of the shared part.
    held: usize,
    open: bool,
}

impl Holding {
    /// Bytes held of the shared part.
    fn shared(&self) -> usize {
        self.held.saturating_sub(self.reserve)
    }
}

/// Buffers of a few sizes, allocated on first use up to a limit, and released again some time after
/// they were last needed.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Box<[u8]>>; CLASSES.len()],
    /// Bytes of all buffers.
    allocated: usize,
    /// Bytes of those that are not in `free`.
    used: usize,
    limit: usize,
    /// Left to the rest of the router once the system refuses memory.
    others: Vec<u8>,
    holdings: Vec<Holding>,
    /// Sum of the reserves.
    reserved: usize,
    /// Sum of what is held beyond them.
    shared: usize,
    /// The most that was in use at once since the last look.
    peak: usize,
    /// Bytes that need not be kept, as of the last look, begin here.
    goal: usize,
    look_at: Instant,
    step_at: Instant,
    released: usize,
}

impl Pool {
    /// An empty pool that will hold no more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            free: Default::default(),
            allocated: 0,
            used: 0,
            limit,
            others: Vec::with_capacity(OTHERS),
            holdings: Vec::new(),
            reserved: 0,
            shared: 0,
            peak: 0,
            goal: usize::MAX,
            look_at: Instant::ZERO,
            step_at: Instant::ZERO,
            released: 0,
        }
    }

    /// A buffer of at least `len` bytes; `None` at the limit, or beyond the largest class.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<Box<[u8]>> {
        self.take_of(class_of(len))
    }

    #[inline(always)]
    fn take_of(&mut self, class: usize) -> Option<Box<[u8]>> {
        let buffer = match self.free.get_mut(class)?.pop() {
            Some(buffer) => buffer,
            None => self.allocate(*CLASSES.get(class)?)?,
        };
        self.used += buffer.len();
        self.peak = self.peak.max(self.used);
        Some(buffer)
    }

    #[cold]
    fn allocate(&mut self, size: usize) -> Option<Box<[u8]>> {
        // Spare buffers of other sizes make room, the largest first.
        while self.allocated + size > self.limit && self.release() {}
        if self.allocated + size > self.limit {
            return None;
        }
        // A system that refuses memory costs packets, not the router.
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(size).is_err() {
            self.limit = self.limit.min(self.allocated);
            self.others = Vec::new();
            return None;
        }
        buffer.resize(size, 0);
        self.allocated += size;
        Some(buffer.into_boxed_slice())
    }

    /// Gives one spare buffer, of the largest there are, back to the allocator.
    fn release(&mut self) -> bool {
        let Some(buffer) = self.free.iter_mut().rev().find_map(Vec::pop) else {
            return false;
        };
        self.allocated -= buffer.len();
        self.released += buffer.len();
        true
    }

    /// The packet at the start of `buffer`: in that buffer, which is replaced by another of its
    /// size, if it has the size that the packet needs, else in a copy. `None` at the limit.
    #[inline(always)]
    pub fn keep(&mut self, buffer: &mut Box<[u8]>, len: usize, offload: Offload) -> Option<Frame> {
        let class = class_of(len);
        if *CLASSES.get(class)? == buffer.len() {
            let other = self.take_of(class)?;
            Some(Frame::new(std::mem::replace(buffer, other), len, offload))
        } else {
            self.copy(buffer.get(..len)?, offload)
        }
    }

    /// The packet at the start of `buffer` in that buffer, which is replaced by another of its
    /// size. `None` at the limit.
    #[inline]
    pub fn swap(&mut self, buffer: &mut Box<[u8]>, len: usize, offload: Offload) -> Option<Frame> {
        let other = self.take(buffer.len())?;
        Some(Frame::new(std::mem::replace(buffer, other), len, offload))
    }

    /// A copy of a packet; `None` at the limit.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8], offload: Offload) -> Option<Frame> {
        let mut buffer = self.take(bytes.len())?;
        buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Frame::new(buffer, bytes.len(), offload))
    }

    /// Takes a buffer back, and discharges its account.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) {
        if let Some(holding) = self.holdings.get_mut(usize::from(frame.account.0)) {
            let before = holding.shared();
            holding.held -= frame.buffer.len();
            if before > 0 {
                self.shared -= before - holding.shared();
            }
        }
        self.give_buffer(frame.buffer);
    }

    /// Takes a bare buffer back.
    #[inline]
    pub fn give_buffer(&mut self, buffer: Box<[u8]>) {
        match self.free.get_mut(class_of(buffer.len())) {
            Some(free) => {
                self.used -= buffer.len();
                free.push(buffer);
            }
            _ => debug_assert!(false, "a buffer of no class came back"),
        }
    }

    /// Bytes held, in use or not.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes of unused buffers.
    #[inline]
    fn spare(&self) -> usize {
        self.allocated - self.used
    }

    /// Opens an account that may always hold `reserve` bytes.
    pub(super) fn open(&mut self, reserve: usize) -> Account {
        let vacant = |holding: &Holding| !holding.open && holding.held == 0;
        let index = self.holdings.iter().position(vacant);
        let index = index.unwrap_or_else(|| {
            self.holdings.push(Holding::default());
            self.holdings.len() - 1
        });
        let account = Account(u16::try_from(index).unwrap_or(u16::MAX));
        if let Some(holding) = self.holdings.get_mut(index) {
            holding.open = true;
        }
        self.set_reserve(account, reserve);
        account
    }

    /// Closes an account. What it still holds it holds on its own.
    pub(super) fn close(&mut self, account: Account) {
        self.set_reserve(account, 0);
        if let Some(holding) = self.holdings.get_mut(usize::from(account.0)) {
            holding.open = false;
        }
    }

    /// Changes what an account may always hold.
    pub(super) fn set_reserve(&mut self, account: Account, reserve: usize) {
        if let Some(holding) = self.holdings.get_mut(usize::from(account.0)) {
            self.reserved -= holding.reserve;
            self.shared -= holding.shared();
            holding.reserve = reserve;
            self.reserved += holding.reserve;
            self.shared += holding.shared();
        }
    }

    /// Charges a frame to a port's account. False if the port has reached its limit; the frame then
    /// stays without an account.
    #[inline(always)]
    pub(super) fn charge(&mut self, frame: &mut Frame, account: Account) -> bool {
        let Some(holding) = self.holdings.get_mut(usize::from(account.0)) else {
            return false;
        };
        let held = holding.held + frame.buffer.len();
        if held > holding.reserve {
            let more = (held - holding.reserve) - holding.shared();
            let common = self.limit.saturating_sub(self.reserved + WORKING);
            if self.shared + more > common {
                return false;
            }
            self.shared += more;
        }
        holding.held = held;
        frame.account = account;
        true
    }

    /// Bytes of buffers that an account holds.
    pub(super) fn held(&self, account: Account) -> usize {
        self.holdings
            .get(usize::from(account.0))
            .map_or(0, |holding| holding.held)
    }

    /// When [`tidy`](Self::tidy) has something to do next.
    #[must_use]
    pub fn tidy_at(&self) -> Option<Instant> {
        if self.allocated > self.goal && self.spare() > 0 {
            return Some(self.step_at);
        }
        (self.spare() > SPARE).then_some(self.look_at)
    }

    /// Releases, a few at a time, buffers that have not been needed for a while. True if that is
    /// done, and was enough to ask the allocator to pass the memory on to the system.
    #[inline]
    pub fn tidy(&mut self, now: Instant) -> bool {
        self.tidy_at().is_some_and(|at| at <= now) && self.tidy_now(now)
    }

    #[cold]
    fn tidy_now(&mut self, now: Instant) -> bool {
        if now >= self.look_at {
            self.goal = self.peak.saturating_add(SPARE);
            self.peak = self.used();
            self.look_at = now + LOOK;
        }
        for _ in 0..STEP {
            if self.allocated <= self.goal || !self.release() {
                break;
            }
        }
        self.step_at = now + PAUSE;
        let more = self.allocated > self.goal && self.spare() > 0;
        if more || self.released < WORTH {
            return false;
        }
        self.released = 0;
        for free in &mut self.free {
            free.shrink_to(free.len() * 2);
        }
        true
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
