//! A bottleneck that no VCP router announces.
//!
//! Codes describe the VCP routers only. If packets queue or vanish somewhere while every code says LOW, the narrow hop is another one,
//! and MI would drive it into overload. Losses of more than 2 % together with a queue, or a queue that stands for as long
//! as a VCP router may take to say so, hand the window to CUBIC until the path has been calm for a while; each relapse quadruples that while.
//!
//! A queue shows in the delay on the way to the receiver, where the peer tells its clock, else in the RTT. The RTT alone would
//! take a queue on the way back, which is none of this sender's doing, for one ahead.

use crate::arith::{nanos, ns_since};
use crate::{Acked, Duration, Instant};

/// Losses that matter, in 10^-6.
const LOSS_PPM: u64 = 20_000;
/// Delay that counts as queueing: a quarter of the least RTT, and a millisecond more, so that jitter on short paths does not.
const SLACK: Duration = Duration::from_millis(1);
/// Samples in a row that show a queue before MI stops.
const QUEUEING_RUN: u8 = 8;
/// Relapses quadruple the calm time that is asked for so often at most.
const MAX_RELAPSES: u32 = 4;

/// True if packets that were queued for so long show a queue.
#[inline]
fn is_queue(queued_ns: u64, min_rtt: Duration) -> bool {
    queued_ns.saturating_sub(nanos(SLACK)).saturating_mul(4) > nanos(min_rtt)
}

/// What the watch says about MI and about who rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing is wrong.
    Clear,
    /// CUBIC has to take over.
    Appeared,
    /// The path has been calm for long enough.
    Gone,
}

/// Watches RTTs, losses and codes.
#[derive(Clone, Debug)]
pub(crate) struct HiddenBottleneck {
    round_since: Instant,
    /// Least delay in queues.
    round_min: Duration,
    /// The peer tells its clock.
    clock_told: bool,
    /// The delay in queues in nanoseconds, smoothed as the RTT is (RFC 9002 §5.3).
    smoothed: Option<u64>,
    /// How much longer the way back takes than it did once, if that is a queue, and up to the least RTT.
    behind: Duration,
    /// So many samples in a row show a queue.
    delayed_run: u8,
    /// The least delay of the last whole round shows a queue, since then.
    delayed_since: Option<Instant>,
    /// The last time that a router said HIGH or OVER.
    raised: Option<Instant>,
    began: Instant,
    /// CUBIC rules because of this; the time of the last trouble.
    trouble: Option<Instant>,
    relapses: u32,
}

impl HiddenBottleneck {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            round_since: now,
            round_min: Duration::MAX,
            clock_told: false,
            smoothed: None,
            behind: Duration::ZERO,
            delayed_run: 0,
            delayed_since: None,
            raised: None,
            began: now,
            trouble: None,
            relapses: 0,
        }
    }

    /// True while CUBIC rules because of it.
    #[inline]
    pub(crate) const fn rules(&self) -> bool {
        self.trouble.is_some()
    }

    /// True while a queue stands that is not a VCP router's own to announce, as far as one can see yet: no MI then.
    #[inline]
    pub(crate) const fn is_queueing(&self) -> bool {
        self.delayed_run >= QUEUEING_RUN
    }

    /// True if packets have queued lately, wherever on their way.
    pub(crate) fn is_delayed(&self, min_rtt: Duration) -> bool {
        self.smoothed
            .is_some_and(|queued| is_queue(queued, min_rtt))
    }

    /// The queue on the way back, which is part of every round trip of this sender's without being its doing.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.behind
    }

    /// A router said HIGH or OVER.
    #[inline]
    pub(crate) fn on_raised(&mut self, now: Instant) {
        self.raised = Some(now);
    }

    /// An acknowledgement came.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        acked: &Acked,
        t_rho: Duration,
        loss_ppm: impl FnOnce() -> u64,
    ) -> Finding {
        if let Some(queued) = self.queued(acked) {
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
                self.delayed_since = None;
            }
        }
        if ns_since(now, self.round_since) < nanos(acked.srtt) {
            return Finding::Clear;
        }
        self.end_round(now, acked.srtt, acked.min_rtt, t_rho, loss_ppm())
    }

    /// For how long the acknowledged packet queued. A peer that tells its clock does not with every acknowledgement; RTTs in between
    /// are no substitute.
    fn queued(&mut self, acked: &Acked) -> Option<Duration> {
        self.clock_told |= acked.forward_delay.is_some();
        if self.clock_told {
            acked.forward_delay
        } else {
            acked.rtt.map(|rtt| rtt.saturating_sub(acked.min_rtt))
        }
    }

    #[cold]
    fn end_round(
        &mut self,
        now: Instant,
        srtt: Duration,
        min_rtt: Duration,
        t_rho: Duration,
        loss_ppm: u64,
    ) -> Finding {
        if self.round_min == Duration::MAX {
            // Nothing was measured: nothing has changed.
        } else if is_queue(nanos(self.round_min), min_rtt) {
            self.delayed_since.get_or_insert(self.round_since);
        } else {
            self.delayed_since = None;
        }
        self.round_since = now;
        self.round_min = Duration::MAX;
        let ahead = Duration::from_nanos(self.smoothed.unwrap_or(0));
        let behind = srtt.saturating_sub(min_rtt).saturating_sub(ahead);
        // A bloated way back must not slow down everybody at a router: no more than as much again.
        self.behind = if self.clock_told && is_queue(nanos(behind), min_rtt) {
            behind.min(min_rtt)
        } else {
            Duration::ZERO
        };

        let low_since = self.raised.unwrap_or(self.began).max(self.began);
        let lossy = loss_ppm > LOSS_PPM && self.is_delayed(min_rtt);
        let low_now = now - low_since > srtt;
        // A VCP router's own queue shows in its code after an interval and a round trip at the latest.
        let patience = t_rho + srtt + srtt;
        let standing = self
            .delayed_since
            .is_some_and(|since| now - since.max(low_since) > patience);
        match self.trouble {
            None if standing || (lossy && low_now) => {
                self.trouble = Some(now);
                Finding::Appeared
            }
            Some(_) if lossy || self.delayed_since.is_some() => {
                self.trouble = Some(now);
                Finding::Clear
            }
            Some(last) if now - last >= t_rho.saturating_mul(1 << (2 * self.relapses)) => {
                self.trouble = None;
                self.relapses = (self.relapses + 1).min(MAX_RELAPSES);
                self.began = now;
                Finding::Gone
            }
            _ => Finding::Clear,
        }
    }

    /// CUBIC lost packets: not calm yet.
    pub(crate) fn on_loss(&mut self, now: Instant) {
        if let Some(last) = &mut self.trouble {
            *last = now;
        }
    }
}
