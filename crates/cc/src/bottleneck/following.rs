//! Losses that follow delay: a queue that overflows delays the packets before the one that it
//! drops.
//!
//! Each loss is matched with the delay of the packet before it. Where losses fall behind packets
//! with nearly the longest recent delay, and clearly more often than by chance, a queue overflows.
//! A small queue that merely stands proves nothing.

use super::delay_correlation::DelayCorrelation;
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};

/// Delays of packets that are remembered.
const SAMPLES: usize = 64;
/// Losses of one judgement, and the least number of delivered packets to compare them with.
const LOSSES: u32 = 16;
const LEAST_PACKETS: u64 = 128;
/// Of these, the most that lie behind a long delay by chance, by the sixteenths of all packets that
/// do (3.5 standard deviations, and four of five in any case).
const MOST_BY_CHANCE: [u32; 10] = [12, 12, 12, 12, 12, 12, 13, 14, 14, 15];
/// The range of delays must be more than the time of this many packets at the delivered rate …
const RANGE_PACKETS: u64 = 4;
/// … and more than this, so that host timing does not look like a queue.
const LEAST_RANGE: Duration = Duration::from_micros(250);
/// The range is that of the last one to two spans of this many round trips.
const SPAN_ROUNDS: u32 = 8;

/// Least and longest delay, in ns.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    const EMPTY: Self = Self {
        least: u64::MAX,
        most: 0,
    };

    fn add(&mut self, delay: u64) {
        self.least = self.least.min(delay);
        self.most = self.most.max(delay);
    }

    fn join(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }

    const fn width(self) -> u64 {
        self.most.saturating_sub(self.least)
    }

    /// In its upper quarter.
    const fn is_long(self, delay: u64) -> bool {
        delay >= self.most - self.width() / 4
    }
}

/// Compares losses with delays.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    /// Of packets: number, delay in ns, and whether that is longer than the median.
    samples: [(u64, u64, bool); SAMPLES],
    count: u64,
    current: Range,
    before: Range,
    since: Instant,
    /// Packets delivered since the last judgement, and those of them with a long delay.
    packets: u64,
    long: u64,
    losses: u32,
    behind_long: u32,
    /// The longest delay when they began.
    began_with: u64,
    leaning: DelayCorrelation,
    /// The packet that was lost last.
    lost: Option<u64>,
}

impl Following {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            samples: [(0, 0, false); SAMPLES],
            count: 0,
            current: Range::EMPTY,
            before: Range::EMPTY,
            since: now,
            packets: 0,
            long: 0,
            losses: 0,
            behind_long: 0,
            began_with: 0,
            leaning: DelayCorrelation::default(),
            lost: None,
        }
    }

    /// True if losses lie behind longer delays than other packets do, by `z` standard deviations
    /// and more: also where delays range over little, and where some of the loss is random.
    pub(crate) fn leans(&self, z: u64) -> bool {
        self.leaning.is_clear(z) && !without(Mechanism::Correlation)
    }

    /// Drops the record: the path has changed.
    pub(crate) fn forget(&mut self) {
        self.leaning = DelayCorrelation::default();
    }

    /// Packet `number`, the last one of `packets`, queued for `delay_ns`. `counts`: a loss at this
    /// time would count as well, since no router reports that its own queue is full.
    #[inline]
    pub(crate) fn on_delay(
        &mut self,
        now: Instant,
        number: u64,
        packets: u64,
        delay_ns: u64,
        srtt: Duration,
        counts: bool,
    ) {
        if ns_since(now, self.since) > nanos(srtt).saturating_mul(SPAN_ROUNDS.into()) {
            self.since = now;
            self.before = core::mem::replace(&mut self.current, Range::EMPTY);
        }
        self.current.add(delay_ns);
        if counts && let Some((.., longer)) = self.delay_before(number.saturating_sub(1)) {
            self.leaning.on_packets(packets, longer);
        }
        let longer = self.leaning.on_delay(delay_ns);
        self.packets = self.packets.saturating_add(packets);
        if self.range().is_long(delay_ns) {
            self.long = self.long.saturating_add(packets);
        }
        if let Some(slot) = self.samples.get_mut((self.count % SAMPLES as u64) as usize) {
            *slot = (number, delay_ns, longer);
        }
        self.count += 1;
    }

    fn range(&self) -> Range {
        self.current.join(self.before)
    }

    /// Of the latest packet up to `number`: its number, its delay, and whether that is longer than
    /// the median.
    fn delay_before(&self, number: u64) -> Option<(u64, u64, bool)> {
        let kept = self.count.min(SAMPLES as u64);
        (1..=kept)
            .filter_map(|back| {
                self.samples
                    .get(((self.count - back) % SAMPLES as u64) as usize)
            })
            .find(|(at, ..)| *at <= number)
            .copied()
    }

    /// Packets up to `number` were lost together, while `delivered` bytes per second of packets of
    /// `mtu` bytes arrive. True if losses follow delay: a queue overflows.
    pub(crate) fn on_loss(&mut self, number: u64, delivered: u64, mtu: u64) -> bool {
        let Some((_, delay, longer)) = self.delay_before(number) else {
            return false;
        };
        // Consecutive packets that are reported lost one by one count as one loss.
        if self
            .lost
            .replace(number)
            .is_none_or(|last| last + 1 != number)
        {
            self.leaning.on_loss(longer);
        }
        let range = self.range();
        let packets_ns = mul_div(RANGE_PACKETS * mtu, 1_000_000_000, delivered);
        if range.width() <= packets_ns.max(nanos(LEAST_RANGE)) {
            return false;
        }
        self.losses += 1;
        self.behind_long += u32::from(range.is_long(delay));
        if self.losses < LOSSES {
            return false;
        }
        let behind = core::mem::take(&mut self.behind_long);
        let packets = core::mem::take(&mut self.packets);
        let long = core::mem::take(&mut self.long);
        self.losses = 0;
        let began_with = core::mem::replace(&mut self.began_with, range.most);
        // While the queue is longer than ever, every packet takes the longest.
        if range.most - range.width() / 8 > began_with {
            return false;
        }
        // Rounded up: chance is never taken for less than it is.
        let sixteenths = mul_div(long, 16, packets.max(1)) as usize + 1;
        packets >= LEAST_PACKETS
            && MOST_BY_CHANCE
                .get(sixteenths)
                .is_some_and(|&most| behind > most)
            && !without(Mechanism::Following)
    }
}
