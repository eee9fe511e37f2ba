//! Limits the memory that received data can use, over all connections of an endpoint.
//!
//! A connection must keep everything that its peer sends within its promise. Therefore, the
//! limit applies to the promises of all connections instead of the bytes that have arrived.
//! Each connection has a *base*, the initial promise, whose size depends on the number of other
//! connections. It *earns* more when its application reads: several round trips' worth, like
//! its window. Data that nobody reads uses a separate *unearned* part of the memory.
//!
//! From both parts, a connection may take as much as it leaves for the others, so something
//! always remains for one more connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum that every connection may promise, bytes.
pub(super) const FLOOR: u64 = 64 * 1024;

/// The unearned part is the whole divided by this.
const UNEARNED_SHARE: u64 = 4;

/// A new connection may take the free unearned part divided by this. Of the default of 512 MiB,
/// the first two connections may promise 24 MiB each, and the next ten 6 MiB each.
const FIRST_SHARE: u64 = 4;

/// If a new connection can't have the promise it wants, the promise is divided by this until it
/// fits. Such steps keep promises mostly constant while the number of connections grows.
/// Otherwise, a server would often have to reject early data from clients with larger
/// remembered limits (RFC 9000 §7.4.1).
const STEP: u64 = 4;

/// Memory for received data that connections share. In total they use at most `limit` bytes,
/// plus 64 KiB each.
#[derive(Debug)]
pub struct ReceiveMemory {
    limit: AtomicU64,
    /// The part that connections can use without having earned it.
    pool: AtomicU64,
    held: AtomicU64,
    /// Bytes that connections have taken beyond their minimum.
    earned: AtomicU64,
    unearned: AtomicU64,
}

impl ReceiveMemory {
    /// Creates a memory of `limit` bytes, a quarter of which connections can use without having
    /// earned it.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            pool: AtomicU64::new(limit / UNEARNED_SHARE),
            held: AtomicU64::new(0),
            earned: AtomicU64::new(0),
            unearned: AtomicU64::new(0),
        }
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit. Earlier promises remain valid.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.set_pool(limit / UNEARNED_SHARE);
    }

    /// Sets how many bytes connections can use without having earned them. A larger part is
    /// useful for trusted peers that leave data unread on some streams while using others.
    pub fn set_pool(&self, bytes: u64) {
        self.pool.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of memory in use.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the bytes that connections have taken beyond their minimum, by promises or by
    /// buffered data.
    pub fn taken(&self) -> u64 {
        let earned = self.earned.load(Ordering::Relaxed);
        earned + self.unearned.load(Ordering::Relaxed)
    }

    /// Returns the initial promise for a new connection that wants `wanted` bytes.
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

/// The share of one connection, which it returns when dropped.
#[derive(Debug, Default)]
pub(super) struct MemoryAccount {
    /// `None`: only flow control limits the connection.
    shared: Option<Arc<ReceiveMemory>>,
    /// The initial promise.
    base: u64,
    held: u64,
    /// Bytes that the peer may still send or that aren't read yet, as counted by flow control.
    promised: u64,
    /// Bytes taken from the shared memory beyond the minimum, by reading and otherwise.
    earned: u64,
    unearned: u64,
}

impl MemoryAccount {
    /// Starts sharing `memory`. `promised` is the credit that the peer already has.
    pub(super) fn share(&mut self, memory: Arc<ReceiveMemory>, promised: u64) {
        self.take(0, 0);
        self.base = promised.max(FLOOR);
        self.shared = Some(memory);
        self.promise(promised, 0);
    }

    /// Records that a part of the connection now holds `after` bytes instead of `before`. The
    /// connection has earned `earned` in total.
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

    /// Records that the peer may have `promised` bytes here, not counting those that were read.
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
        // The connection keeps its base even while it promises less.
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

    /// Promises count in full, however few of their bytes have arrived. Buffered data takes
    /// slightly more memory than its length.
    fn size(&self) -> u64 {
        self.promised.max(self.held)
    }

    /// Returns the bytes that the connection may take beyond its base, given that it earned
    /// `earned` bytes. Bytes already taken aren't revoked.
    fn earnable(&self, earned: u64) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            let part = (shared.free() + self.earned) / 2;
            part.min(earned).max(self.earned)
        })
    }

    /// Returns the window that the connection may promise if it has earned `earned` bytes.
    pub(super) fn window(&self, earned: u64) -> u64 {
        self.base.saturating_add(self.earnable(earned))
    }

    /// Returns the bytes that it may promise in addition for unread data.
    pub(super) fn for_unread(&self) -> u64 {
        self.part_of_unearned().max(self.own_unearned())
    }

    /// Returns its bytes of the unearned part, beyond its base.
    fn own_unearned(&self) -> u64 {
        let first = self.base.saturating_sub(FLOOR);
        self.unearned.saturating_sub(first)
    }

    /// Returns as much of the unearned part as it leaves to the others.
    fn part_of_unearned(&self) -> u64 {
        self.shared.as_ref().map_or(u64::MAX, |shared| {
            (shared.free_unearned() + self.own_unearned()) / 2
        })
    }

    pub(super) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns true if the connection uses all the memory that it may.
    pub(super) fn is_out(&self, earned: u64) -> bool {
        let window = self.window(earned);
        self.is_shared() && self.held > window.saturating_add(self.part_of_unearned())
    }
}

/// Replaces `old` by `new` in the sum `to`. If the new value is lower, this wraps to a
/// subtraction.
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

    /// A connection that initially wants `wanted` bytes.
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
        // A connection whose application reads gets the memory that the others don't have.
        let mut reader = account(&shared, 24 * MIB);
        assert!(reader.base < FLOOR + 4096);
        assert_eq!(reader.window(120 * MIB), reader.base + 120 * MIB);
        assert!(reader.window(500 * MIB) > 190 * MIB);
        let window = reader.window(500 * MIB);
        reader.promise(window, 500 * MIB);
        // It keeps this memory although it reads no more, and others get at most half of the
        // rest.
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

    /// A few bytes may take more memory than their length, and so may other data.
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
        assert_eq!(account.window(0), u64::MAX);
        assert_eq!(account.for_unread(), u64::MAX);
    }
}
