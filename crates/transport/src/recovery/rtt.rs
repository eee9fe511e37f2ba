//! Round-trip time of one path (RFC 9002 §5).

use crate::{Duration, Instant};

/// RTT that timers assume before the first sample (RFC 9002 §6.2.2).
pub const INITIAL_RTT: Duration = Duration::from_millis(333);
/// Granularity of timers (RFC 9002 §6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);
/// Minimum sample, so that a coarse clock does not make the path appear instantaneous.
const MIN_SAMPLE: Duration = Duration::from_micros(1);
/// Maximum sample, far above any real path, so that the scaled sums cannot overflow.
const MAX_SAMPLE: Duration = Duration::from_secs(1 << 24);

/// Smoothed RTT, its variation and its minimum. All are unknown until the first sample.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    sampled: Option<Sampled>,
}

/// Scaled sums, so that the shifts of RFC 9002 §5.3 lose no precision between samples.
#[derive(Clone, Debug)]
struct Sampled {
    latest: Duration,
    min: Duration,
    /// 8 × smoothed RTT, in ns.
    srtt_8: u64,
    /// 4 × RTT variation, in ns.
    var_4: u64,
    first_at: Instant,
    /// When the last outage with discarded samples ended, and the base of the probe timeout by
    /// these samples.
    outage: Option<(Instant, Duration)>,
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl RttEstimator {
    /// Creates an estimator without samples.
    pub const fn new() -> Self {
        Self { sampled: None }
    }

    /// Processes a sample: `latest` is the time from sending to acknowledgement, of which the
    /// peer claims `ack_delay` (already limited by its `max_ack_delay`, RFC 9002 §5.3). Returns
    /// the sample with the delay subtracted, as far as the delay is plausible.
    pub fn update(&mut self, now: Instant, latest: Duration, ack_delay: Duration) -> Duration {
        let latest = latest.clamp(MIN_SAMPLE, MAX_SAMPLE);
        let Some(s) = &mut self.sampled else {
            let ns = nanos(latest);
            self.sampled = Some(Sampled {
                latest,
                min: latest,
                srtt_8: ns * 8,
                var_4: ns * 2,
                first_at: now,
                outage: None,
            });
            return latest;
        };
        s.latest = latest;
        // The minimum ignores the claimed delay, so that a lying peer cannot lower the RTT (§5.2).
        // [9002 5.2 min-rtt]
        s.min = s.min.min(latest);
        // [9002 5.3 ack-delay-floor]
        let adjusted = if latest >= s.min + ack_delay {
            latest - ack_delay
        } else {
            latest
        };
        let sample = nanos(adjusted);
        let deviation = (s.srtt_8 / 8).abs_diff(sample);
        s.var_4 = s.var_4 - s.var_4 / 4 + deviation;
        s.srtt_8 = s.srtt_8 - s.srtt_8 / 8 + sample;
        adjusted
    }

    /// Discards the samples since `before`, except the minimum, because an outage that ended at
    /// `over` distorted them.
    pub(super) fn go_back_to(&mut self, before: Self, over: Instant) {
        let (least, base) = (self.min(), self.pto_base());
        *self = before;
        if let (Some(s), Some(least)) = (&mut self.sampled, least) {
            s.min = s.min.min(least);
            s.outage = Some((over, base));
        }
    }

    /// Returns [`pto_base`](Self::pto_base) for judging the loss of packets sent at `sent_at`.
    /// For packets sent during an outage, it includes its samples.
    pub(super) fn pto_base_at(&self, sent_at: Instant) -> Duration {
        let outage = self.sampled.as_ref().and_then(|s| s.outage);
        let outage = outage.filter(|(over, _)| sent_at < *over);
        outage.map_or(self.pto_base(), |(_, base)| base.max(self.pto_base()))
    }

    /// Returns the smoothed RTT.
    pub fn srtt(&self) -> Option<Duration> {
        self.sampled
            .as_ref()
            .map(|s| Duration::from_nanos(s.srtt_8 / 8))
    }

    /// Returns the RTT variation (mean deviation).
    pub fn variation(&self) -> Option<Duration> {
        self.sampled
            .as_ref()
            .map(|s| Duration::from_nanos(s.var_4 / 4))
    }

    /// Returns the last sample, including the acknowledgement delay.
    pub fn latest(&self) -> Option<Duration> {
        self.sampled.as_ref().map(|s| s.latest)
    }

    /// Returns the minimum RTT of this path.
    pub fn min(&self) -> Option<Duration> {
        self.sampled.as_ref().map(|s| s.min)
    }

    /// Returns when the first sample was taken (RFC 9002 §7.6.2 ignores earlier losses).
    pub fn first_sample_at(&self) -> Option<Instant> {
        self.sampled.as_ref().map(|s| s.first_at)
    }

    /// Returns the smoothed RTT for timers, which is [`INITIAL_RTT`] while unknown.
    pub fn srtt_or_initial(&self) -> Duration {
        self.srtt().unwrap_or(INITIAL_RTT)
    }

    /// Returns the larger of the smoothed and the latest RTT, from which loss timers are
    /// derived (RFC 9002 §6.1.2).
    pub fn longest(&self) -> Duration {
        self.sampled.as_ref().map_or(INITIAL_RTT, |s| {
            s.latest.max(Duration::from_nanos(s.srtt_8 / 8))
        })
    }

    /// Returns the probe timeout without the peer's acknowledgement delay and without backoff
    /// (RFC 9002 §6.2.1): srtt + max(4·rttvar, 1 ms).
    pub fn pto_base(&self) -> Duration {
        let (srtt, var_4) = self
            .sampled
            .as_ref()
            .map_or((INITIAL_RTT, INITIAL_RTT * 2), |s| {
                (
                    Duration::from_nanos(s.srtt_8 / 8),
                    Duration::from_nanos(s.var_4),
                )
            });
        // [9002 6.2.1 least-period]
        srtt + var_4.max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn known_answers() {
        // [9002 5.2 min-rtt]
        let mut rtt = RttEstimator::new();
        assert_eq!((rtt.srtt(), rtt.min()), (None, None));
        assert_eq!(rtt.pto_base(), ms(999));
        // Samples 100, 120, 80, 100 ms; half nanoseconds are only rounded down when reading.
        let expected = [
            (100, 100_000_000, 50_000_000, 300_000_000),
            (120, 102_500_000, 42_500_000, 272_500_000),
            (80, 99_687_500, 37_500_000, 249_687_500),
            (100, 99_726_562, 28_203_125, 212_539_062),
        ];
        for (sample, srtt, var, pto) in expected {
            rtt.update(Instant::ZERO, ms(sample), Duration::ZERO);
            assert_eq!(rtt.srtt(), Some(Duration::from_nanos(srtt)));
            assert_eq!(rtt.variation(), Some(Duration::from_nanos(var)));
            assert_eq!(rtt.pto_base(), Duration::from_nanos(pto));
        }
        assert_eq!(rtt.min(), Some(ms(80)));
    }

    #[test]
    fn timers_go_by_the_larger_and_by_a_guess_before_any_sample() {
        // [9002 6.2.1 least-period]
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.first_sample_at(), None);
        assert_eq!((rtt.longest(), rtt.srtt_or_initial()), (ms(333), ms(333)));
        let first = Instant::from_millis(7);
        rtt.update(first, ms(100), Duration::ZERO);
        assert_eq!((rtt.longest(), rtt.srtt_or_initial()), (ms(100), ms(100)));
        rtt.update(Instant::from_millis(8), ms(180), Duration::ZERO);
        assert_eq!((rtt.longest(), rtt.srtt_or_initial()), (ms(180), ms(110)));
        rtt.update(Instant::from_millis(9), ms(30), Duration::ZERO);
        assert_eq!((rtt.longest(), rtt.srtt_or_initial()), (ms(100), ms(100)));
        assert_eq!(rtt.first_sample_at(), Some(first));
        // Without any deviation, the timeout still includes a millisecond.
        let mut steady = RttEstimator::new();
        for _ in 0..200 {
            steady.update(first, ms(40), Duration::ZERO);
        }
        assert_eq!(steady.pto_base(), ms(41));
    }

    #[test]
    fn claimed_delay_counts_only_above_the_minimum() {
        // [9002 5.2 min-rtt] [9002 5.3 ack-delay-floor]
        let mut rtt = RttEstimator::new();
        assert_eq!(rtt.update(Instant::ZERO, ms(100), ms(25)), ms(100));
        assert_eq!(rtt.update(Instant::ZERO, ms(130), ms(25)), ms(105));
        assert_eq!(rtt.update(Instant::ZERO, ms(110), ms(25)), ms(110));
        assert_eq!(rtt.update(Instant::ZERO, ms(125), ms(25)), ms(100));
        assert_eq!((rtt.min(), rtt.latest()), (Some(ms(100)), Some(ms(125))));
    }

    #[test]
    fn no_sample_is_zero_and_none_overflows() {
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::ZERO, Duration::ZERO, Duration::ZERO);
        assert_eq!(rtt.srtt(), Some(MIN_SAMPLE));
        for _ in 0..100 {
            rtt.update(Instant::ZERO, Duration::MAX, Duration::ZERO);
        }
        assert!(rtt.srtt().unwrap() <= MAX_SAMPLE);
        assert!(rtt.pto_base() >= rtt.srtt().unwrap());
    }
}
