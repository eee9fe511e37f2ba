//! Detection of queues by delay, which no router announces.
//!
//! The delay on the way to the receiver is used if the peer reports its clock, and the RTT
//! otherwise. The RTT doesn't distinguish a queue on the way back, which this sender doesn't cause,
//! from one ahead.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Delay counts as queueing if it exceeds a quarter of the minimum RTT by this, so that jitter on
/// short paths doesn't count.
const SLACK: Duration = Duration::from_millis(1);
/// Consecutive samples that must show a queue before multiplicative increase stops.
const QUEUEING_RUN: u8 = 8;

#[inline]
fn is_queue(queued_ns: u64, min_rtt: Duration) -> bool {
    queued_ns.saturating_sub(nanos(SLACK)).saturating_mul(4) > nanos(min_rtt)
}

#[derive(Clone, Debug)]
pub(crate) struct DelayWatch {
    round_since: Instant,
    round_min: Duration,
    clock_reported: bool,
    /// Queueing delay in nanoseconds, smoothed like the RTT (RFC 9002 §5.3).
    smoothed: Option<u64>,
    /// Queueing delay on the way back, at most the minimum RTT; zero if it's too short to be a
    /// queue.
    behind: Duration,
    delayed_run: u8,
    /// True if the minimum delay of the previous round trip shows a queue.
    delayed: bool,
}

impl DelayWatch {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            round_since: now,
            round_min: Duration::MAX,
            clock_reported: false,
            smoothed: None,
            behind: Duration::ZERO,
            delayed_run: 0,
            delayed: false,
        }
    }

    /// Returns true if the latest consecutive samples show a queue.
    #[inline]
    pub(crate) const fn is_queueing(&self) -> bool {
        self.delayed_run >= QUEUEING_RUN
    }

    /// Returns true if the minimum delay of the previous round trip shows a queue.
    pub(crate) const fn is_delayed(&self) -> bool {
        self.delayed
    }

    /// Returns the queueing delay on the way back. It is part of every RTT, although this sender
    /// doesn't cause it.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.behind
    }

    /// Handles an acknowledgement. Returns its packet's queueing delay in nanoseconds, and whether
    /// a round trip is over.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, acked: &Acked) -> (Option<u64>, bool) {
        let queued = self.queued(acked);
        if let Some(queued) = queued {
            self.round_min = self.round_min.min(queued);
            let queued_ns = nanos(queued);
            self.smoothed = Some(match self.smoothed {
                Some(old) => old - old / 8 + queued_ns / 8,
                None => queued_ns,
            });
            if is_queue(queued_ns, acked.min_rtt) {
                self.delayed_run = self.delayed_run.saturating_add(1);
            } else {
                self.delayed_run = 0;
                self.delayed = false;
            }
        }
        let over = ns_since(now, self.round_since) >= nanos(acked.srtt);
        if over {
            self.end_round(now, acked.srtt, acked.min_rtt);
        }
        (queued.map(nanos), over)
    }

    /// Returns the acknowledged packet's queueing delay. A peer that reports its clock doesn't do
    /// so with every acknowledgement, but RTTs in between aren't a substitute.
    fn queued(&mut self, acked: &Acked) -> Option<Duration> {
        self.clock_reported |= acked.forward_delay.is_some();
        if self.clock_reported {
            acked.forward_delay
        } else {
            acked.rtt.map(|rtt| rtt.saturating_sub(acked.min_rtt))
        }
    }

    #[cold]
    fn end_round(&mut self, now: Instant, srtt: Duration, min_rtt: Duration) {
        // Without a measurement, keep the previous result.
        if self.round_min < Duration::MAX {
            self.delayed = is_queue(nanos(self.round_min), min_rtt);
        }
        self.round_since = now;
        self.round_min = Duration::MAX;
        let ahead = Duration::from_nanos(self.smoothed.unwrap_or(0));
        let behind = srtt.saturating_sub(min_rtt).saturating_sub(ahead);
        // A bloated way back must not slow down all flows at a router, so it's limited to the
        // minimum RTT.
        self.behind = if self.clock_reported && is_queue(nanos(behind), min_rtt) {
            behind.min(min_rtt)
        } else {
            Duration::ZERO
        };
    }
}
