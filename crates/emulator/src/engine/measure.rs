//! Rates, times and queues in the units of results, and time-weighted means.

use pathmark_cc::Instant;
use pathmark_link::Summary;

use crate::result::{MeanMax, QueueStats};

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

/// A value over time, with its time-weighted mean and its maximum. It takes only 48 bytes, because
/// unlike a [`Gauge`](pathmark_link::Gauge) it has no quantiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    start: Instant,
    since: Instant,
    value: u64,
    max: u64,
    /// Integral of the value over nanoseconds.
    area: u128,
}

impl Average {
    /// Starts with `value` at `now`.
    pub(super) fn new(now: Instant, value: u64) -> Self {
        Self {
            start: now,
            since: now,
            value,
            max: value,
            area: 0,
        }
    }

    /// Sets the value from `now` on.
    pub(super) fn set(&mut self, now: Instant, value: u64) {
        if value == self.value {
            return;
        }
        let elapsed = now.as_nanos().saturating_sub(self.since.as_nanos());
        self.area += u128::from(self.value) * u128::from(elapsed);
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Mean and maximum up to `now`.
    pub(super) fn summary(&self, now: Instant) -> MeanMax {
        let pending = now.as_nanos().saturating_sub(self.since.as_nanos());
        let area = self.area + u128::from(self.value) * u128::from(pending);
        let total = now.as_nanos().saturating_sub(self.start.as_nanos());
        // In thousandths as integers, so that rounding is the same on every machine.
        let milli = (area * 1000).checked_div(u128::from(total));
        MeanMax {
            mean: milli.map_or(self.value as f64, |milli| milli as f64 / 1000.0),
            max: self.max as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighs_by_time() {
        let mut average = Average::new(Instant::from_millis(10), 100);
        average.set(Instant::from_millis(40), 400);
        average.set(Instant::from_millis(50), 0);
        let MeanMax { mean, max } = average.summary(Instant::from_millis(110));
        // 100 for 30 ms, 400 for 10 ms, 0 for 60 ms.
        assert!((mean - 70.0).abs() < 1e-9 && (max - 400.0).abs() < 1e-9);
        let none = Average::new(Instant::ZERO, 5).summary(Instant::ZERO);
        assert!((none.mean - 5.0).abs() < 1e-9);
    }
}
