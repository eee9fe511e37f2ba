//! A trial of delay: does the queue go when we send less?
//!
//! A queue that this sender keeps full drains when it sends less. Jitter, a longer route and the
//! queues of other flows do not change.

use crate::base::arith::{mul_div, nanos};
use crate::base::{Duration, Instant};

/// What of the rate before remains.
const SHARE: (u64, u64) = (85, 100);
/// The path shows the pace after this many round trips, and the look takes as many more.
const SETTLE_ROUNDS: u32 = 2;
/// This sender's queue drains by 15 % of two round trips until the middle of the look; half of that
/// is proof enough.
const PROOF: (u64, u64) = (15, 100);
/// Samples of a look, and the round trips after which it ends without them.
const LEAST_SAMPLES: u64 = 4;
const MOST_ROUNDS: u32 = 12;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayVerdict {
    /// The queue went with the rate.
    Hidden,
    /// This much delay, in ns, stands at any rate.
    Normal(u64),
}

/// A running trial.
#[derive(Clone, Debug)]
pub(crate) struct DelayTrial {
    /// Mean delay before, in ns.
    before: u64,
    pace: u64,
    settled_at: Instant,
    ends: Instant,
    gives_up: Instant,
    sum: u64,
    samples: u64,
}

impl DelayTrial {
    /// `before` is the mean delay in ns while `sent` bytes per second were sent; no less than
    /// `least` bytes per second will be.
    pub(crate) fn new(now: Instant, before: u64, sent: u64, least: u64, srtt: Duration) -> Self {
        let settled_at = now + srtt * SETTLE_ROUNDS;
        Self {
            before,
            pace: mul_div(sent, SHARE.0, SHARE.1).max(least),
            settled_at,
            ends: settled_at + srtt * SETTLE_ROUNDS,
            gives_up: now + srtt * MOST_ROUNDS,
            sum: 0,
            samples: 0,
        }
    }

    /// Bytes per second that may be sent.
    pub(crate) const fn pace(&self) -> u64 {
        self.pace
    }

    /// A packet queued for `delay` ns.
    pub(crate) fn on_delay(&mut self, now: Instant, delay: u64) {
        if now >= self.settled_at {
            self.sum = self.sum.saturating_add(delay);
            self.samples += 1;
        }
    }

    /// `None`: it goes on.
    pub(crate) fn judge(&self, now: Instant, srtt: Duration) -> Option<DelayVerdict> {
        if now < self.ends || (self.samples < LEAST_SAMPLES && now < self.gives_up) {
            return None;
        }
        if self.samples == 0 {
            return Some(DelayVerdict::Normal(self.before));
        }
        let mean = self.sum / self.samples;
        let proof = mul_div(nanos(srtt), PROOF.0, PROOF.1).min(self.before / 2);
        Some(if self.before.saturating_sub(mean) >= proof.max(1) {
            DelayVerdict::Hidden
        } else {
            DelayVerdict::Normal(mean)
        })
    }
}
