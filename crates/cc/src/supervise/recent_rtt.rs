//! Recent RTTs, for laws that scale with the smoothed RTT.
//!
//! Each sample only replaces an eighth of the smoothed RTT. After an interruption with packets
//! delayed by seconds, it therefore remains long for many round trips, and a law that scales with
//! it would grow too fast. Therefore these laws use at most the longest of the latest samples, and
//! at most twice the very latest sample, because the first packets without delay show that the
//! interruption is over.

use crate::base::{Duration, Instant};

/// Minimum number of samples in a span, which also lasts for at least a round trip. The longest
/// sample of the current and of the previous span counts.
const SPAN: u8 = 4;

/// The smoothed RTT counts up to this multiple of the latest sample.
const MOST_TIMES: u32 = 2;

/// The longest of the latest RTT samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentRtt {
    most: [Duration; 2],
    last: Duration,
    at: Option<Instant>,
    samples: u8,
    since: Instant,
}

impl RecentRtt {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            most: [Duration::ZERO; 2],
            last: Duration::ZERO,
            at: None,
            samples: 0,
            since: now,
        }
    }

    /// Adds an RTT sample. A sample reported twice, with an acknowledgement and with its feedback,
    /// only counts once.
    #[inline]
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if self.at.replace(now) == Some(now) && self.last == rtt {
            return;
        }
        if self.samples >= SPAN && now - self.since >= rtt {
            self.samples = 0;
            self.since = now;
            self.most = [Duration::ZERO, self.most[0]];
        }
        self.samples = self.samples.saturating_add(1);
        self.most[0] = self.most[0].max(rtt);
        self.last = rtt;
    }

    /// Returns the smoothed RTT, limited by recent samples.
    #[inline]
    pub(crate) fn bound(&self, srtt: Duration) -> Duration {
        let longest = self.most[0].max(self.most[1]);
        if longest.is_zero() {
            srtt
        } else {
            srtt.min(longest).min(self.last.saturating_mul(MOST_TIMES))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    #[test]
    fn a_smoothed_round_trip_of_an_interruption_is_forgotten_after_two_spans() {
        let mut now = Instant::ZERO;
        let mut recent = RecentRtt::new(now);
        assert_eq!(recent.bound(ms(100)), ms(100));
        now += ms(5000);
        for n in 0..10 {
            recent.on_sample(now, ms(4991 + n));
        }
        for n in 0..10 {
            now += ms(5);
            recent.on_sample(now, ms(20));
            let forgotten = n >= 7;
            assert_eq!(recent.bound(ms(1500)) == ms(20), forgotten, "{n}");
            assert!(recent.bound(ms(1500)) <= ms(40), "{n}");
        }
        assert_eq!(recent.bound(ms(18)), ms(18));
    }

    #[test]
    fn a_sample_that_is_told_twice_counts_once() {
        let tell = |times: u8| {
            let mut now = Instant::ZERO;
            let mut recent = RecentRtt::new(now);
            recent.on_sample(now, ms(5000));
            for _ in 0..9 {
                now += ms(5);
                for _ in 0..times {
                    recent.on_sample(now, ms(20));
                }
            }
            (recent.samples, recent.most)
        };
        assert_eq!(tell(1), tell(2));
    }

    #[test]
    fn jitter_changes_nothing() {
        let mut now = Instant::ZERO;
        let mut recent = RecentRtt::new(now);
        for n in 0..1000 {
            now += ms(1);
            recent.on_sample(now, ms(40 + n * 7 % 41));
            assert!(n < 41 || recent.bound(ms(65)) == ms(65), "{n}");
        }
    }
}
