//! DualPI2 (RFC 9332, appendix A): two queues, of which one stays short for senders that respond to
//! each CE mark a little, and the other has the delay that Reno and CUBIC need to use a link.
//!
//! The *low-latency queue* takes packets with ECT(1) or CE (RFC 9331 section 5.1), the *classic
//! queue* all others. A PI controller raises one number, p′, while packets wait for longer than a
//! target. Classic packets are dropped, or marked if they are ECT(0), with probability p′², because
//! the rate of their senders falls with the square root of it. Low-latency packets are marked with
//! probability k · p′, so that both kinds of senders get about the same rate although the
//! low-latency queue is served first. It also marks every packet that has waited for longer than a
//! step.
//!
//! If k · p′ reaches 1, because senders don't respond, marks have no further effect. Then both
//! queues drop with probability p′² regardless of ECN.

use pathmark_cc::{Duration, Ecn, Instant};

use super::{Depth, DropTail, FULL_PACKET, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::stats::DropCause;

/// 1, in 2^-32.
const ONE: u64 = 1 << 32;

// The RFC's parameters for paths of up to 100 ms, as Linux rounds them (tc-dualpi2(8)).

/// Time between two changes of p′.
const UPDATE_NANOS: u64 = 16_000_000;
/// Number of changes after which p′ is 0 or 1 whatever it was before. After a pause, no more are
/// made up for.
const MOST_UPDATES: u64 = 1024;
/// Integral and proportional gain, in hundredths per second.
const ALPHA_CENTI: i128 = 16;
const BETA_CENTI: i128 = 320;
/// k: low-latency packets are marked with this times p′.
const COUPLING: u64 = 2;
/// While both queues wait, one byte of ten is from the classic queue.
const CLASSIC_WEIGHT: i64 = 1;
const LOW_WEIGHT: i64 = 9;
/// The credit of an empty port, with which the low-latency queue begins.
const CREDIT: i64 = FULL_PACKET.cast_signed() * (CLASSIC_WEIGHT - LOW_WEIGHT);

/// Parameters of [`DualPi2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualPi2Config {
    /// Delay at which the classic queue aims.
    pub target: Duration,
    /// Delay from which all packets of the low-latency queue are marked.
    pub step: Duration,
    /// Hard limit of both queues together.
    pub limit: Limit,
}

impl DualPi2Config {
    /// 15 ms and 1 ms.
    pub fn new(limit: Limit) -> Self {
        Self {
            target: Duration::from_millis(15),
            step: Duration::from_millis(1),
            limit,
        }
    }
}

/// The PI controller.
#[derive(Clone, Copy, Debug, Default)]
struct Pi {
    /// p′ in 2^-32.
    base: u64,
    /// Delay at the last change, in nanoseconds.
    delay: u64,
    due: Instant,
}

impl Pi {
    /// Changes p′ at all times that have passed. `delay` returns the delay at each of them.
    #[inline]
    fn poll(&mut self, now: Instant, target: Duration, delay: impl Fn(Instant) -> u64) {
        if self.due <= now {
            self.catch_up(now, target, delay);
        }
    }

    #[cold]
    fn catch_up(&mut self, now: Instant, target: Duration, delay: impl Fn(Instant) -> u64) {
        let missed = (now.as_nanos() - self.due.as_nanos()) / UPDATE_NANOS;
        self.due += Duration::from_nanos(missed.saturating_sub(MOST_UPDATES) * UPDATE_NANOS);
        while self.due <= now {
            self.update(delay(self.due), target);
            self.due += Duration::from_nanos(UPDATE_NANOS);
        }
    }

    fn update(&mut self, delay: u64, target: Duration) {
        let now = i128::from(delay);
        let excess = now - i128::from(u64::try_from(target.as_nanos()).unwrap_or(u64::MAX));
        let rise = now - i128::from(self.delay);
        let change = (ALPHA_CENTI * excess + BETA_CENTI * rise) * i128::from(ONE) / 100_000_000_000;
        let base = (i128::from(self.base) + change).clamp(0, i128::from(ONE));
        self.base = u64::try_from(base).unwrap_or(0);
        self.delay = delay;
    }

    /// Probability for classic packets.
    const fn classic(&self) -> u64 {
        // At most 2^64 / 2^32.
        ((self.base as u128 * self.base as u128) >> 32) as u64
    }

    /// Probability for low-latency packets.
    const fn coupled(&self) -> u64 {
        self.base * COUPLING
    }

    /// Whether marks are no longer enough.
    const fn is_overloaded(&self) -> bool {
        self.coupled() >= ONE
    }
}

/// Turns probabilities into decisions without random numbers: it sums them up, and takes one off
/// for each decision.
#[derive(Clone, Copy, Debug, Default)]
struct Recur(u64);

impl Recur {
    #[inline]
    const fn turns(&mut self, probability: u64) -> bool {
        self.0 += probability;
        if self.0 < ONE {
            return false;
        }
        self.0 -= ONE;
        true
    }
}

/// What happens to a packet at the head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// The two queues and their controller.
#[derive(Debug)]
pub struct DualPi2<P> {
    low: DropTail<P>,
    classic: DropTail<P>,
    config: DualPi2Config,
    pi: Pi,
    /// Positive if the low-latency queue has had more than its share while both waited, in bytes
    /// times weight.
    credit: i64,
    low_marks: Recur,
    low_drops: Recur,
    classic_signals: Recur,
}

impl<P: Send> DualPi2<P> {
    /// Creates empty queues.
    pub fn new(config: DualPi2Config) -> Self {
        Self {
            low: DropTail::new(config.limit),
            classic: DropTail::new(config.limit),
            config,
            pi: Pi::default(),
            credit: CREDIT,
            low_marks: Recur::default(),
            low_drops: Recur::default(),
            classic_signals: Recur::default(),
        }
    }

    #[inline]
    fn update(&mut self, now: Instant) {
        let heads = [self.low.oldest(), self.classic.oldest()].map(|head| head.map(|h| h.since));
        self.pi.poll(now, self.config.target, |at| {
            let waited = |since: &Instant| at.as_nanos().saturating_sub(since.as_nanos());
            heads.iter().flatten().map(waited).max().unwrap_or(0)
        });
    }

    /// The queue whose turn it is.
    fn turn(&mut self) -> Turn {
        let (low, classic) = (self.low.waiting().packets, self.classic.waiting().packets);
        if low == 0 && classic == 0 {
            self.credit = CREDIT;
        }
        Turn {
            low: low > 0 && (classic == 0 || self.credit <= 0),
            both: low > 0 && classic > 0,
        }
    }

    fn low_fate(&mut self, now: Instant, item: &Queued<P>) -> Fate {
        if self.pi.is_overloaded() {
            return if self.low_drops.turns(self.pi.classic()) {
                Fate::Drop
            } else {
                Fate::Mark
            };
        }
        // A packet that nothing waits behind has only waited for the link itself.
        let late = now - item.since > self.config.step && self.low.waiting().packets > 0;
        let coupled = if self.is_short() {
            0
        } else {
            self.pi.coupled()
        };
        let probability = if late { ONE } else { coupled };
        if self.low_marks.turns(probability) {
            Fate::Mark
        } else {
            Fate::Pass
        }
    }

    fn classic_fate(&mut self, ecn: Ecn) -> Fate {
        if self.is_short() || !self.classic_signals.turns(self.pi.classic()) {
            Fate::Pass
        } else if ecn == Ecn::NotEct || self.pi.is_overloaded() {
            Fate::Drop
        } else {
            Fate::Mark
        }
    }

    /// Whether too little waits for p′ to mean anything, as on a slow link.
    fn is_short(&self) -> bool {
        self.depth().bytes < 2 * FULL_PACKET
    }
}

/// The queue that the next packet is from, and whether the other one waits.
#[derive(Clone, Copy, Debug)]
struct Turn {
    low: bool,
    both: bool,
}

impl<P: Send> Queue<P> for DualPi2<P> {
    fn push(&mut self, now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        self.update(now);
        if !self.config.limit.admits(self.depth(), item.arrival.bytes) {
            owner.dropped(item.packet, DropCause::QueueFull);
            return Pushed::Dropped(DropCause::QueueFull);
        }
        match owner.ecn(&item.packet) {
            Ecn::Ect1 | Ecn::Ce => self.low.put(item),
            Ecn::Ect0 | Ecn::NotEct => self.classic.put(item),
        }
        Pushed::Queued
    }

    fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        self.update(now);
        let mut dropped = 0;
        loop {
            let turn = self.turn();
            let queue = if turn.low {
                &mut self.low
            } else {
                &mut self.classic
            };
            let Some(mut item) = queue.take() else {
                return Popped {
                    item: None,
                    dropped,
                };
            };
            let fate = if turn.low {
                self.low_fate(now, &item)
            } else {
                self.classic_fate(owner.ecn(&item.packet))
            };
            match fate {
                Fate::Pass => {}
                Fate::Mark => owner.mark_ce(&mut item.packet),
                Fate::Drop => {
                    dropped += u64::from(item.packets);
                    owner.dropped(item.packet, DropCause::Early);
                    continue;
                }
            }
            if turn.both {
                let bytes = i64::from(item.arrival.bytes);
                self.credit += if turn.low {
                    bytes * CLASSIC_WEIGHT
                } else {
                    -bytes * LOW_WEIGHT
                };
            }
            return Popped {
                item: Some(item),
                dropped,
            };
        }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        self.classic
            .take_youngest()
            .or_else(|| self.low.take_youngest())
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        self.classic.newest().or_else(|| self.low.newest())
    }

    fn depth(&self) -> Depth {
        let (low, classic) = (self.low.waiting(), self.classic.waiting());
        Depth {
            packets: low.packets + classic.packets,
            bytes: low.bytes + classic.bytes,
        }
    }

    fn limit(&self) -> Limit {
        self.config.limit
    }

    fn set_limit(&mut self, limit: Limit) {
        self.config.limit = limit;
    }
}

#[cfg(test)]
#[path = "dualpi2_tests.rs"]
mod tests;
