//! How far each flow is, seen from outside while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One flow's progress at the receiver's application.
#[derive(Debug)]
pub struct Meter {
    /// Nothing before the flow begins.
    begun: OnceLock<Instant>,
    wanted: u64,
    delivered: AtomicU64,
    /// Offset from `begun`; nothing before the first byte.
    last: AtomicU64,
    finished: OnceLock<Duration>,
}

impl Meter {
    /// A flow of `wanted` bytes that has not begun.
    #[must_use]
    pub fn new(wanted: u64) -> Self {
        Self {
            begun: OnceLock::new(),
            wanted,
            delivered: AtomicU64::new(0),
            last: AtomicU64::new(0),
            finished: OnceLock::new(),
        }
    }

    /// The flow begins at `at`: what comes from here on counts, and what it took to prepare files
    /// and hosts does not. Only the first call counts.
    pub fn begin(&self, at: Instant) {
        let _ = self.begun.set(at);
    }

    /// When it began, if it has.
    #[must_use]
    pub fn begun(&self) -> Option<Instant> {
        self.begun.get().copied()
    }

    /// Counts delivered bytes.
    pub fn add(&self, bytes: u64) {
        let elapsed = self.begun().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.add_at(bytes, elapsed);
    }

    /// Counts bytes delivered this long after the flow's begin.
    pub fn add_at(&self, bytes: u64, elapsed: Duration) {
        let total = self.delivered.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.last.store(nanos, Ordering::Relaxed);
        if total >= self.wanted {
            // Only the first time counts.
            let _ = self.finished.set(elapsed);
        }
    }

    /// Bytes so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Bytes in all.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// When the last of all bytes came, counted from the flow's begin.
    #[must_use]
    pub fn completion(&self) -> Option<Duration> {
        self.finished.get().copied()
    }

    /// Delivered bits per second up to the last byte that came.
    #[must_use]
    pub fn goodput_bps(&self) -> f64 {
        let seconds = self.last.load(Ordering::Relaxed) as f64 * 1e-9;
        if seconds > 0.0 {
            self.delivered() as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}
