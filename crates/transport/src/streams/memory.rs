//! How much memory received data may take, over all connections of an endpoint.
//!
//! What a connection promises its peer is its own from then on: whatever the peer sends within it
//! is kept. So the promises of all connections, and not what has arrived, are held to the limit.
//! Each connection has a *base* that it was promised at first, as large as the number of others
//! allows. It *earns* more by what its application reads: some round trips' worth of it, as its
//! window does. Data that nobody reads yet takes of a part of the memory of its own.
//!
//! Of both a connection may take as much as it leaves for the others, so that any number of them
//! leaves something for one more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What every connection may promise, bytes.
pub(super) const FLOOR: u64 = 64 * 1024;

/// Share of the whole for what was not earned.
const UNEARNED_SHARE: u64 = 4;

/// Share that a new connection may take of what is left of that. Of the 512 MiB of the default, the
/// first two may be promised 24 MiB each, and the next ten 6 MiB.
const FIRST_SHARE: u64 = 4;

/// A new connection that cannot be promised all that it wants is promised this share of it, or this
/// share of that, and so on. More and more connections so change the promise only now and then: a
/// server refuses early data from clients that were promised more before (RFC 9000 §7.4.1).
const STEP: u64 = 4;

/// Memory for received data that connections share. They keep it within `limit` bytes, but for 64
/// KiB of each.
#[derive(Debug)]
pub struct ReceiveMemory {
    limit: AtomicU64,
    /// The part of it for what connections have not earned.
    pool: AtomicU64,
    held: AtomicU64,
    /// Bytes that connections have taken beyond the least of each.
    earned: AtomicU64,
    unearned: AtomicU64,
}

impl ReceiveMemory {
    /// Memory of `limit` bytes, a quarter of it for what connections have not earned.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            pool: AtomicU64::new(limit / UNEARNED_SHARE),
            held: AtomicU64::new(0),
            earned: AtomicU64::new(0),
            unearned: AtomicU64::new(0),
        }
    }

    /// Bytes that connections may promise.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes that. What is promised already stays.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.set_pool(limit / UNEARNED_SHARE);
    }

    /// Has `bytes` of it serve for what connections have not earned: peers who are trusted may
    /// leave data unread on some streams, and use others.
    pub fn set_pool(&self, bytes: u64) {
        self.pool.store(bytes, Ordering::Relaxed);
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes that connections have taken beyond the least of each, by promises or by what they
    /// hold.
    #[must_use]
    pub fn taken(&self) -> u64 {
        let earned = self.earned.load(Ordering::Relaxed);
        earned + self.unearned.load(Ordering::Relaxed)
    }

    /// What a new connection may be promised at first of `wanted` bytes.
    #[must_use]
    pub fn first_promise(&self, wanted: u64) -> u64 {
        let most = FLOOR + self.free_unearned() / FIRST_SHARE;
        let mut promise = wanted;
        while promise > most {
            promise /= STEP;
        }
        promise.max(FLOOR.min(wanted))
    }

    fn free(&self) -> u64 {
        self.limit().saturating_sub(self.taken())
    }

    fn free_unearned(&self) -> u64 {
        let pool = self.pool.load(Ordering::Relaxed);
        let left = pool.saturating_sub(self.unearned.load(Ordering::Relaxed));
        left.min(self.free())
    }
}

/// What one connection takes of it; gives it back when dropped.
#[derive(Debug, Default)]
pub(super) struct MemoryAccount {
    /// `None`: no bound but flow control.
    shared: Option<Arc<ReceiveMemory>>,
    /// What was promised at first.
    base: u64,
    held: u64,
    /// What the peer may still send and what is not read, as far as flow control counts it.
    promised: u64,
    /// What is taken of the shared memory beyond the least, by reading and otherwise.
    earned: u64,
    unearned: u64,
}

impl MemoryAccount {
    /// Shares from now on. `promised`: what the peer was promised already.
    pub(super) fn share(&mut self, memory: Arc<ReceiveMemory>, promised: u64) {
        self.take(0, 0);
        self.base = promised.max(FLOOR);
        self.shared = Some(memory);
        self.promise(promised, 0);
    }

    /// A part holds `after` bytes that held `before`; the connection has earned `earned` in all.
    pub(super) fn change(&mut self, before: usize, after: usize, earned: u64) {
        if before != after {
            let held = (self.held + after as u64).saturating_sub(before as u64);
            if let Some(shared) = &self.shared {
                add(&shared.held, held, self.held);
            }
            self.held = held;
            self.settle(earned);
        }
    }

    /// The peer may have `promised` bytes here, read ones not counted.
    pub(super) fn promise(&mut self, promised: u64, earned: u64) {
        if self.promised != promised {
            self.promised = promised;
            self.settle(earned);
        }
    }

    fn settle(&mut self, earned: u64) {
        let beyond = self.size().saturating_sub(FLOOR);
        let first = self.base.saturating_sub(FLOOR);
        let by_reading = beyond.saturating_sub(first).min(self.earnable(earned));
        // The base stays the connection's own, also while less than that is promised.
        self.take(by_reading, beyond.saturating_sub(by_reading).max(first));
    }

    fn take(&mut self, earned: u64, unearned: u64) {
        if let Some(shared) = &self.shared {
            add(&shared.earned, earned, self.earned);
            add(&shared.unearned, unearned, self.unearned);
            self.earned = earned;
            self.unearned = unearned;
        }
    }

    /// Promises count in full, however little of them has arrived. What is held takes some more
    /// than its bytes.
    fn size(&self) -> u64 {
        self.promised.max(self.held)
    }

    /// What the connection may take beyond its base because it has earned `earned` bytes. What it
    /// was given is not taken back.
    fn earnable(&self, earned: u64) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            let part = (shared.free() + self.earned) / 2;
            part.min(earned).max(self.earned)
        })
    }

    /// The window that the connection may promise if it has earned `earned` bytes.
    pub(super) fn window(&self, earned: u64) -> u64 {
        self.base.saturating_add(self.earnable(earned))
    }

    /// What it may promise in addition for data that is not read.
    pub(super) fn for_unread(&self) -> u64 {
        self.part_of_unearned().max(self.own_unearned())
    }

    /// What it has of the part for what was not earned, beyond its base.
    fn own_unearned(&self) -> u64 {
        let first = self.base.saturating_sub(FLOOR);
        self.unearned.saturating_sub(first)
    }

    /// As much of that as it leaves to the others.
    fn part_of_unearned(&self) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            (shared.free_unearned() + self.own_unearned()) / 2
        })
    }

    /// True if the connection shares memory with others.
    pub(super) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// True if the connection holds all the memory that it may.
    pub(super) fn is_out(&self, earned: u64) -> bool {
        let window = self.window(earned);
        self.is_shared() && self.held > window.saturating_add(self.part_of_unearned())
    }
}

/// `to` has `new` where it had `old`. Wraps to a subtraction where the new value is lower.
fn add(to: &AtomicU64, new: u64, old: u64) {
    if new != old {
        to.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.take(0, 0);
        if let Some(shared) = &self.shared {
            add(&shared.held, 0, self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A connection that wants `wanted` bytes at first.
    fn account(memory: &Arc<ReceiveMemory>, wanted: u64) -> MemoryAccount {
        let mut account = MemoryAccount::default();
        account.share(Arc::clone(memory), memory.first_promise(wanted));
        account
    }

    #[test]
    fn many_leave_something_for_one_more_and_give_all_back() {
        let shared = Arc::new(ReceiveMemory::new(512 * MIB));
        let mut accounts = Vec::new();
        for n in 0..200 {
            let mut account = account(&shared, 24 * MIB);
            assert!(account.base >= FLOOR && (n > 0 || account.base > 13 * MIB));
            // As much unread data as it can get.
            let most = account.window(0) + account.for_unread();
            account.promise(most, 0);
            accounts.push(account);
        }
        assert!(shared.taken() <= 128 * MIB, "{}", shared.taken());
        // One whose application reads has what the others have not.
        let mut reader = account(&shared, 24 * MIB);
        assert!(reader.base < FLOOR + 4096);
        assert_eq!(reader.window(120 * MIB), reader.base + 120 * MIB);
        assert!(reader.window(500 * MIB) > 190 * MIB);
        let window = reader.window(500 * MIB);
        reader.promise(window, 500 * MIB);
        // It keeps that although it reads no more, and others get half of the rest at most.
        assert_eq!(reader.window(0), window);
        let other = account(&shared, 24 * MIB);
        assert!((90 * MIB..100 * MIB).contains(&other.window(500 * MIB)));
        reader.promise(FLOOR, 0);
        assert_eq!(reader.window(0), reader.base);
        accounts.push(reader);
        accounts.push(other);
        drop(accounts);
        assert_eq!((shared.held(), shared.taken()), (0, 0));
    }

    #[test]
    fn each_has_a_little_however_short_memory_is() {
        let shared = Arc::new(ReceiveMemory::new(0));
        let mut account = account(&shared, 24 * MIB);
        assert_eq!((account.base, account.window(MIB)), (FLOOR, FLOOR));
        assert_eq!(account.for_unread(), 0);
        account.change(0, FLOOR as usize, 0);
        assert!(!account.is_out(0));
        account.change(0, 1, 0);
        assert!(account.is_out(0));
    }

    /// Little data may take more memory than its bytes, and other things take some as well.
    #[test]
    fn what_is_held_counts_where_it_exceeds_the_promise() {
        let shared = Arc::new(ReceiveMemory::new(512 * MIB));
        let mut account = account(&shared, FLOOR);
        account.change(0, 60_000, 0);
        assert_eq!((shared.held(), shared.taken()), (60_000, 0));
        account.change(0, 100_000, 0);
        assert_eq!(shared.taken(), 160_000 - FLOOR);
        account.change(160_000, 0, 0);
        assert_eq!((shared.held(), shared.taken()), (0, 0));
    }

    #[test]
    fn an_account_of_its_own_knows_no_bound() {
        let mut account = MemoryAccount::default();
        account.change(0, 1 << 40, 0);
        assert!(!account.is_out(0));
        assert_eq!(
            (account.window(0), account.for_unread()),
            (u64::MAX, u64::MAX)
        );
    }
}
