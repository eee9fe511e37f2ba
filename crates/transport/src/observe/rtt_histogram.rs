//! The distribution of RTT samples. Since buckets are an eighth of an octave wide, a sample only
//! takes one shift and one addition.

use crate::Duration;

/// Sub-buckets per octave, as a power of two.
const SUB_BITS: u32 = 3;
/// Number of buckets, which cover up to 2^31 µs (36 minutes).
const BUCKETS: usize = 29 << SUB_BITS;

/// RTT samples of a connection.
#[derive(Clone)]
pub struct RttHistogram {
    buckets: [u32; BUCKETS],
    samples: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

impl Default for RttHistogram {
    fn default() -> Self {
        Self {
            buckets: [0; BUCKETS],
            samples: 0,
            sum: Duration::ZERO,
            min: Duration::MAX,
            max: Duration::ZERO,
        }
    }
}

/// Returns the bucket of a value. Values below 2^SUB_BITS have a bucket each; larger values share a
/// bucket if their leading bit and the next three bits are equal.
fn index(micros: u64) -> usize {
    let octave = (63 - (micros | 1).leading_zeros()).saturating_sub(SUB_BITS);
    let sub = (micros >> octave) as usize;
    ((octave as usize) << SUB_BITS)
        .saturating_add(sub)
        .min(BUCKETS - 1)
}

/// Returns the largest value of a bucket.
fn ceiling(index: usize) -> u64 {
    let octave = (index >> SUB_BITS).saturating_sub(1);
    let sub = (index - (octave << SUB_BITS)) as u64;
    ((sub + 1) << octave) - 1
}

impl RttHistogram {
    /// Counts a sample.
    pub(crate) fn record(&mut self, rtt: Duration) {
        let micros = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(index(micros)) {
            *bucket = bucket.saturating_add(1);
        }
        self.samples += 1;
        self.sum = self.sum.saturating_add(rtt);
        self.min = self.min.min(rtt);
        self.max = self.max.max(rtt);
    }

    /// Returns the number of samples.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the minimum sample, or `None` before the first.
    pub fn min(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.min)
    }

    /// Returns the maximum sample, or `None` before the first.
    pub fn max(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.max)
    }

    /// Returns the mean of the samples, or `None` before the first.
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.sum.as_nanos().checked_div(u128::from(self.samples))?;
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    /// Returns the value that `per_mille` thousandths of the samples don't exceed, rounded up by at
    /// most an eighth, or `None` before the first sample.
    pub fn quantile(&self, per_mille: u16) -> Option<Duration> {
        if self.samples == 0 {
            return None;
        }
        let rank = (self.samples * u64::from(per_mille.min(1000))).div_ceil(1000);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&n| {
            seen += u64::from(n);
            seen >= rank.max(1)
        })?;
        Some(Duration::from_micros(ceiling(bucket)).clamp(self.min, self.max))
    }
}

impl core::fmt::Debug for RttHistogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RttHistogram")
            .field("samples", &self.samples)
            .field("min", &self.min())
            .field("p50", &self.quantile(500))
            .field("p99", &self.quantile(990))
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_ends_where_the_next_begins() {
        for i in 0..BUCKETS - 1 {
            assert_eq!(index(ceiling(i)), i);
            assert_eq!(index(ceiling(i) + 1), i + 1);
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let mut histogram = RttHistogram::default();
        assert_eq!(histogram.quantile(500), None);
        for ms in 1..=1000 {
            histogram.record(Duration::from_millis(ms));
        }
        for (per_mille, exact) in [(500, 500.0), (990, 990.0), (10, 10.0)] {
            let got = histogram.quantile(per_mille).unwrap().as_secs_f64() * 1e3;
            assert!(got >= exact && got <= exact * 1.125, "{got} for {exact}");
        }
        assert_eq!(histogram.quantile(1000), Some(Duration::from_secs(1)));
        assert_eq!(histogram.min(), Some(Duration::from_millis(1)));
        assert_eq!(histogram.mean(), Some(Duration::from_micros(500_500)));
    }
}
