//! How long a port measures: a fixed time, or one that follows the RTTs of its traffic.
//!
//! A load that is measured over less than a round trip sees bursts, and BISE's growth then
//! overshoots; one measured over much more reacts late. Two and a half times the longest RTT served
//! is what the VCP extensions paper uses. "Longest" is a percentile over *bytes*: a shim is public,
//! so what a packet says weighs as much as the packet does, and no share x of the bytes costs the
//! others more than about x.
//!
//! - Below half of the capacity the shortest RTTs rule: those of 16 full packets, or of a tenth of
//!   the bytes. The interval falls to what they need at once. A long interval slows starts there.
//! - Above, the longest RTTs rule: a third of the bytes lengthens the interval as far as it needs,
//!   a tenth up to sixteen times what the third needs. The interval falls, half an octave at a
//!   time, once half of these shares needs less.
//! - The interval rises by a factor of 1 + x at most, for a share x of bytes that need more, so
//!   twice at most.
//! - The time of 64 full packets is the least of it. That time goes by the mean capacity of some
//!   seconds, not by that of the moment.

use super::params::Interval;
use crate::arith::{micros, mul_div, saturate};
use crate::{Duration, Instant, VcpAnswer};

/// Buckets of RTTs: four to each octave of microseconds, up to 2^32 µs.
const BUCKETS: usize = 4 * 32;
/// Bytes count for less by a quarter after each quarter of an interval, but no sooner and no later
/// than this.
const TICK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// That makes their sum worth this many ticks of traffic.
const TICKS: u32 = 4;
/// If no packet has told an RTT for this long nothing is known any more.
const SILENCE: Duration = Duration::from_secs(10);
/// The share of bytes whose RTTs are served, as a divisor.
const MANY: u64 = 3;
/// The share of bytes whose RTTs are served up to [`STRETCH`] times those of `MANY`.
const FEW: u64 = 10;
/// A tenth over a satellite (600 ms) next to flows of 40 ms keeps its share of the link with this.
/// With half of it that tenth loses a sixth.
const STRETCH: u64 = 16;
/// The same shares for falling are smaller, so that a flow with about as much does not make the
/// interval swing.
const FALLING: u64 = 2;
/// So many bytes of short RTTs rule below half of the capacity, or a tenth of those that told.
const WORTH: u64 = 16 * 1500;
/// Below this part of the capacity the shortest RTTs rule.
const LIGHT: u64 = 2;
/// t_ρ = 2.5 × RTT (VCP extensions paper, section V), the RTT taken from the middle of the quarter
/// octave that packets tell: they tell its upper end, so this is 2.5 · 2^(−1/8).
const RTT_FACTOR: (u64, u64) = (2293, 1000);
/// Where an automatic interval begins.
const START: Duration = Duration::from_secs(1);
/// Never below this, nor below the time of so many full packets.
const LEAST: Duration = Duration::from_millis(50);
const LEAST_BYTES: u64 = 64 * 1500;
/// Not below this for so long after an interval with less than half of the mean capacity: a link
/// that comes and goes within an interval would be measured in its pauses alone.
const LEAST_UNEVEN: Duration = Duration::from_millis(200);
const UNEVEN_FOR: Duration = Duration::from_secs(2);
/// Time over which the capacity is averaged for that.
const CAPACITY_OVER: Duration = Duration::from_secs(10);
/// It falls by half an octave (√½) in this time at most, and only if the target is a quarter octave
/// away or more.
const LOWER_EVERY: Duration = Duration::from_millis(500);
const HALF_OCTAVE: (u64, u64) = (707_107, 1_000_000);
const QUARTER_OCTAVE: (u64, u64) = (840_896, 1_000_000);
/// No bucket counts further, so that sums cannot overflow.
const MOST_BYTES: u64 = 1 << 44;

/// Bytes lately whose packets told about the same RTT.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    bytes: u64,
    /// Sum of bytes × RTT in µs.
    weighted: u128,
}

impl Bucket {
    fn rtt_us(&self) -> u64 {
        saturate(self.weighted / u128::from(self.bytes.max(1)))
    }

    fn decay(&mut self) {
        let left = self.bytes - self.bytes.div_ceil(TICKS.into());
        self.weighted = self.weighted * u128::from(left) / u128::from(self.bytes.max(1));
        self.bytes = left;
    }
}

/// Which RTTs the port's bytes told lately.
#[derive(Clone, Debug)]
struct Sketch {
    buckets: Box<[Bucket]>,
    /// Bytes of all packets, whether or not they told an RTT.
    all: u64,
    /// Bytes of those that did.
    told: u64,
    /// Time over which `all` came, decayed as it is, and the running tick's length, in µs.
    over: u64,
    tick: u64,
    next_tick: Instant,
    last_told: Instant,
}

impl Sketch {
    fn new(now: Instant) -> Self {
        Self {
            buckets: vec![Bucket::default(); BUCKETS].into_boxed_slice(),
            all: 0,
            told: 0,
            over: 0,
            tick: micros(TICK.0),
            next_tick: now + TICK.0,
            last_told: now,
        }
    }

    fn index(rtt_us: u64) -> usize {
        let octave = rtt_us.max(4).ilog2();
        let quarter = (rtt_us.max(4) >> (octave - 2)) & 3;
        usize::try_from(u64::from(octave) * 4 + quarter).map_or(BUCKETS - 1, |i| i.min(BUCKETS - 1))
    }

    /// Counts a packet's bytes under the RTT that it told. True if none of about this RTT were
    /// known.
    #[inline]
    fn count(&mut self, now: Instant, bytes: u32, rtt: Option<Duration>) -> bool {
        let bytes = u64::from(bytes);
        self.all = (self.all + bytes).min(MOST_BYTES);
        let Some(rtt) = rtt else {
            return false;
        };
        self.last_told = now;
        let rtt_us = micros(rtt).clamp(1, u64::from(u32::MAX));
        let Some(bucket) = self.buckets.get_mut(Self::index(rtt_us)) else {
            return false;
        };
        let before = bucket.bytes;
        if bucket.bytes < MOST_BYTES {
            bucket.bytes += bytes;
            bucket.weighted += u128::from(bytes) * u128::from(rtt_us);
            self.told += bytes;
        }
        before == 0 || (before < WORTH && bucket.bytes >= WORTH)
    }

    /// Lets old bytes count for less; after a long silence nothing is known. An interval is `t_rho`
    /// long.
    fn age(&mut self, now: Instant, t_rho: Duration) {
        if now - self.last_told > SILENCE {
            *self = Self::new(now);
        }
        while now >= self.next_tick {
            self.all -= self.all.div_ceil(TICKS.into());
            self.over += self.tick;
            self.over -= self.over / u64::from(TICKS);
            let tick = (t_rho / 4).clamp(TICK.0, TICK.1);
            self.tick = micros(tick);
            self.next_tick += tick;
            self.told = 0;
            for bucket in &mut self.buckets {
                bucket.decay();
                self.told += bucket.bytes;
            }
        }
    }

    /// The RTT in µs that is served of those that are long, by shares of `all` bytes divided by
    /// `part`.
    fn long(&self, all: u64, part: u64) -> Option<u64> {
        let many = self.longest(all, MANY * part)?;
        let few = self.longest(all, FEW * part)?;
        Some(few.min(many.saturating_mul(STRETCH)))
    }

    /// The shortest RTT in µs: `WORTH` bytes, or a part 1 / `FEW` of the bytes that state one, have
    /// it or a shorter one.
    fn short(&self) -> Option<u64> {
        let mut below = 0;
        let known = self.buckets.iter().filter(|bucket| bucket.bytes > 0);
        for bucket in known {
            below += bucket.bytes;
            if below >= WORTH || below.saturating_mul(FEW) > self.told {
                return Some(bucket.rtt_us());
            }
        }
        None
    }

    /// The longest RTT in µs that is served if those of a share 1 / `beyond` of `all` bytes are
    /// not.
    fn longest(&self, all: u64, beyond: u64) -> Option<u64> {
        let mut above = 0;
        for bucket in self.buckets.iter().rev() {
            above += bucket.bytes;
            if bucket.bytes > 0 && above.saturating_mul(beyond) > all {
                return Some(bucket.rtt_us());
            }
        }
        None
    }

    /// Bytes whose packets told more than this.
    fn above(&self, rtt_us: u64) -> u64 {
        let longer = self.buckets.iter().filter(|b| b.rtt_us() > rtt_us);
        longer.map(|bucket| bucket.bytes).sum()
    }
}

#[derive(Clone, Debug)]
struct Auto {
    sketch: Sketch,
    ceiling: Duration,
    /// Mean capacity in bytes per second.
    capacity: u64,
    /// The link offered much less than that not long ago: until when that counts.
    uneven_until: Instant,
    uneven: bool,
    lowered: Instant,
}

/// A port's measuring interval.
#[derive(Clone, Debug)]
pub(crate) struct TRho {
    current: Duration,
    /// The same as packets carry it, at hand for each of them.
    advertised_ms: u16,
    auto: Option<Auto>,
}

impl TRho {
    /// At a port of `capacity` bytes per second.
    pub(crate) fn new(now: Instant, interval: Interval, capacity: u64) -> Self {
        let (current, auto) = match interval {
            Interval::Fixed(current) => (current.max(Duration::from_millis(1)), None),
            Interval::Auto { ceiling } => {
                let auto = Auto {
                    sketch: Sketch::new(now),
                    ceiling,
                    capacity,
                    uneven_until: now,
                    uneven: false,
                    lowered: now,
                };
                (auto.start(), Some(auto))
            }
        };
        Self {
            current,
            advertised_ms: VcpAnswer::whole_millis(current),
            auto,
        }
    }

    /// The interval as it is measured.
    #[inline]
    pub(crate) const fn current(&self) -> Duration {
        self.current
    }

    /// The interval as it is advertised.
    #[inline]
    pub(crate) const fn advertised_ms(&self) -> u16 {
        self.advertised_ms
    }

    /// A packet arrived that may have told its flow's least RTT. True if the interval should be
    /// [reviewed](Self::review).
    #[inline]
    pub(crate) fn see(&mut self, now: Instant, bytes: u32, rtt: Option<Duration>) -> bool {
        match &mut self.auto {
            Some(auto) => auto.sketch.count(now, bytes, rtt) && auto.is_light(),
            None => false,
        }
    }

    /// An interval of length `elapsed` has ended, in which the link could carry `capacity` bytes
    /// per second. True if the next one is of another length.
    #[cold]
    pub(crate) fn on_interval(&mut self, now: Instant, elapsed: Duration, capacity: u64) -> bool {
        let Some(auto) = &mut self.auto else {
            return false;
        };
        if capacity < auto.capacity / 2 {
            auto.uneven_until = now + UNEVEN_FOR;
        }
        auto.uneven = now < auto.uneven_until;
        let share = micros(elapsed.min(CAPACITY_OVER));
        let over = micros(CAPACITY_OVER);
        let old = mul_div(auto.capacity, over - share, over);
        auto.capacity = old.saturating_add(mul_div(capacity, share, over));
        let before = self.current;
        self.follow(now);
        if let Some(auto) = &mut self.auto
            && auto.sketch.told > 0
        {
            self.current = auto.risen(self.current);
            if auto.uneven {
                let longer = LEAST_UNEVEN.min(before * 2).min(auto.ceiling);
                self.current = self.current.max(longer);
            }
        }
        self.take(before)
    }

    /// Follows the traffic within an interval: downwards only. True if the interval is of another
    /// length now.
    #[cold]
    pub(crate) fn review(&mut self, now: Instant) -> bool {
        let before = self.current;
        self.follow(now);
        if self.auto.as_ref().is_some_and(|auto| auto.uneven) {
            self.current = self.current.max(LEAST_UNEVEN.min(before));
        }
        self.take(before)
    }

    /// What packets told so far says nothing of those to come: as if the port had been silent.
    pub(crate) fn forget(&mut self, now: Instant) {
        let before = self.current;
        if let Some(auto) = &mut self.auto {
            auto.sketch = Sketch::new(now);
            self.current = auto.start().min(before);
        }
        self.take(before);
    }

    /// What is measured is what is advertised. True if that is another interval than `before`.
    fn take(&mut self, before: Duration) -> bool {
        self.advertised_ms = VcpAnswer::whole_millis(self.current);
        self.current = Duration::from_millis(u64::from(self.advertised_ms));
        self.current != before
    }

    fn follow(&mut self, now: Instant) {
        let Some(auto) = &mut self.auto else {
            return;
        };
        auto.sketch.age(now, self.current);
        let told = auto.sketch.told;
        if told == 0 {
            self.current = auto.start();
        } else if auto.is_light() {
            self.current = auto.target(auto.sketch.short()).min(self.current);
            auto.lowered = now;
        } else if now - auto.lowered >= LOWER_EVERY {
            let target = auto.target(auto.sketch.long(told, FALLING));
            if target <= scaled(self.current, QUARTER_OCTAVE) {
                self.current = target.max(scaled(self.current, HALF_OCTAVE));
                auto.lowered = now;
            }
        }
    }
}

impl Auto {
    /// The interval that serves an RTT.
    fn target(&self, rtt_us: Option<u64>) -> Duration {
        let wanted = mul_div(rtt_us.unwrap_or(0), RTT_FACTOR.0, RTT_FACTOR.1);
        let packets = mul_div(LEAST_BYTES, 1_000_000, self.capacity);
        Duration::from_micros(wanted.max(packets))
            .max(LEAST)
            .min(self.ceiling)
    }

    /// The interval while nothing is known.
    fn start(&self) -> Duration {
        self.target(None).max(START).min(self.ceiling)
    }

    /// True if less than half of what the link could carry came lately.
    fn is_light(&self) -> bool {
        let over = self.sketch.over + self.sketch.tick;
        let over = over.max(micros(TICK.0 * TICKS));
        self.sketch.all < mul_div(self.capacity / LIGHT, over, 1_000_000)
    }

    /// What a longer interval than `current` may grow to in one step.
    fn risen(&self, current: Duration) -> Duration {
        let all = self.sketch.all.max(1);
        let rtt = if !self.is_light() {
            self.sketch.long(all, 1)
        } else if self.sketch.told.saturating_mul(FEW) < WORTH {
            // A packet now and then lengthens nothing.
            None
        } else {
            self.sketch.short()
        };
        let target = self.target(rtt);
        if target <= current {
            return current;
        }
        let served = mul_div(micros(current), RTT_FACTOR.1, RTT_FACTOR.0);
        let longer = if self.target(None) > current {
            // The packets of a slow link take longer; that is nobody's claim.
            all
        } else {
            self.sketch.above(served).min(all)
        };
        let step = mul_div(micros(current), longer, all);
        target.min(current + Duration::from_micros(step))
    }
}

fn scaled(d: Duration, by: (u64, u64)) -> Duration {
    Duration::from_micros(mul_div(micros(d), by.0, by.1))
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
