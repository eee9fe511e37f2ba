//! Rates, times and queues in the units of results.

use pathmark_cc::Instant;
use pathmark_link::Summary;

use crate::result::QueueStats;

/// Bits per second for `bytes` between two times; 0 if no time passes.
pub(super) fn goodput(bytes: u64, start: Instant, end: Instant) -> f64 {
    per_second(bytes, start, end) * 8.0
}

/// Events per second for `count` events between two times; 0 if no time passes.
pub(super) fn per_second(count: u64, start: Instant, end: Instant) -> f64 {
    let nanos = end.as_nanos().saturating_sub(start.as_nanos());
    if nanos == 0 {
        0.0
    } else {
        count as f64 * 1e9 / nanos as f64
    }
}

/// A queue's statistics divided by `unit`.
pub(super) fn queue_stats(summary: &Summary, unit: f64) -> QueueStats {
    QueueStats {
        mean: summary.mean_milli as f64 / 1e3 / unit,
        mean_nonempty: summary.mean_nonempty_milli as f64 / 1e3 / unit,
        p99: summary.p99 as f64 / unit,
        max: summary.max as f64 / unit,
    }
}

/// Seconds since the start of the run.
pub(super) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
