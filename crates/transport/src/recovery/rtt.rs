//! Round-trip time of one path (RFC 9002 §5), the probe timeout that follows from it (§6.2), and
//! what an outage does to both.

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

/// Maximum probe timeout, unless the path itself is slower (RFC 6298 §2.5 allows 60 s).
const LONGEST: Duration = Duration::from_secs(60);

/// Maximum share of the idle timeout, so that a probe detects a recovered path long before the
/// connection ends.
const IDLE_SHARE: u32 = 4;

/// Lower bound of that share, for very short idle timeouts.
const SHORTEST: Duration = Duration::from_secs(1);

/// The number of consecutive timeouts, over all packet number spaces.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimeout {
    count: u32,
    longest: Duration,
}

impl Default for ProbeTimeout {
    fn default() -> Self {
        Self::new()
    }
}

impl ProbeTimeout {
    /// Creates the state without any timeout.
    pub const fn new() -> Self {
        Self {
            count: 0,
            longest: LONGEST,
        }
    }

    /// Sets the idle timeout of the connection; `None`: never.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        let share = timeout.map_or(LONGEST, |timeout| timeout / IDLE_SHARE);
        self.longest = share.clamp(SHORTEST, LONGEST);
    }

    /// Returns the upper bound of the backoff.
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Returns the number of consecutive timeouts without an acknowledgement.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns when a timeout armed at `since` fires, given the `period` without backoff.
    pub fn deadline(self, since: Instant, period: Duration) -> Instant {
        // [9002 6.2.1 backoff]
        let backed_off = period.saturating_mul(1 << self.count.min(31));
        since + backed_off.min(self.longest.max(period))
    }

    /// Records that the timeout fired.
    pub const fn on_timeout(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Sets the number of consecutive timeouts, when another path becomes the current one.
    pub const fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    /// Resets the backoff, because something was acknowledged or a space was discarded.
    pub const fn reset(&mut self) {
        self.count = 0;
    }
}

/// The estimate from before the first of several consecutive probe timeouts, to which
/// [`RttEstimator`] goes back if it was measured across an outage since.
///
/// Packets and probes that a queue holds during an outage yield samples that reflect the length
/// of the outage instead of the path's RTT. A few such samples make the probe timeout as long as
/// the outage. Since the packets that the queue dropped fill the window, only a probe can then
/// discover that the path works again. Therefore, after probe timeouts:
///
/// - The timeout is at most as long as before the outage until a packet is acknowledged that
///   was sent after the first acknowledgement.
/// - That packet's sample decides. If it is closer to the estimate from before the outage, the
///   samples from the outage are discarded. Otherwise the path has become slower, and they are
///   kept.
#[derive(Debug, Default)]
pub(super) struct Outage {
    before: Option<RttEstimator>,
    /// When the first packet was acknowledged after the outage.
    over: Option<Instant>,
}

impl Outage {
    pub(super) fn on_probe_timeout(&mut self, rtt: &RttEstimator) {
        if self.before.is_none() && rtt.srtt().is_some() {
            self.before = Some(rtt.clone());
        }
    }

    /// Processes an RTT sample at `now`: the latest acknowledged packet was sent at `sent_at`.
    /// `rtt` already includes `sample`.
    pub(super) fn on_sample(
        &mut self,
        now: Instant,
        sent_at: Instant,
        sample: Duration,
        rtt: &mut RttEstimator,
    ) {
        let Some(over) = self.over else {
            self.over = self.before.as_ref().map(|_| now);
            return;
        };
        if sent_at < over {
            return;
        }
        self.over = None;
        let Some(before) = self.before.take() else {
            return;
        };
        let far = |known: &RttEstimator| known.srtt_or_initial().abs_diff(sample);
        if far(&before) < far(rtt) {
            rtt.go_back_to(before, over);
            // Count this sample again, with the same acknowledgement delay subtracted. The
            // sample can exceed `took`, because samples have a minimum.
            let took = now - sent_at;
            rtt.update(now, took, took.saturating_sub(sample));
        }
    }

    /// Returns the base of the probe timeout: [`RttEstimator::pto_base`], but at most that from
    /// before the outage.
    pub(super) fn pto_base(&self, rtt: &RttEstimator) -> Duration {
        let before = self.before.as_ref().map(RttEstimator::pto_base);
        before.map_or(rtt.pto_base(), |before| before.min(rtt.pto_base()))
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

    #[test]
    fn doubles_up_to_a_minute() {
        // [9002 6.2.1 backoff]
        let mut pto = ProbeTimeout::new();
        let waits = [(); 40].map(|()| {
            let at = pto.deadline(Instant::ZERO, Duration::from_secs(1));
            pto.on_timeout();
            at.as_nanos() / 1_000_000_000
        });
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(waits[39], 60);
        let longer = pto.deadline(Instant::ZERO, Duration::from_secs(90));
        assert_eq!(longer, Instant::from_millis(90_000));
        pto.reset();
        assert_eq!(pto.count(), 0);
    }

    #[test]
    fn a_quarter_of_the_idle_timeout_but_a_second() {
        let longest = |idle: Option<u64>| {
            let mut pto = ProbeTimeout::new();
            pto.set_idle_timeout(idle.map(Duration::from_millis));
            for _ in 0..40 {
                pto.on_timeout();
            }
            let at = pto.deadline(Instant::ZERO, Duration::from_millis(100));
            at.as_nanos() / 1_000_000
        };
        assert_eq!(longest(Some(30_000)), 7_500);
        assert_eq!(longest(Some(500)), 1_000);
        assert_eq!(longest(Some(3_600_000)), 60_000);
        assert_eq!(longest(None), 60_000);
    }

    /// The clock doesn't advance between sending a packet and its acknowledgement. Samples are
    /// at least a microsecond.
    #[test]
    fn a_round_trip_of_no_time_ends_an_outage() {
        let at = Instant::from_millis;
        let mut rtt = RttEstimator::new();
        let mut outage = Outage::default();
        rtt.update(at(10), Duration::ZERO, Duration::ZERO);
        outage.on_probe_timeout(&rtt);
        let long = rtt.update(at(510), Duration::from_millis(500), Duration::ZERO);
        outage.on_sample(at(510), at(10), long, &mut rtt);
        assert!(rtt.srtt() > Some(Duration::from_millis(50)));
        let short = rtt.update(at(510), Duration::ZERO, Duration::ZERO);
        outage.on_sample(at(510), at(510), short, &mut rtt);
        assert!(rtt.srtt() <= Some(Duration::from_micros(1)));
    }
}
