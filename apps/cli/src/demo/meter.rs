//! Tracks the progress of each flow while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pathmark_emulator::result::FlowResult;

use crate::report::SenderReport;

/// A flow's progress at the receiver's application.
#[derive(Debug)]
pub struct Meter {
    /// Unset before the flow begins.
    begun: OnceLock<Instant>,
    wanted: u64,
    delivered: AtomicU64,
    /// Time of the last byte since `begun`, in nanoseconds.
    last: AtomicU64,
    finished: OnceLock<Duration>,
}

impl Meter {
    /// Creates a meter for `wanted` bytes of a flow that has not begun.
    pub fn new(wanted: u64) -> Self {
        Self {
            begun: OnceLock::new(),
            wanted,
            delivered: AtomicU64::new(0),
            last: AtomicU64::new(0),
            finished: OnceLock::new(),
        }
    }

    /// Begins the flow at `at`, so that preparing files and hosts doesn't count. Only the first
    /// call has an effect.
    pub fn begin(&self, at: Instant) {
        let _ = self.begun.set(at);
    }

    /// Returns when it began, if it has.
    pub fn begun(&self) -> Option<Instant> {
        self.begun.get().copied()
    }

    /// Counts delivered bytes.
    pub fn add(&self, bytes: u64) {
        let elapsed = self.begun().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.add_at(bytes, elapsed);
    }

    /// Counts bytes delivered this long after the flow began.
    pub fn add_at(&self, bytes: u64, elapsed: Duration) {
        let total = self.delivered.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.last.store(nanos, Ordering::Relaxed);
        if total >= self.wanted {
            // Only the first call has an effect.
            let _ = self.finished.set(elapsed);
        }
    }

    /// Returns the delivered bytes so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Returns the total number of bytes.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns the time from the flow's beginning until all bytes were delivered.
    pub fn completion(&self) -> Option<Duration> {
        self.finished.get().copied()
    }

    /// Returns what it measured, with the sender's report if there is one.
    pub(super) fn result(&self, report: Option<&SenderReport>) -> FlowResult {
        FlowResult {
            bytes_delivered: self.delivered(),
            completed: self.completion().is_some(),
            completion_s: self.completion().map(|taken| taken.as_secs_f64()),
            goodput_bps: self.goodput_bps(),
            packets_lost: report.map(|report| report.packets_lost),
            rtt_ms: report.map(|report| report.rtt_ms),
            ..FlowResult::default()
        }
    }

    /// Returns the delivered bits per second until the last byte so far.
    pub fn goodput_bps(&self) -> f64 {
        let seconds = self.last.load(Ordering::Relaxed) as f64 * 1e-9;
        if seconds > 0.0 {
            self.delivered() as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}
