//! Random Early Detection (Floyd and Jacobson 1993; RFC 2309), gentle or classic, in integer
//! arithmetic.
//!
//! The average queue is an exponential mean over arrivals. Between two thresholds, packets are
//! dropped with a probability that increases with this average, spaced evenly by counting
//! packets since the last drop. No packet is marked, because this router must not write the ECN
//! field of foreign traffic.

use pathmark_cc::{Duration, Instant};

use super::{Depth, DropTail, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::impair::Random;
use crate::stats::DropCause;

const ONE: u64 = 1 << 32;

/// Parameters of [`Red`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// Weight of the average, in 2^-32. 0.002 is 8 589 934.
    pub weight_q32: u32,
    /// Lower threshold in packets (mean-sized ones in byte mode).
    pub min_packets: u32,
    /// Upper threshold in packets.
    pub max_packets: u32,
    /// Drop probability at the upper threshold, in 2^-32.
    pub max_p_q32: u32,
    /// Lets the probability rise to 1 at twice the upper threshold, instead of a jump.
    pub gentle: bool,
    /// Measures the queue in bytes, and weights packets by their size.
    pub byte_mode: bool,
    /// Mean packet size in bytes, for byte mode and for aging the average while the queue is
    /// idle.
    pub mean_packet: u32,
    /// Hard limit.
    pub limit: Limit,
}

impl RedConfig {
    /// The usual parameters: weight 0.002, thresholds 5 and 15 packets, probability 0.1, gentle.
    pub fn new(limit: Limit) -> Self {
        Self {
            weight_q32: 8_589_934,
            min_packets: 5,
            max_packets: 15,
            max_p_q32: 429_496_729,
            gentle: true,
            byte_mode: false,
            mean_packet: 1500,
            limit,
        }
    }

    /// Checks whether the parameters are possible.
    ///
    /// # Errors
    /// [`BadRed`].
    pub fn check(&self) -> Result<(), BadRed> {
        if self.min_packets >= self.max_packets {
            return Err(BadRed::Thresholds);
        }
        if self.weight_q32 == 0 {
            return Err(BadRed::Weight);
        }
        if self.mean_packet == 0 {
            return Err(BadRed::MeanPacket);
        }
        Ok(())
    }
}

/// Impossible RED parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRed {
    /// The thresholds leave no range between them.
    #[error("`min` must be below `max`")]
    Thresholds,
    /// Averages would never change.
    #[error("`weight` must be above 0: at least 2^-32")]
    Weight,
    /// Sizes are divided by this value.
    #[error("`mean_packet` must be above 0")]
    MeanPacket,
}

/// A FIFO with random early drops.
#[derive(Debug)]
pub struct Red<P> {
    fifo: DropTail<P>,
    law: Law,
    random: Random,
}

impl<P: Send> Red<P> {
    /// Creates an empty queue for a link of `rate` bytes per second.
    ///
    /// # Errors
    /// [`BadRed`] for impossible parameters.
    pub fn new(config: RedConfig, rate: Option<u64>, random: Random) -> Result<Self, BadRed> {
        Ok(Self {
            fifo: DropTail::new(config.limit),
            law: Law::new(config, rate)?,
            random,
        })
    }
}

impl<P: Send> Queue<P> for Red<P> {
    fn push(&mut self, now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        let depth = self.fifo.depth();
        let bytes = item.arrival.bytes;
        let verdict = self
            .law
            .on_arrival(now, depth, bytes, || self.random.next_u32());
        let cause = if verdict == Verdict::Drop {
            DropCause::Early
        } else if !self.law.config.limit.admits(depth, bytes) {
            self.law.count_q16 = 0;
            DropCause::QueueFull
        } else {
            self.fifo.put(item);
            return Pushed::Queued;
        };
        if depth.packets == 0 {
            self.law.on_empty(now);
        }
        owner.dropped(item.packet, cause);
        Pushed::Dropped(cause)
    }

    fn pop(&mut self, now: Instant, _owner: &mut dyn Owner<P>) -> Popped<P> {
        let item = self.fifo.take();
        if item.is_some() && self.fifo.depth().packets == 0 {
            self.law.on_empty(now);
        }
        Popped { item, dropped: 0 }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_youngest()
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        self.fifo.newest()
    }

    fn depth(&self) -> Depth {
        self.fifo.depth()
    }

    fn limit(&self) -> Limit {
        self.law.config.limit
    }

    fn set_limit(&mut self, limit: Limit) {
        self.law.config.limit = limit;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Drop,
}

/// The drop decision, without the queue.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub(super) config: RedConfig,
    /// Average queue, in 2^-32 packets.
    pub(super) average_q32: u64,
    /// Packets since the last drop, in 2^-16 (mean-sized ones in byte mode).
    pub(super) count_q16: u64,
    was_above: bool,
    idle_since: Option<Instant>,
    /// Time of a mean packet at the link's rate, which is the step for aging an idle average.
    packet_nanos: u64,
}

impl Law {
    pub(super) fn new(config: RedConfig, rate: Option<u64>) -> Result<Self, BadRed> {
        config.check()?;
        let nanos = u64::from(config.mean_packet) * 1_000_000_000;
        Ok(Self {
            config,
            average_q32: 0,
            count_q16: 0,
            was_above: false,
            idle_since: None,
            packet_nanos: rate.and_then(|r| nanos.checked_div(r)).unwrap_or(0).max(1),
        })
    }

    fn on_empty(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        depth: Depth,
        bytes: u32,
        random: impl FnOnce() -> u32,
    ) -> Verdict {
        if let Some(since) = self.idle_since.take() {
            self.age(now - since);
        }
        let mean = u64::from(self.config.mean_packet);
        let (queue_q32, step_q16) = if self.config.byte_mode {
            let queue = (u128::from(depth.bytes) << 32) / u128::from(mean);
            let queue = u64::try_from(queue).unwrap_or(u64::MAX >> 1);
            (queue, (u64::from(bytes) << 16) / mean)
        } else {
            (depth.packets.min(u64::from(u32::MAX >> 1)) << 32, 1 << 16)
        };
        self.average(queue_q32);
        self.count_q16 = self.count_q16.saturating_add(step_q16);
        let (min, max) = self.thresholds();
        if self.average_q32 < min || queue_q32 <= ONE {
            self.was_above = false;
            return Verdict::Pass;
        }
        let ceiling = if self.config.gentle { 2 * max } else { max };
        if self.average_q32 >= ceiling {
            self.count_q16 = 0;
            return Verdict::Drop;
        }
        if !self.was_above {
            // The first packet above the lower threshold is never dropped early.
            self.was_above = true;
            self.count_q16 = step_q16;
            return Verdict::Pass;
        }
        let mut p = spread(self.base_probability(), self.count_q16);
        if self.config.byte_mode {
            let scaled = u128::from(p) * u128::from(bytes) / u128::from(mean);
            p = u64::try_from(scaled).unwrap_or(ONE).min(ONE);
        }
        if u64::from(random()) < p {
            self.count_q16 = 0;
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }

    fn thresholds(&self) -> (u64, u64) {
        (
            u64::from(self.config.min_packets) << 32,
            u64::from(self.config.max_packets) << 32,
        )
    }

    /// `avg += w·(q − avg)`.
    fn average(&mut self, queue_q32: u64) {
        let gap = i128::from(queue_q32) - i128::from(self.average_q32);
        let step = (gap * i128::from(self.config.weight_q32)) >> 32;
        let next = i128::from(self.average_q32) + step;
        self.average_q32 = u64::try_from(next).unwrap_or(0);
    }

    /// `avg·(1 − w)^m` for the m packets that could have been sent in `idle`.
    pub(super) fn age(&mut self, idle: Duration) {
        let packets = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX) / self.packet_nanos;
        let factor = power_q32(ONE - u64::from(self.config.weight_q32), packets);
        self.average_q32 = mul_q32(self.average_q32, factor);
    }

    /// The drop probability before spacing, in 2^-32.
    pub(super) fn base_probability(&self) -> u64 {
        let (min, max) = self.thresholds();
        let avg = self.average_q32;
        let max_p = u64::from(self.config.max_p_q32);
        if avg < min {
            0
        } else if avg < max {
            ratio(max_p, avg - min, max - min)
        } else if self.config.gentle && avg < 2 * max {
            max_p + ratio(ONE - max_p, avg - max, max)
        } else {
            ONE
        }
    }
}

/// pb / (1 − count·pb), which makes the gaps between drops uniform instead of geometric. 2^32
/// means 1.
pub(super) fn spread(pb_q32: u64, count_q16: u64) -> u64 {
    let used = (u128::from(pb_q32) * u128::from(count_q16)) >> 16;
    let left = u128::from(ONE).saturating_sub(used);
    if left == 0 {
        return ONE;
    }
    let pa = (u128::from(pb_q32) << 32) / left;
    u64::try_from(pa).unwrap_or(ONE).min(ONE)
}

fn mul_q32(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}

fn ratio(factor: u64, part: u64, whole: u64) -> u64 {
    let value = u128::from(factor) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// base^n by squaring, in 2^-32, rounded down.
fn power_q32(base: u64, mut n: u64) -> u64 {
    let (mut result, mut square) = (ONE, base);
    while n > 0 && result > 0 {
        if n & 1 == 1 {
            result = mul_q32(result, square);
        }
        square = mul_q32(square, square);
        n >>= 1;
    }
    result
}
