//! How much memory received data may take, over all connections of an endpoint.
//!
//! A connection *earns* memory by what its application reads: some round trips' worth of it, as its
//! window does. What it holds beyond that comes out of one small pool. Each connection may take as
//! much as it leaves for the others, of the pool and of the whole, so that any number of them
//! leaves something for one more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What every connection may hold, bytes.
pub(super) const FLOOR: u64 = 16 * 1024;

/// Share of the whole that serves for what was not earned. Of the 512 MiB of the default, 21 MiB:
/// with what the allocator cannot use again at once, less than 32 MiB of memory.
const UNEARNED_SHARE: u64 = 24;

/// What a connection is promised at first however little memory there is. Less would keep an
/// application that reads one stream after the other waiting for credit that other streams used up.
const LEAST_PROMISE: u64 = 1536 * 1024;

/// Memory of a stream with little data, bytes.
const A_STREAM: u64 = 1280;

/// Streams that a peer may have open at first however little memory there is: the default.
const LEAST_STREAMS: u64 = 128;

/// Bytes of data that `memory` bytes keep where it comes in bulk: blocks take some more.
const fn bulk(memory: u64) -> u64 {
    memory - memory / 32
}

/// Memory for received data that connections share. They keep it within `limit` bytes, but for 48
/// KiB of each.
#[derive(Debug)]
pub struct ReceiveMemory {
    limit: AtomicU64,
    /// The part of it for data whose connections have not earned it.
    pool: AtomicU64,
    held: AtomicU64,
    unearned: AtomicU64,
    refused: AtomicU64,
}

impl ReceiveMemory {
    /// Memory of `limit` bytes, a 24th of it for data whose connections have not earned it.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            pool: AtomicU64::new(limit / UNEARNED_SHARE),
            held: AtomicU64::new(0),
            unearned: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Bytes that may be held.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes that. What is held already stays.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.set_pool(limit / UNEARNED_SHARE);
    }

    /// Has `bytes` of it serve for data whose connections have not earned it: peers who are trusted
    /// may leave data unread on some streams, and use others.
    pub fn set_pool(&self, bytes: u64) {
        self.pool.store(bytes, Ordering::Relaxed);
    }

    fn pool(&self) -> u64 {
        self.pool.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Packets not taken for want of memory.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What one connection may be promised at first of `wanted` bytes: as much as it can keep
    /// alone, or `LEAST_PROMISE`.
    #[must_use]
    pub fn first_promise(&self, wanted: u64) -> u64 {
        let alone = bulk(self.pool() / 3 * 2);
        wanted.min(alone.max(LEAST_PROMISE))
    }

    /// Streams that the peer may have open at first: as many small ones as one connection can keep
    /// alone, or `LEAST_STREAMS`.
    #[must_use]
    pub fn first_streams(&self) -> u64 {
        (self.pool() / 3 * 2 / A_STREAM).max(LEAST_STREAMS)
    }

    fn free(&self) -> u64 {
        self.limit().saturating_sub(self.held())
    }

    fn free_unearned(&self) -> u64 {
        let used = self.unearned.load(Ordering::Relaxed);
        self.pool().saturating_sub(used)
    }
}

/// What one connection holds of it; gives it back when dropped.
#[derive(Debug, Default)]
pub(super) struct MemoryAccount {
    /// `None`: no bound but flow control.
    shared: Option<Arc<ReceiveMemory>>,
    held: u64,
    unearned: u64,
}

impl MemoryAccount {
    /// Shares from now on.
    pub(super) fn share(&mut self, memory: Arc<ReceiveMemory>) {
        let held = self.held;
        self.set(0, 0);
        self.shared = Some(memory);
        self.set(held, 0);
    }

    /// A part holds `after` bytes that held `before`; the connection has earned `earned` in all.
    pub(super) fn change(&mut self, before: usize, after: usize, earned: u64) {
        if before != after {
            let held = (self.held + after as u64).saturating_sub(before as u64);
            self.set(held, earned);
        }
    }

    fn set(&mut self, held: u64, earned: u64) {
        let unearned = held.saturating_sub(earned);
        if let Some(shared) = &self.shared {
            // Wraps to a subtraction where the new value is lower.
            let add = |to: &AtomicU64, new: u64, old: u64| {
                to.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
            };
            add(&shared.held, held, self.held);
            add(&shared.unearned, unearned, self.unearned);
        }
        self.held = held;
        self.unearned = unearned;
    }

    /// Bytes that the connection may hold, if it has earned `earned`.
    pub(super) fn allowed(&self, earned: u64) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            let allowed = earned.saturating_add(shared.free_unearned());
            allowed.min(shared.free()).max(FLOOR)
        })
    }

    /// True if the connection shares memory with others.
    pub(super) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Bytes of data in order that the connection can keep before some is refused, if it has earned
    /// `earned`: what the peer may be promised. [`is_out`](Self::is_out), solved for what is held.
    pub(super) fn promise(&self, earned: u64) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            let pool = shared.pool().saturating_add(self.unearned);
            let left = pool.saturating_sub(shared.unearned.load(Ordering::Relaxed));
            let kept = earned.saturating_mul(2).saturating_add(left) / 3 * 2;
            bulk(kept).min(self.allowed(earned)).max(2 * FLOOR)
        })
    }

    /// True if data beyond a gap is not to be kept.
    pub(super) fn is_scarce(&self, earned: u64) -> bool {
        self.shared.is_some() && self.held > self.allowed(earned)
    }

    /// True if no data is to be kept, not even what closes a gap.
    pub(super) fn is_out(&self, earned: u64) -> bool {
        self.shared.is_some() && self.held / 2 > self.allowed(earned)
    }

    /// True if no data is to be kept, not even of streams that the application accepts next.
    pub(super) fn is_full(&self, earned: u64) -> bool {
        self.shared.is_some() && self.held / 3 > self.allowed(earned)
    }

    /// A packet was not taken.
    pub(super) fn on_refused(&self) {
        if let Some(shared) = &self.shared {
            shared.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_leave_something_for_one_more_and_give_all_back() {
        let shared = Arc::new(ReceiveMemory::new(512 << 20));
        let mut accounts = Vec::new();
        for _ in 0..200 {
            let mut account = MemoryAccount::default();
            account.share(Arc::clone(&shared));
            // Takes what it can get, 10 kB at a time.
            let mut held = 0;
            while !account.is_scarce(0) {
                account.change(held, held + 10_000, 0);
                held += 10_000;
            }
            accounts.push(account);
        }
        let pool = (512 << 20) / UNEARNED_SHARE;
        assert!(shared.held() <= pool + 200 * (FLOOR + 10_000));
        let mut honest = MemoryAccount::default();
        honest.share(Arc::clone(&shared));
        honest.change(0, 100_000_000, 120_000_000);
        assert!(!honest.is_scarce(120_000_000));
        honest.change(0, 300_000_000, 500_000_000);
        assert!(honest.is_scarce(500_000_000) && honest.is_out(500_000_000));
        accounts.push(honest);
        accounts.clear();
        assert_eq!((shared.held(), shared.free_unearned()), (0, pool));
    }

    #[test]
    fn each_holds_a_little_however_short_memory_is() {
        let mut account = MemoryAccount::default();
        account.share(Arc::new(ReceiveMemory::new(0)));
        for (held, scarce, out) in [
            (FLOOR, false, false),
            (FLOOR + 1, true, false),
            (2 * FLOOR, true, false),
            (2 * FLOOR + 2, true, true),
        ] {
            account.set(held, 0);
            let found = (account.is_scarce(0), account.is_out(0));
            assert_eq!(found, (scarce, out), "{held}");
        }
    }

    #[test]
    fn an_account_of_its_own_knows_no_bound() {
        let mut account = MemoryAccount::default();
        account.change(0, 1 << 40, 0);
        assert!(!account.is_scarce(0) && !account.is_out(0));
        assert_eq!(account.allowed(0), u64::MAX);
    }
}
