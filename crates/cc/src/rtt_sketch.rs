//! Which RTTs a port's bytes stated lately.
//!
//! A shim is public, so what a packet states weighs as much as the packet does: percentiles here
//! are over *bytes*. Old bytes decay.

use crate::arith::{micros, mul_div, saturate};
use crate::{Duration, Instant};

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
pub(crate) const FEW: u64 = 10;
/// A tenth over a satellite (600 ms) next to flows of 40 ms keeps its share of the link with this.
/// With half of it that tenth loses a sixth.
pub(crate) const STRETCH: u64 = 16;
/// So many bytes of short RTTs rule below half of the capacity, or a tenth of those that told.
pub(crate) const WORTH: u64 = 16 * 1500;
/// Below this part of the capacity the shortest RTTs rule.
const LIGHT: u64 = 2;
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
pub(crate) struct RttSketch {
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

impl RttSketch {
    pub(crate) fn new(now: Instant) -> Self {
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

    /// Bytes that stated an RTT.
    pub(crate) const fn told(&self) -> u64 {
        self.told
    }

    /// Bytes of all packets.
    pub(crate) const fn all(&self) -> u64 {
        self.all
    }

    /// True if less than half of what a link of `capacity` bytes per second can carry came lately.
    pub(crate) fn is_light(&self, capacity: u64) -> bool {
        let over = (self.over + self.tick).max(micros(TICK.0 * TICKS));
        self.all < mul_div(capacity / LIGHT, over, 1_000_000)
    }

    fn index(rtt_us: u64) -> usize {
        let octave = rtt_us.max(4).ilog2();
        let quarter = (rtt_us.max(4) >> (octave - 2)) & 3;
        usize::try_from(u64::from(octave) * 4 + quarter).map_or(BUCKETS - 1, |i| i.min(BUCKETS - 1))
    }

    /// Counts a packet's bytes under the RTT that it told. True if none of about this RTT were
    /// known.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant, bytes: u32, rtt: Option<Duration>) -> bool {
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
    pub(crate) fn age(&mut self, now: Instant, t_rho: Duration) {
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
    pub(crate) fn long(&self, all: u64, part: u64) -> Option<u64> {
        let many = self.longest(all, MANY * part)?;
        let few = self.longest(all, FEW * part)?;
        Some(few.min(many.saturating_mul(STRETCH)))
    }

    /// The shortest RTT in µs: `WORTH` bytes, or a part 1 / `FEW` of the bytes that state one, have
    /// it or a shorter one.
    pub(crate) fn short(&self) -> Option<u64> {
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

    /// The RTT in µs that rules at a link of `capacity` bytes per second: the shortest below half
    /// of that, what a third of the bytes needs above.
    pub(crate) fn reference(&self, capacity: u64) -> Option<u64> {
        if self.is_light(capacity) {
            self.short()
        } else {
            self.longest(self.told, MANY)
        }
    }

    /// The longest RTT in µs that is plausible next to that.
    pub(crate) fn plausible(&self, capacity: u64) -> u64 {
        let reference = self.reference(capacity);
        reference.map_or(u64::MAX, |rtt| rtt.saturating_mul(STRETCH))
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
    pub(crate) fn above(&self, rtt_us: u64) -> u64 {
        let longer = self.buckets.iter().filter(|b| b.rtt_us() > rtt_us);
        longer.map(|bucket| bucket.bytes).sum()
    }
}
