//! Detection of queues by delay, which no router announces.
//!
//! The delay on the way to the receiver is used if the peer reports its clock, and the RTT
//! otherwise. The RTT doesn't distinguish a queue on the way back, which this sender doesn't cause,
//! from one ahead.

use crate::base::ablate::{Mechanism, without};
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

// Correlation of losses with delay: are losses preceded by longer delays than other packets?
//
// A queue that drops packets is full, so the packet before a drop has waited in it. Random losses,
// however, are independent of delay: they follow long delays (those above the median) as often as
// other packets do. This test doesn't need a long queue. It also works for a buffer of a few
// packets, on a path with other queues, and among random losses, provided that there are enough
// losses.
//
// Each arrival is attributed to the delay of the sample before it, like a loss, because if one ACK
// acknowledges many packets, both are more likely to follow the previous sample. Samples must
// exclude the time for which the receiver held back the ACK, because it holds back the one for the
// packet before a loss.

/// Losses and packets are halved when this many losses are counted.
const MOST_LOSSES: u64 = 192;
/// Fewer losses or fewer packets don't give a result.
const LEAST_LOSSES: u64 = 16;
const LEAST_PACKETS: u64 = 64;
/// Packets are halved when this many are counted, so that products never overflow.
const MOST_PACKETS: u64 = 1 << 24;
/// Number of delays over which their mean distance from the median is smoothed.
const SMOOTHED: u64 = 64;
/// Standard deviations that make a correlation clear. It is looked for at each loss, so there are
/// many occasions for chance.
const SIGMAS: u64 = 5;
/// The median moves by 1/`STEP` of this distance, and by at least `LEAST_STEP` ns.
const STEP: u64 = 16;
const LEAST_STEP: u64 = 100;

/// Number of packets, and of those that follow a long delay.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u64,
    long: u64,
}

impl Count {
    const fn add(&mut self, packets: u64, long: bool) {
        self.all += packets;
        if long {
            self.long += packets;
        }
    }

    const fn halve(&mut self) {
        self.all /= 2;
        self.long /= 2;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayCorrelation {
    /// Running median of delays in ns.
    median: Option<u64>,
    /// Mean distance of delays from the median in ns, times [`SMOOTHED`].
    spread: u64,
    packets: Count,
    losses: Count,
}

impl DelayCorrelation {
    /// Adds a packet's queueing delay. Returns true if it's long, i.e. above the median.
    #[inline]
    pub(super) fn on_delay(&mut self, delay_ns: u64) -> bool {
        let Some(median) = self.median else {
            self.median = Some(delay_ns);
            return false;
        };
        let long = delay_ns > median;
        let away = delay_ns.abs_diff(median);
        self.spread = (self.spread - self.spread / SMOOTHED).saturating_add(away);
        let step = (self.spread / (SMOOTHED * STEP)).max(LEAST_STEP).min(away);
        self.median = Some(if long { median + step } else { median - step });
        long
    }

    /// Adds `packets` packets that arrived after one whose delay was `long`.
    #[inline]
    pub(super) fn on_packets(&mut self, packets: u64, long: bool) {
        self.packets.add(packets.min(MOST_PACKETS), long);
        if self.packets.all >= MOST_PACKETS {
            self.packets.halve();
        }
    }

    /// Adds one loss event after a packet whose delay was `long`.
    pub(super) const fn on_loss(&mut self, long: bool) {
        self.losses.add(1, long);
        if self.losses.all >= MOST_LOSSES {
            self.losses.halve();
            self.packets.halve();
        }
    }

    /// Returns true if the share of losses after long delays exceeds the share of packets after
    /// long delays by more than [`SIGMAS`] standard deviations.
    pub(super) fn is_clear(&self) -> bool {
        let (n, packets) = (self.losses.all, self.packets.all);
        if n < LEAST_LOSSES || packets < LEAST_PACKETS {
            return false;
        }
        // With a/b, the share of packets: k − n·a/b > σ·√(n·a·(b − a))/b, where both sides are
        // multiplied by b.
        let (a, b) = (self.packets.long, packets);
        let above = (self.losses.long * b).saturating_sub(n * a);
        let variance = n * a * (b - a);
        above > SIGMAS * variance.isqrt()
    }
}

#[cfg(test)]
mod delay_correlation_tests {
    use super::*;

    /// Sends 4000 packets through a queue of at most eight, which changes by at most one from
    /// packet to packet, with up to `other` ns of queueing elsewhere. `lost` decides about losses,
    /// based on the queue and a random number below 1000.
    fn run(seed: u64, other: u64, lost: fn(u64, u64) -> bool) -> DelayCorrelation {
        let mut leaning = DelayCorrelation::default();
        let (mut state, mut queue, mut long) = (seed, 4u64, false);
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..4000 {
            queue = (queue + draw(3)).saturating_sub(1).min(8);
            let delay = queue * 1_000_000 + draw(other + 1);
            if lost(queue, draw(1000)) {
                leaning.on_loss(long);
            } else {
                leaning.on_packets(1, long);
                long = leaning.on_delay(delay);
            }
        }
        leaning
    }

    /// Returns how many of a hundred runs show a correlation.
    fn clear(other: u64, lost: fn(u64, u64) -> bool) -> usize {
        let is_clear = |seed: &u64| run(*seed, other, lost).is_clear();
        (0..100).filter(is_clear).count()
    }

    #[test]
    fn drops_of_a_full_queue_lean_to_long_delays() {
        let full = |queue, draw| queue == 8 && draw < 300;
        assert_eq!(clear(0, full), 100);
        // Another queue on the path is just as long.
        let with_other = clear(8_000_000, full);
        assert!(with_other >= 80, "{with_other} of 100");
        // In addition, 2 % is lost at random.
        let mixed = |queue, draw| (queue == 8 && draw < 300) || draw >= 980;
        let mixed = clear(0, mixed);
        assert!(mixed >= 90, "{mixed} of 100");
    }

    #[test]
    fn random_losses_do_not() {
        for per_mille in [|_, draw| draw < 10, |_, draw| draw < 100] {
            assert_eq!(clear(500_000, per_mille), 0);
        }
        assert!(!run(1, 0, |_, _| false).is_clear(), "no loss at all");
        assert!(!DelayCorrelation::default().is_clear());
    }

    #[test]
    fn sums_stay_within_bounds() {
        let mut leaning = DelayCorrelation::default();
        for n in 0..1000 {
            let long = leaning.on_delay(n % 2 * u64::MAX);
            leaning.on_packets(u64::MAX, long);
            leaning.on_loss(n % 2 == 0);
            let _ = leaning.is_clear();
        }
        assert!(leaning.packets.all < MOST_PACKETS && leaning.losses.all < MOST_LOSSES);
    }
}

// Losses that follow delay: before an overflowing queue drops a packet, it delays the packets
// ahead of that one.
//
// Each loss is matched with the delay of the packet before it.

const SAMPLES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Following {
    /// Packet numbers, and whether the packet's delay was above the median.
    samples: [(u64, bool); SAMPLES],
    count: u64,
    leaning: DelayCorrelation,
    lost: Option<u64>,
}

impl Following {
    pub(crate) fn new() -> Self {
        Self {
            samples: [(0, false); SAMPLES],
            count: 0,
            leaning: DelayCorrelation::default(),
            lost: None,
        }
    }

    /// Returns true if losses clearly follow longer delays than other packets do. This also works
    /// if delays hardly vary, and if some of the loss is random.
    pub(crate) fn leans(&self) -> bool {
        self.leaning.is_clear() && !without(Mechanism::Correlation)
    }

    /// Discards the correlation, because the path has changed.
    pub(crate) fn forget(&mut self) {
        self.leaning = DelayCorrelation::default();
    }

    /// Handles the delay of packet `number`, the last of `packets`. `counts` is true if a loss at
    /// this time would count, too, because no router reports that its own queue is full.
    #[inline]
    pub(crate) fn on_delay(&mut self, number: u64, packets: u64, delay_ns: u64, counts: bool) {
        if counts && let Some(longer) = self.delay_before(number.saturating_sub(1)) {
            self.leaning.on_packets(packets, longer);
        }
        let longer = self.leaning.on_delay(delay_ns);
        if let Some(slot) = self.samples.get_mut((self.count % SAMPLES as u64) as usize) {
            *slot = (number, longer);
        }
        self.count += 1;
    }

    /// Returns whether the latest known packet up to `number` had a delay above the median.
    fn delay_before(&self, number: u64) -> Option<bool> {
        let kept = self.count.min(SAMPLES as u64);
        (1..=kept)
            .filter_map(|back| {
                self.samples
                    .get(((self.count - back) % SAMPLES as u64) as usize)
            })
            .find(|(at, _)| *at <= number)
            .map(|(_, longer)| *longer)
    }

    /// Handles the loss of packets up to `number`. If consecutive packets are reported lost one by
    /// one, they count as one loss.
    pub(crate) fn on_loss(&mut self, number: u64) {
        if let Some(longer) = self.delay_before(number)
            && self
                .lost
                .replace(number)
                .is_none_or(|last| last + 1 != number)
        {
            self.leaning.on_loss(longer);
        }
    }
}
