//! RTTs stated by a port's recent packets.
//!
//! Because anyone can write a shim, an RTT is weighted by the bytes of the packets that state it:
//! percentiles here are over *bytes*. Old bytes decay.

use super::arith::{micros, mul_div, saturate};
use super::time::{Duration, Instant};

/// Buckets of RTTs, with four in each octave of microseconds up to 2^32 µs.
const BUCKETS: usize = 4 * 32;
/// Bytes are reduced by a quarter after each quarter of an interval, limited to these times.
const TICK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
/// Therefore their sum is worth this many ticks of traffic.
const TICKS: u32 = 4;
/// The sketch is cleared after this time without a packet that states an RTT.
const SILENCE: Duration = Duration::from_secs(10);
/// Share of bytes whose RTTs are considered, as a divisor.
const MANY: u64 = 3;
/// Share of bytes whose RTTs are considered up to [`STRETCH`] times those of `MANY`, as a divisor.
pub(crate) const FEW: u64 = 10;
/// With this value, a tenth over a satellite (600 ms) keeps its share of the link next to flows of
/// 40 ms. With half this value, the tenth loses a sixth.
pub(crate) const STRETCH: u64 = 16;
/// Below half of the capacity, the shortest RTT counts that this number of bytes have, or a tenth
/// of those that state one.
pub(crate) const WORTH: u64 = 16 * 1500;
/// Below this part of the capacity, the shortest RTTs count.
const LIGHT: u64 = 2;
/// Maximum of a bucket, so that sums can't overflow.
const MOST_BYTES: u64 = 1 << 44;

/// Bytes whose packets stated an RTT in this bucket.
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

/// Bytes by the RTT that their packets stated.
#[derive(Clone, Debug)]
pub(crate) struct RttSketch {
    buckets: Box<[Bucket]>,
    /// Bytes of all packets, with or without a stated RTT.
    all: u64,
    stated: u64,
    /// Time in which `all` arrived, decayed in the same way, and the current tick's length, in µs.
    over: u64,
    tick: u64,
    next_tick: Instant,
    last_stated: Instant,
}

impl RttSketch {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            buckets: vec![Bucket::default(); BUCKETS].into_boxed_slice(),
            all: 0,
            stated: 0,
            over: 0,
            tick: micros(TICK.0),
            next_tick: now + TICK.0,
            last_stated: now,
        }
    }

    pub(crate) const fn stated(&self) -> u64 {
        self.stated
    }

    pub(crate) const fn all(&self) -> u64 {
        self.all
    }

    /// Returns true if the arrivals are below half of a link's `capacity` in bytes per second.
    pub(crate) fn is_light(&self, capacity: u64) -> bool {
        let over = (self.over + self.tick).max(micros(TICK.0 * TICKS));
        self.all < mul_div(capacity / LIGHT, over, 1_000_000)
    }

    fn index(rtt_us: u64) -> usize {
        let octave = rtt_us.max(4).ilog2();
        let quarter = (rtt_us.max(4) >> (octave - 2)) & 3;
        usize::try_from(u64::from(octave) * 4 + quarter).map_or(BUCKETS - 1, |i| i.min(BUCKETS - 1))
    }

    /// Adds a packet's bytes to the bucket of its stated RTT. Returns true if this bucket was
    /// empty, or now reaches `WORTH`.
    pub(crate) fn count(&mut self, now: Instant, bytes: u32, rtt: Option<Duration>) -> bool {
        let bytes = u64::from(bytes);
        self.all = (self.all + bytes).min(MOST_BYTES);
        let Some(rtt) = rtt else {
            return false;
        };
        self.last_stated = now;
        let rtt_us = micros(rtt).clamp(1, u64::from(u32::MAX));
        let Some(bucket) = self.buckets.get_mut(Self::index(rtt_us)) else {
            return false;
        };
        let before = bucket.bytes;
        if bucket.bytes < MOST_BYTES {
            bucket.bytes += bytes;
            bucket.weighted += u128::from(bytes) * u128::from(rtt_us);
            self.stated += bytes;
        }
        before == 0 || (before < WORTH && bucket.bytes >= WORTH)
    }

    /// Decays old bytes, and clears the sketch after `SILENCE`. An interval has length `t_rho`.
    pub(crate) fn age(&mut self, now: Instant, t_rho: Duration) {
        if now - self.last_stated > SILENCE {
            *self = Self::new(now);
        }
        while now >= self.next_tick {
            self.all -= self.all.div_ceil(TICKS.into());
            self.over += self.tick;
            self.over -= self.over / u64::from(TICKS);
            let tick = (t_rho / 4).clamp(TICK.0, TICK.1);
            self.tick = micros(tick);
            self.next_tick += tick;
            self.stated = 0;
            for bucket in &mut self.buckets {
                bucket.decay();
                self.stated += bucket.bytes;
            }
        }
    }

    /// Returns the longest RTT in µs that is considered, based on shares of `all` bytes divided by
    /// `part`.
    pub(crate) fn long(&self, all: u64, part: u64) -> Option<u64> {
        let many = self.longest(all, MANY * part)?;
        let few = self.longest(all, FEW * part)?;
        Some(few.min(many.saturating_mul(STRETCH)))
    }

    /// Returns the shortest RTT in µs that is considered: `WORTH` bytes, or more than 1 / `FEW` of
    /// the bytes with a stated RTT, have this RTT or a shorter one.
    pub(crate) fn short(&self) -> Option<u64> {
        let mut below = 0;
        let known = self.buckets.iter().filter(|bucket| bucket.bytes > 0);
        for bucket in known {
            below += bucket.bytes;
            if below >= WORTH || below.saturating_mul(FEW) > self.stated {
                return Some(bucket.rtt_us());
            }
        }
        None
    }

    /// Returns the RTT in µs that counts at a link of `capacity` bytes per second. It is the
    /// shortest below half of that load. Above it, it is the longest RTT such that a third of the
    /// bytes have it or a longer one.
    pub(crate) fn reference(&self, capacity: u64) -> Option<u64> {
        if self.is_light(capacity) {
            self.short()
        } else {
            self.longest(self.stated, MANY)
        }
    }

    /// Returns the longest RTT in µs that is plausible in comparison with the reference.
    pub(crate) fn plausible(&self, capacity: u64) -> u64 {
        let reference = self.reference(capacity);
        reference.map_or(u64::MAX, |rtt| rtt.saturating_mul(STRETCH))
    }

    /// Returns the longest RTT in µs that is considered if a share 1 / `beyond` of `all` bytes may
    /// have longer ones.
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

    /// Returns the bytes whose packets stated more than this RTT.
    pub(crate) fn above(&self, rtt_us: u64) -> u64 {
        let longer = self.buckets.iter().filter(|b| b.rtt_us() > rtt_us);
        longer.map(|bucket| bucket.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    const CAPACITY: u64 = 2_500_000;
    /// In a second of a link in use, `part` in 1000 of the bytes state `long`, and the others 40
    /// ms.
    fn mixed(part: u32, long: Duration) -> RttSketch {
        let mut sketch = RttSketch::new(at(0));
        for packet in 0..2000 {
            let now = at(u64::from(packet) / 2);
            let rtt = [ms(40), long][usize::from(packet * part % 1000 < part)];
            sketch.count(now, 1250, Some(rtt));
            sketch.age(now, ms(100));
        }
        sketch
    }

    #[test]
    fn what_a_third_of_the_bytes_states_rules_a_link_in_use() {
        for (part, expected) in [(100, 40_000), (300, 40_000), (400, 600_000)] {
            let sketch = mixed(part, ms(600));
            assert!(!sketch.is_light(CAPACITY));
            assert_eq!(sketch.reference(CAPACITY), Some(expected), "{part}");
            assert_eq!(sketch.plausible(CAPACITY), expected * STRETCH);
        }
    }

    #[test]
    fn the_shortest_rules_a_light_link_and_silence_empties_the_sketch() {
        let mut sketch = mixed(900, ms(600));
        assert_eq!(sketch.reference(100 * CAPACITY), Some(40_000));
        sketch.age(at(12_000), ms(100));
        assert_eq!((sketch.stated(), sketch.reference(CAPACITY)), (0, None));
        assert_eq!(sketch.plausible(CAPACITY), u64::MAX);
    }
}
