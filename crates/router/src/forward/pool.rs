//! The pool of packet buffers, its limits per port, and packets in its buffers.
//!
//! Each port has an account: a reserve that it can always use, and beyond this reserve a shared
//! part of the pool. A port whose queue is full can therefore never take a buffer that is
//! reserved for another port. Accounts are charged the size of the buffers, not of the packets
//! in them.

use pathmark_cc::{Duration, Instant};
use pathmark_link::queue::Popped;
use pathmark_protocols::shim::Carrier;

use crate::offload::{GsoKind, Offload};

/// Size that holds any packet from an interface with offloads.
pub const LARGE: usize = 65_600;
/// Size that holds a packet of the usual MTU.
pub const USUAL: usize = 2_048;
/// Buffer sizes. A packet takes the smallest one that holds it, so that a queue of small packets
/// does not pin large buffers.
const CLASSES: [usize; 9] = [256, 512, 1_024, USUAL, 4_096, 10_240, 20_480, 40_960, LARGE];
/// Bytes of the pool that belong to no port. They hold packets that are being read, cut or
/// assembled.
pub const WORKING: usize = 4 * LARGE;

/// Bytes of unused buffers that are always kept.
const SPARE: usize = 1 << 20;
/// Bytes set aside for the rest of the router, for example for a status of hundreds of ports.
/// They are released once the system refuses memory for packets.
const OTHERS: usize = 4 << 20;
/// How long the peak of use is remembered.
const LOOK: Duration = Duration::from_secs(1);
/// Buffers released in one step, and the pause before the next step. Steps must be short because
/// the same thread forwards packets.
const STEP: usize = 256;
const PAUSE: Duration = Duration::from_millis(1);
/// Released bytes that make it worthwhile to have the allocator return memory to the system.
const WORTH: usize = 4 << 20;

/// Returns the size of the buffer that a packet of `len` bytes takes, or `None` if it exceeds
/// the largest size.
pub fn cost(len: usize) -> Option<usize> {
    CLASSES.get(class_of(len)).copied()
}

/// Returns the smallest class that holds `len` bytes, or the number of classes if none does.
fn class_of(len: usize) -> usize {
    if len <= USUAL {
        // 256, 512, 1024, 2048: determined by the leading bit.
        let units = len.saturating_sub(1) >> 8;
        (usize::BITS - units.leading_zeros()) as usize
    } else {
        let larger = CLASSES.iter().position(|size| *size >= len);
        larger.unwrap_or(CLASSES.len())
    }
}

/// The state of an account.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    reserve: usize,
    /// Bytes held. The excess over the reserve comes from the shared part.
    held: usize,
    open: bool,
}

impl Holding {
    /// The bytes held from the shared part.
    fn shared(&self) -> usize {
        self.held.saturating_sub(self.reserve)
    }
}

/// Allocates buffers of a few sizes on first use, up to a limit, and releases them some time
/// after they were last needed.
#[derive(Debug)]
pub struct Pool {
    free: [Vec<Box<[u8]>>; CLASSES.len()],
    /// Bytes of all buffers.
    allocated: usize,
    /// Bytes of the buffers that are in use, and thus not in `free`.
    used: usize,
    limit: usize,
    /// Memory that is released to the rest of the router once the system refuses more.
    others: Vec<u8>,
    holdings: Vec<Holding>,
    /// Sum of the reserves.
    reserved: usize,
    /// Sum of the bytes held beyond the reserves.
    shared: usize,
    /// Peak of the bytes in use since the last look.
    peak: usize,
    /// Allocated bytes beyond this value can be released, as of the last look.
    goal: usize,
    look_at: Instant,
    step_at: Instant,
    released: usize,
}

impl Pool {
    /// Creates an empty pool that will never hold more than `limit` bytes.
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

    /// Takes a buffer of at least `len` bytes; `None` at the limit, or beyond the largest class.
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
        // Spare buffers of other sizes make room, largest first.
        while self.allocated + size > self.limit && self.release() {}
        if self.allocated + size > self.limit {
            return None;
        }
        // If the system refuses memory, packets are dropped, but the router continues.
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

    /// Returns one spare buffer, of the largest available size, to the allocator.
    fn release(&mut self) -> bool {
        let Some(buffer) = self.free.iter_mut().rev().find_map(Vec::pop) else {
            return false;
        };
        self.allocated -= buffer.len();
        self.released += buffer.len();
        true
    }

    /// Turns the packet at the start of `buffer` into a frame. If `buffer` has just the size
    /// that the packet needs, the frame takes it and a new one replaces it; otherwise the packet
    /// is copied. `None` at the limit.
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

    /// Turns `buffer`, with the packet at its start, into a frame without copying, and replaces
    /// it by a new buffer of the same size. `None` at the limit.
    pub fn swap(&mut self, buffer: &mut Box<[u8]>, len: usize, offload: Offload) -> Option<Frame> {
        let other = self.take(buffer.len())?;
        Some(Frame::new(std::mem::replace(buffer, other), len, offload))
    }

    /// Copies a packet into a frame; `None` at the limit.
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

    /// Takes back a buffer that belongs to no account.
    pub fn give_buffer(&mut self, buffer: Box<[u8]>) {
        match self.free.get_mut(class_of(buffer.len())) {
            Some(free) => {
                self.used -= buffer.len();
                free.push(buffer);
            }
            _ => debug_assert!(false, "a buffer of no class came back"),
        }
    }

    /// Bytes of all buffers, used or unused.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Bytes of buffers in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The bytes of unused buffers.
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

    /// Closes an account. Bytes that it still holds then count against the shared part.
    pub(super) fn close(&mut self, account: Account) {
        self.set_reserve(account, 0);
        if let Some(holding) = self.holdings.get_mut(usize::from(account.0)) {
            holding.open = false;
        }
    }

    /// Changes the reserve of an account.
    pub(super) fn set_reserve(&mut self, account: Account, reserve: usize) {
        if let Some(holding) = self.holdings.get_mut(usize::from(account.0)) {
            self.reserved -= holding.reserve;
            self.shared -= holding.shared();
            holding.reserve = reserve;
            self.reserved += holding.reserve;
            self.shared += holding.shared();
        }
    }

    /// Charges a frame to a port's account. Returns false if the port has reached its limit; the
    /// frame then stays without an account.
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

    /// The bytes of buffers that an account holds.
    pub(super) fn held(&self, account: Account) -> usize {
        self.holdings
            .get(usize::from(account.0))
            .map_or(0, |holding| holding.held)
    }

    /// Returns when [`tidy`](Self::tidy) has work to do next.
    pub fn tidy_at(&self) -> Option<Instant> {
        if self.allocated > self.goal && self.spare() > 0 {
            return Some(self.step_at);
        }
        (self.spare() > SPARE).then_some(self.look_at)
    }

    /// Releases, a few at a time, buffers that have not been needed recently. Returns true once
    /// this is finished and has released enough that the caller should have the allocator return
    /// memory to the system.
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

/// Identifies the account of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(pub(super) u16);

impl Account {
    /// No account.
    pub(super) const NONE: Self = Self(u16::MAX);
}

/// A packet in a buffer of the pool.
#[derive(Debug)]
#[must_use = "a frame should be given back to the pool"]
pub struct Frame {
    pub(super) buffer: Box<[u8]>,
    len: u32,
    /// The account that the buffer is charged to.
    pub(super) account: Account,
    /// Offload work that is not done yet.
    pub offload: Offload,
    /// The place of the feedback.
    pub carrier: Carrier,
    /// Hops that this machine subtracts from the TTL: one for the router, and one each time the
    /// kernel forwards the packet too.
    pub hops: u8,
}

impl Frame {
    /// Creates a frame from a packet of `len` bytes at the start of `buffer`.
    pub fn new(buffer: Box<[u8]>, len: usize, offload: Offload) -> Self {
        Self {
            len: u32::try_from(len.min(buffer.len())).unwrap_or(0),
            buffer,
            account: Account::NONE,
            offload,
            carrier: Carrier::None,
            hops: 1,
        }
    }

    /// Returns the packet's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len as usize).unwrap_or(&[])
    }

    /// Number of IP packets that the frame consists of.
    pub fn packets(&self) -> u32 {
        let Some(gso) = self.offload.gso else {
            return 1;
        };
        let payload = self.len.saturating_sub(self.header_len().into());
        payload.div_ceil(gso.size.max(1).into()).max(1)
    }

    /// Length of a super-packet's headers, including UDP or TCP, and 0 for other packets.
    pub fn header_len(&self) -> u16 {
        let Some(gso) = self.offload.gso else {
            return 0;
        };
        let start = self.offload.checksum.map_or(0, |partial| partial.start);
        let own = match gso.kind {
            GsoKind::Udp => 8,
            GsoKind::TcpV4 | GsoKind::TcpV6 => self
                .bytes()
                .get(usize::from(start) + 12)
                .map_or(20, |words| u16::from(words >> 4) * 4),
        };
        start + own
    }

    /// Returns the packet's bytes for rewriting.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len as usize).unwrap_or(&mut [])
    }
}

/// A frame is moved several times on its way. Beyond 128 bytes, each move would be a call of
/// `memcpy`.
const _: () = assert!(size_of::<Popped<Frame>>() <= 128);
