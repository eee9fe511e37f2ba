//! The persistent queue, which does not drain within about half a round trip.

use crate::base::Instant;
use crate::base::arith::{mul_div, nanos, ns_since};
use crate::xcp::params::LEAST_QUEUE_INTERVAL;

/// Measures the minimum length of the queue per observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandingQueue {
    bytes: u64,
    least: u64,
    /// End of the current observation.
    due: Instant,
}

/// Length of one observation in ns: half of the rest of the mean RTT once the queue has drained,
/// and at least 2 ms.
pub(crate) fn look_ns(mean_rtt_us: u64, queue: u64, capacity: u64) -> u64 {
    let draining = mul_div(queue, 1_000_000_000, capacity);
    let left = mean_rtt_us.saturating_mul(1_000).saturating_sub(draining);
    (left / 2).max(nanos(LEAST_QUEUE_INTERVAL))
}

impl StandingQueue {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            bytes: 0,
            least: u64::MAX,
            due: now,
        }
    }

    /// Bytes that did not drain during the last observation.
    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn sample(&mut self, now: Instant, queue: u64, mean_rtt_us: u64, capacity: u64) {
        self.least = self.least.min(queue);
        if now >= self.due {
            self.turn(now, queue, mean_rtt_us, capacity);
        }
    }

    #[cold]
    fn turn(&mut self, now: Instant, queue: u64, mean_rtt_us: u64, capacity: u64) {
        let look = look_ns(mean_rtt_us, queue, capacity);
        // After a pause, the minimum length is from the time before the pause.
        let paused = ns_since(now, self.due) > look;
        self.bytes = if paused { queue } else { self.least };
        self.least = queue;
        self.due = now + core::time::Duration::from_nanos(look);
    }
}
