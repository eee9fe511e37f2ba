//! Queues that no router announces, as delay shows them.
//!
//! A queue shows in the delay on the way to the receiver, where the peer reports its clock, else in
//! the RTT. The RTT alone would count a queue on the way back, which this sender does not cause, as
//! one ahead.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Delay that counts as queueing: a quarter of the least RTT, and a millisecond more, so that
/// jitter on short paths does not.
const SLACK: Duration = Duration::from_millis(1);
/// Samples in a row that show a queue before MI stops.
const QUEUEING_RUN: u8 = 8;

/// True if packets that were queued for so long show a queue.
#[inline]
fn is_queue(queued_ns: u64, min_rtt: Duration) -> bool {
    queued_ns.saturating_sub(nanos(SLACK)).saturating_mul(4) > nanos(min_rtt)
}

/// Watches delays.
#[derive(Clone, Debug)]
pub(crate) struct DelayWatch {
    round_since: Instant,
    /// Least delay in queues.
    round_min: Duration,
    /// The peer reports its clock.
    clock_reported: bool,
    /// The delay in queues in nanoseconds, smoothed as the RTT is (RFC 9002 §5.3).
    smoothed: Option<u64>,
    /// How much longer the way back takes than it did once, if that is a queue, and up to the least
    /// RTT.
    behind: Duration,
    /// Samples in a row that show a queue.
    delayed_run: u8,
    /// The least delay of the last whole round shows a queue.
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

    /// True while samples in a row show a queue.
    #[inline]
    pub(crate) const fn is_queueing(&self) -> bool {
        self.delayed_run >= QUEUEING_RUN
    }

    /// True if the least delay of the last whole round shows a queue.
    pub(crate) const fn is_delayed(&self) -> bool {
        self.delayed
    }

    /// The queue on the way back: it is part of every round trip, and this sender does not cause
    /// it.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.behind
    }

    /// An acknowledgement came: for how long its packet queued, and whether a round trip is over.
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

    /// For how long the acknowledged packet queued. A peer that reports its clock does not with
    /// every acknowledgement; RTTs in between are no substitute.
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
        // Where nothing was measured, nothing has changed.
        if self.round_min < Duration::MAX {
            self.delayed = is_queue(nanos(self.round_min), min_rtt);
        }
        self.round_since = now;
        self.round_min = Duration::MAX;
        let ahead = Duration::from_nanos(self.smoothed.unwrap_or(0));
        let behind = srtt.saturating_sub(min_rtt).saturating_sub(ahead);
        // A bloated way back must not slow down everybody at a router: no more than as much again.
        self.behind = if self.clock_reported && is_queue(nanos(behind), min_rtt) {
            behind.min(min_rtt)
        } else {
            Duration::ZERO
        };
    }
}
