//! Counts an origin's requests and their ends.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of an origin.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) broken_off: AtomicU64,
}

/// Request counts since an origin began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests, including those whose header section failed to arrive.
    pub requests: u64,
    /// Requests answered with status 400 or above.
    pub refused: u64,
    /// Requests that made no progress within a time limit.
    pub timed_out: u64,
    /// Requests whose stream or connection failed, or whose file changed during the response.
    pub broken_off: u64,
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: value(&self.requests),
            refused: value(&self.refused),
            timed_out: value(&self.timed_out),
            broken_off: value(&self.broken_off),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
