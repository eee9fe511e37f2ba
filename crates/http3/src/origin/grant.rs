//! Rights and budgets of a client.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pace::Pace;
use crate::plan::Rules;

/// Rights and budgets of a client. Connections of the client share it.
#[derive(Debug)]
pub struct Grant {
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
    used: AtomicU64,
}

impl Grant {
    /// One without limits of its own.
    #[must_use]
    pub const fn of(rules: Rules) -> Self {
        Self {
            rules,
            pace: None,
            quota: None,
        }
    }

    /// True if the client may store `bytes` more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.quota
            .as_ref()
            .is_none_or(|quota| quota.has_room(bytes))
    }

    /// A file of `bytes` has taken the place of one of `before` bytes.
    pub(super) fn count(&self, bytes: u64, before: u64) {
        if let Some(quota) = &self.quota {
            quota.count(bytes, before);
        }
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

    fn has_room(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        used.saturating_add(bytes) <= self.most
    }

    fn count(&self, bytes: u64, before: u64) {
        let change = |used: u64| Some(used.saturating_sub(before).saturating_add(bytes));
        // It always changes.
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_what_is_replaced() {
        let quota = Quota::new(100, 40);
        assert!(quota.has_room(60) && !quota.has_room(61) && !quota.has_room(u64::MAX));
        quota.count(60, 0);
        assert!(quota.has_room(0) && !quota.has_room(1));
        quota.count(10, 60);
        assert!(quota.has_room(50) && !quota.has_room(51));
        quota.count(0, 1000);
        assert!(quota.has_room(100));
        let free = Grant::of(Rules::default());
        assert!(free.has_room(u64::MAX));
    }
}
