//! Rights and budgets of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pace::Pace;
use crate::plan::Rules;

/// Rights and budgets of a client. Connections of the client share it.
#[derive(Debug)]
pub struct Grant {
    /// The name of the client, to which its unfinished uploads belong; empty for all clients that
    /// the program does not tell apart.
    pub name: String,
    /// Rules for its requests.
    pub rules: Rules,
    /// The rate of content in both directions together.
    pub pace: Option<Pace>,
    /// Bytes that the client may have stored.
    pub quota: Option<Quota>,
}

/// A number of bytes that files may have together.
#[derive(Debug)]
pub struct Quota {
    most: u64,
    /// Bytes of files, and bytes that requests under way have reserved.
    used: AtomicU64,
}

/// Bytes of a quota for a file that arrives. They are free again when this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    grant: Arc<Grant>,
    bytes: u64,
}

impl Grant {
    /// One without limits of its own.
    #[must_use]
    pub const fn of(rules: Rules) -> Self {
        Self {
            name: String::new(),
            rules,
            pace: None,
            quota: None,
        }
    }

    /// Reserves `bytes`; none if the quota has less.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut reservation = Reservation {
            grant: Arc::clone(self),
            bytes: 0,
        };
        reservation.grow_to(bytes).then_some(reservation)
    }

    /// Files of this number of bytes are gone.
    pub(super) fn release(&self, bytes: u64) {
        if let Some(quota) = &self.quota {
            quota.give(bytes);
        }
    }
}

impl Reservation {
    /// Reserves more, up to `bytes`; false if the quota has less.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = match &self.grant.quota {
            Some(quota) => quota.take(more),
            None => true,
        };
        if fits {
            self.bytes = self.bytes.max(bytes);
        }
        fits
    }

    /// A file has `bytes` of what was reserved; the rest is free again.
    pub(super) fn keep(mut self, bytes: u64) {
        let rest = std::mem::take(&mut self.bytes).saturating_sub(bytes);
        self.grant.release(rest);
    }

    /// Ends the reservation, and returns `bytes` of removed files to the quota.
    pub(super) fn release(self, bytes: u64) {
        self.grant.release(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.grant.release(self.bytes);
    }
}

impl Quota {
    /// A quota of `most` bytes, of which files have `used` now.
    #[must_use]
    pub const fn new(most: u64, used: u64) -> Self {
        Self {
            most,
            used: AtomicU64::new(used),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| {
            let sum = used.saturating_add(bytes);
            (bytes == 0 || sum <= self.most).then_some(sum)
        };
        let order = Ordering::Relaxed;
        self.used.fetch_update(order, order, more).is_ok()
    }

    fn give(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        // It always changes.
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64, used: u64) -> Arc<Grant> {
        Arc::new(Grant {
            quota: Some(Quota::new(most, used)),
            ..Grant::of(Rules::default())
        })
    }

    #[test]
    fn what_is_reserved_is_free_again_or_kept() {
        let grant = limited(100, 40);
        assert!(grant.reserve(61).is_none() && grant.reserve(u64::MAX).is_none());
        let first = grant.reserve(50).unwrap();
        assert!(grant.reserve(11).is_none());
        drop(first);
        let mut second = grant.reserve(0).unwrap();
        assert!(second.grow_to(30) && second.grow_to(60) && !second.grow_to(61));
        second.keep(10);
        assert!(grant.reserve(51).is_none());
        grant.release(50);
        drop(grant.reserve(100).unwrap());
        let free = Arc::new(Grant::of(Rules::default()));
        assert!(free.reserve(u64::MAX).is_some());
        // A quota that is exceeded already takes an empty file.
        assert!(limited(10, 40).reserve(0).is_some());
    }

    #[test]
    fn of_many_at_once_only_as_many_as_fit_are_taken() {
        let grant = limited(1000, 0);
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let held = (0..100).map(|_| grant.reserve(7));
                        held.flatten().collect::<Vec<_>>()
                    })
                })
                .collect();
            let held: Vec<_> = takers
                .into_iter()
                .flat_map(|taker| taker.join().unwrap())
                .collect();
            held.len()
        });
        assert_eq!(taken, 142);
        assert!(grant.reserve(1000).is_some());
    }
}
