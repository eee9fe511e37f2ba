//! A quantity that changes over time, with its mean, quantile and maximum, weighted by time.

use pathmark_cc::Instant;

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

#[inline]
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
    use super::*;
    use proptest::prelude::*;

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
