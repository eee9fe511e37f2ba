//! Counters and measurements of a link: packets, queueing delays, and quantities that change over
//! time, with their mean, quantile and maximum.

use pathmark_cc::{Duration, Instant};

/// The reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// Active queue management dropped it early.
    Early,
    /// Its room was needed by the other class of a separated port, or by a sparse flow of its
    /// own class.
    PushedOut,
    /// The control law dropped it because its flow sent more than it declared or was granted.
    Policed,
    /// It was lost on the impaired wire.
    RandomLoss,
    /// The wire had no room for further packets.
    WireFull,
    /// The port was taken down, or its queue replaced.
    Removed,
    /// The port's packets had used all the memory that they may.
    NoBuffer,
}

impl DropCause {
    /// All causes, in the order of [`Drops`].
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::Early,
        Self::PushedOut,
        Self::Policed,
        Self::RandomLoss,
        Self::WireFull,
        Self::Removed,
        Self::NoBuffer,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Early => "early",
            Self::PushedOut => "pushed_out",
            Self::Policed => "policed",
            Self::RandomLoss => "random_loss",
            Self::WireFull => "wire_full",
            Self::Removed => "removed",
            Self::NoBuffer => "no_buffer",
        }
    }
}

/// Dropped packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropCause::ALL.len()]);

impl Drops {
    pub(crate) fn count(&mut self, cause: DropCause) {
        if let Some(n) = self.0.get_mut(cause as usize) {
            *n += 1;
        }
    }

    /// Packets dropped for `cause`.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// All dropped packets.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Packets that the queue dropped for any reason.
    pub fn by_queue(&self) -> u64 {
        self.of(DropCause::QueueFull) + self.of(DropCause::Early) + self.of(DropCause::PushedOut)
    }
}

/// A link's counters since it came up.
#[derive(Clone, Debug)]
pub struct LinkStats {
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) drops: Drops,
    pub(crate) queue_packets: Gauge,
    /// Of foreign packets, and of those that carry feedback.
    pub(crate) delays: [Delays; 2],
    queue_micros: Gauge,
    /// Microseconds per byte, in 2^-32, because multiplying is cheaper than dividing for each
    /// packet.
    micros_q32: u64,
    capacity: Capacity,
}

impl LinkStats {
    pub(crate) fn new(now: Instant, rate: Option<u64>) -> Self {
        Self {
            arrived_packets: 0,
            arrived_bytes: 0,
            sent_packets: 0,
            sent_bytes: 0,
            drops: Drops::default(),
            queue_packets: Gauge::new(now),
            delays: [Delays::default(); 2],
            queue_micros: Gauge::new(now),
            micros_q32: micros_per_byte(rate),
            capacity: Capacity {
                rate: rate.unwrap_or(0),
                since: now,
                byte_nanos: 0,
            },
        }
    }

    pub(crate) fn on_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.capacity.byte_nanos = self.capacity.until(now);
        self.capacity.since = now;
        self.capacity.rate = rate.unwrap_or(0);
        self.micros_q32 = micros_per_byte(rate);
    }

    #[inline]
    pub(crate) fn queue_bytes(&mut self, now: Instant, bytes: u64) {
        let micros = (u128::from(bytes) * u128::from(self.micros_q32)) >> 32;
        self.queue_micros
            .set(now, u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// Packets that arrived.
    pub fn arrived_packets(&self) -> u64 {
        self.arrived_packets
    }

    /// IP bytes that arrived.
    pub fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// Packets that left for the wire.
    pub fn sent_packets(&self) -> u64 {
        self.sent_packets
    }

    /// IP bytes that left for the wire.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Drops by cause.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// The queue in packets, weighted by time.
    pub fn queue_packets(&self, now: Instant) -> Summary {
        self.queue_packets.summary(now)
    }

    /// The queue as the time to drain it at the link's current rate, in microseconds, weighted
    /// by time.
    pub fn queue_micros(&self, now: Instant) -> Summary {
        self.queue_micros.summary(now)
    }

    /// Queueing delays of departed packets: foreign ones, and those that carry feedback.
    pub fn delays(&self) -> &[Delays; 2] {
        &self.delays
    }

    /// Bytes that the link could have carried so far, which is its rate integrated over time. 0
    /// for a link without a rate.
    pub fn capacity_bytes(&self, now: Instant) -> u64 {
        u64::try_from(self.capacity.until(now) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

fn micros_per_byte(rate: Option<u64>) -> u64 {
    rate.and_then(|rate| (1_000_000u64 << 32).checked_div(rate))
        .unwrap_or(0)
}

/// The integral of the rate over time.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    rate: u64,
    since: Instant,
    byte_nanos: u128,
}

impl Capacity {
    fn until(&self, now: Instant) -> u128 {
        let elapsed: Duration = now.saturating_since(self.since);
        self.byte_nanos + u128::from(self.rate) * elapsed.as_nanos()
    }
}

/// Exponent of the first bound: 2^16 ns.
const FIRST: u32 = 16;
/// Bounds, each twice the one before: 2^16 ns (66 µs) to 2^32 ns (4.3 s).
const BOUNDS: usize = 17;

/// A histogram of queueing delays, in nanoseconds. Counting only takes one increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Number of packets up to each bound and above the previous one; the last entry is above
    /// all bounds.
    counts: [u64; BOUNDS + 1],
    sum_nanos: u64,
}

impl Delays {
    /// Counts packets that waited for this long.
    #[inline]
    pub fn count(&mut self, nanos: u64, packets: u32) {
        // Bounds are inclusive, as in Prometheus: 2^16 belongs to the first.
        let exponent = u64::BITS - nanos.saturating_sub(1).leading_zeros();
        let index = exponent.saturating_sub(FIRST) as usize;
        if let Some(count) = self.counts.get_mut(index.min(BOUNDS)) {
            *count += u64::from(packets);
        }
        let sum = nanos.saturating_mul(packets.into());
        self.sum_nanos = self.sum_nanos.wrapping_add(sum);
    }

    /// Bounds in seconds, each with the number of packets that waited no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut below = 0;
        (FIRST..)
            .zip(&self.counts[..BOUNDS])
            .map(move |(exponent, count)| {
                below += count;
                ((1u64 << exponent) as f64 / 1e9, below)
            })
    }

    /// Number of all packets.
    pub fn packets(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all delays in seconds.
    pub fn seconds(&self) -> f64 {
        self.sum_nanos as f64 / 1e9
    }
}

/// Buckets per octave (a power of two): values are resolved to 1/64, values below 64 exactly.
const SUB: u64 = 64;
const SUB_BITS: u32 = SUB.trailing_zeros();
/// Octaves above the exact range; anything larger falls into the last bucket.
const OCTAVES: u64 = 26;
const BUCKETS: usize = (SUB * (OCTAVES + 1)) as usize;

/// Time-weighted statistics of a value that stays constant between calls of [`set`](Gauge::set).
///
/// Memory is fixed (14 KiB). Values above 2^32 count as 2^32 in quantiles, but exactly in mean
/// and maximum.
#[derive(Clone, Debug)]
pub struct Gauge {
    since: Instant,
    start: Instant,
    value: u64,
    max: u64,
    /// Integral of the value over nanoseconds.
    area: u128,
    /// Nanoseconds spent at a value above zero.
    nonzero: u64,
    /// Nanoseconds per bucket.
    time: Box<[u64; BUCKETS]>,
}

/// The statistics of a [`Gauge`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The current value.
    pub now: u64,
    /// Mean over time, in thousandths.
    pub mean_milli: u64,
    /// Mean over the time during which the value was above zero, in thousandths.
    pub mean_nonempty_milli: u64,
    /// Not exceeded during 99 % of the time (resolved to 1/64).
    pub p99: u64,
    /// The largest value that lasted for any time.
    pub max: u64,
}

impl Gauge {
    /// Creates a gauge that is zero since `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            start: now,
            value: 0,
            max: 0,
            area: 0,
            nonzero: 0,
            time: Box::new([0; BUCKETS]),
        }
    }

    /// Sets the value from `now` on.
    #[inline]
    pub fn set(&mut self, now: Instant, value: u64) {
        if value == self.value {
            return;
        }
        let elapsed = now.as_nanos().saturating_sub(self.since.as_nanos());
        if elapsed > 0 {
            self.area += u128::from(self.value) * u128::from(elapsed);
            if let Some(bucket) = self.time.get_mut(bucket_of(self.value)) {
                *bucket += elapsed;
            }
            if self.value > 0 {
                self.nonzero += elapsed;
            }
            // A value that lasted no time (a packet that passes directly) does not count.
            self.max = self.max.max(self.value);
            self.since = now;
        }
        self.value = value;
    }

    /// Statistics up to `now`.
    pub fn summary(&self, now: Instant) -> Summary {
        let pending = now.as_nanos().saturating_sub(self.since.as_nanos());
        let area = self.area + u128::from(self.value) * u128::from(pending);
        let total = now.as_nanos().saturating_sub(self.start.as_nanos());
        let nonzero = self.nonzero + if self.value > 0 { pending } else { 0 };
        let mean = |over: u64| {
            let milli = (area * 1000).checked_div(u128::from(over)).unwrap_or(0);
            u64::try_from(milli).unwrap_or(u64::MAX)
        };
        Summary {
            now: self.value,
            mean_milli: mean(total),
            mean_nonempty_milli: mean(nonzero),
            p99: self.quantile(pending, total, 99),
            max: self.max_until(pending),
        }
    }

    fn max_until(&self, pending: u64) -> u64 {
        if pending > 0 {
            self.max.max(self.value)
        } else {
            self.max
        }
    }

    fn quantile(&self, pending: u64, total: u64, percent: u64) -> u64 {
        if self.max_until(pending) == 0 {
            return 0;
        }
        let wanted = u128::from(total) * u128::from(percent);
        let current = bucket_of(self.value);
        let mut seen = 0u128;
        for (index, &nanos) in self.time.iter().enumerate() {
            seen += u128::from(nanos)
                + if index == current {
                    u128::from(pending)
                } else {
                    0
                };
            if seen * 100 >= wanted {
                return bucket_top(index).min(self.max_until(pending));
            }
        }
        self.max_until(pending)
    }
}

fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    // 64 ≤ value: the six bits below the leading one select the bucket within its octave.
    let octave = u64::from(63 - value.leading_zeros() - SUB_BITS);
    let sub = (value >> octave) - SUB;
    ((SUB * (octave + 1) + sub) as usize).min(BUCKETS - 1)
}

/// The largest value in a bucket.
fn bucket_top(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB {
        return index;
    }
    let octave = index / SUB - 1;
    ((SUB + index % SUB + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let mut delays = Delays::default();
        for (nanos, packets) in [
            (0, 1),
            (1 << 16, 2),
            ((1 << 16) + 1, 4),
            (1 << 32, 8),
            (u64::MAX, 16),
        ] {
            delays.count(nanos, packets);
        }
        let counts: Vec<_> = delays.cumulative().collect();
        assert_eq!(counts.len(), BOUNDS);
        assert_eq!(counts[0], (65_536e-9, 3));
        assert_eq!(counts[1], (131_072e-9, 7));
        assert_eq!((counts[15].1, counts[16]), (7, (4.294_967_296, 15)));
        assert_eq!(delays.packets(), 31);
    }

    #[test]
    fn buckets_tile_the_numbers() {
        for index in 0..BUCKETS - 1 {
            let top = bucket_top(index);
            assert_eq!(bucket_of(top), index);
            assert_eq!(bucket_of(top + 1), index + 1);
        }
    }

    #[test]
    fn mean_counts_time_not_changes() {
        let mut gauge = Gauge::new(Instant::ZERO);
        gauge.set(Instant::from_millis(90), 10); // 0 for 90 ms
        gauge.set(Instant::from_millis(100), 0); // 10 for 10 ms
        let summary = gauge.summary(Instant::from_millis(200));
        assert_eq!(summary.mean_milli, 500);
        assert_eq!(summary.mean_nonempty_milli, 10_000);
        assert_eq!(summary.max, 10);
        assert_eq!(summary.p99, 10);
        assert_eq!(gauge.summary(Instant::from_millis(1100)).p99, 0);
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(
            steps in prop::collection::vec((1u64..1_000, 0u64..100_000), 1..60),
        ) {
            let mut gauge = Gauge::new(Instant::ZERO);
            let mut now = 0;
            let mut spans = Vec::new();
            let mut value = 0;
            for (dt, next) in steps {
                now += dt;
                spans.push((value, dt));
                gauge.set(Instant::from_nanos(now), next);
                value = next;
            }
            now += 17;
            spans.push((value, 17));
            let summary = gauge.summary(Instant::from_nanos(now));
            let area: u64 = spans.iter().map(|(v, dt)| v * dt).sum();
            prop_assert_eq!(summary.mean_milli, area * 1000 / now);
            spans.sort_unstable();
            let mut seen = 0;
            let exact = spans.iter().find(
                |(_, dt)| { seen += dt; seen * 100 >= now * 99 },
            ).unwrap().0;
            prop_assert!(summary.p99 >= exact);
            prop_assert!(summary.p99 <= exact + exact / 64 + 1);
        }
    }
}
