//! Rights and budgets of a client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub quota: Option<Arc<Quota>>,
}

/// A number of bytes that files may have together.
#[derive(Debug)]
pub struct Quota(Mutex<Budget>);

#[derive(Debug)]
struct Budget {
    most: u64,
    /// Bytes of files.
    stored: u64,
    /// Bytes that requests under way have reserved.
    reserved: u64,
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
            quota.remove(bytes);
        }
    }
}

impl Reservation {
    /// Reserves more, up to `bytes`; false if the quota has less.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = match &self.grant.quota {
            Some(quota) => quota.reserve(more),
            None => true,
        };
        if fits {
            self.bytes = self.bytes.max(bytes);
        }
        fits
    }

    /// A file has `bytes` of what was reserved; the rest is free again.
    pub(super) fn keep(mut self, bytes: u64) {
        self.end(bytes);
    }

    /// Ends the reservation, and returns `bytes` of removed files to the quota.
    pub(super) fn release(self, bytes: u64) {
        self.grant.release(bytes);
    }

    /// Ends the reservation: `stored` bytes of it are those of a file.
    fn end(&mut self, stored: u64) {
        let reserved = std::mem::take(&mut self.bytes);
        if let Some(quota) = &self.grant.quota {
            quota.settle(reserved, stored.min(reserved));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(0);
    }
}

impl Quota {
    /// A quota of `most` bytes, of which files have `stored` now.
    #[must_use]
    pub const fn new(most: u64, stored: u64) -> Self {
        Self(Mutex::new(Budget {
            most,
            stored,
            reserved: 0,
        }))
    }

    /// Takes over the limit of another quota, and the bytes that it counted. While requests are
    /// under way, this quota's own number stays: their files may be counted in part.
    pub fn renew(&self, counted: &Self) {
        let (most, stored) = {
            let counted = counted.budget();
            (counted.most, counted.stored)
        };
        let mut budget = self.budget();
        budget.most = most;
        if budget.reserved == 0 {
            budget.stored = stored;
        }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, bytes: u64) -> bool {
        let mut budget = self.budget();
        let reserved = budget.reserved.saturating_add(bytes);
        let fits = bytes == 0 || budget.stored.saturating_add(reserved) <= budget.most;
        if fits {
            budget.reserved = reserved;
        }
        fits
    }

    fn settle(&self, reserved: u64, stored: u64) {
        let mut budget = self.budget();
        budget.reserved = budget.reserved.saturating_sub(reserved);
        budget.stored = budget.stored.saturating_add(stored);
    }

    fn remove(&self, bytes: u64) {
        let mut budget = self.budget();
        budget.stored = budget.stored.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64, used: u64) -> Arc<Grant> {
        Arc::new(Grant {
            quota: Some(Arc::new(Quota::new(most, used))),
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
    fn a_later_count_leaves_what_is_reserved() {
        let grant = limited(100, 60);
        let under_way = grant.reserve(10).unwrap();
        let quota = grant.quota.as_ref().unwrap();
        // Five of the ten bytes are on the disk.
        quota.renew(&Quota::new(80, 65));
        assert!(grant.reserve(11).is_none() && grant.reserve(10).is_some());
        under_way.keep(10);
        assert!(grant.reserve(11).is_none() && grant.reserve(10).is_some());
        // The operator removed files.
        quota.renew(&Quota::new(80, 20));
        assert!(grant.reserve(61).is_none() && grant.reserve(60).is_some());
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
