//! The retransmission timeout of ns-2 with timestamps: RFC 6298 with a clock of 10 ms and a minimum
//! of 200 ms.

use pathmark_cc::{Duration, Instant};

/// Resolution of the clock in nanoseconds, `tcpTick_` of ns-2.
const TICK: u64 = 10_000_000;
/// Minimum, `minrto_` of ns-2, and maximum (RFC 6298, section 2.5).
const LEAST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);
/// Timeout before the first RTT sample, `rtxcur_init_` of ns-2.
const FIRST: Duration = Duration::from_secs(3);
/// Most doublings.
const MOST_DOUBLINGS: u32 = 6;

/// Computes the timeout from RTT samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeout {
    /// Smoothed RTT in eighths of a tick, and its variation in quarters.
    rtt: Option<(u64, u64)>,
    doublings: u32,
}

impl Timeout {
    /// Takes the RTT of a segment from its timestamp.
    pub(super) fn sample(&mut self, sent: Instant, now: Instant) {
        let rtt = (now.as_nanos() / TICK).saturating_sub(sent.as_nanos() / TICK);
        let rtt = rtt.max(1);
        self.rtt = Some(match self.rtt {
            None => (rtt * 8, rtt * 2),
            Some((smoothed, variation)) => {
                let error = rtt.abs_diff(smoothed / 8);
                (
                    smoothed - smoothed / 8 + rtt,
                    (variation - variation / 4 + error).max(1),
                )
            }
        });
    }

    /// Doubles the timeout until [`recover`](Self::recover).
    pub(super) fn back_off(&mut self) {
        self.doublings = MOST_DOUBLINGS.min(self.doublings + 1);
    }

    /// Ends the doublings, because a segment was acknowledged that was first sent after them.
    pub(super) fn recover(&mut self) {
        self.doublings = 0;
    }

    pub(super) fn get(&self) -> Duration {
        let once = self.rtt.map_or(FIRST, |(smoothed, variation)| {
            Duration::from_nanos((smoothed / 8 + variation) * TICK).max(LEAST)
        });
        once.saturating_mul(1 << self.doublings).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298, section 2, with floats, without a clock.
    #[derive(Default)]
    struct Oracle {
        rtt: Option<(f64, f64)>,
    }

    impl Oracle {
        fn sample(&mut self, rtt: f64) -> f64 {
            let (smoothed, variation) = match self.rtt {
                None => (rtt, rtt / 2.0),
                Some((smoothed, variation)) => (
                    0.875 * smoothed + 0.125 * rtt,
                    0.75 * variation + 0.25 * (smoothed - rtt).abs(),
                ),
            };
            self.rtt = Some((smoothed, variation));
            (smoothed + 4.0 * variation).max(0.2)
        }
    }

    #[test]
    fn the_timeout_follows_rfc_6298_within_the_clock() {
        let (mut timeout, mut oracle) = (Timeout::default(), Oracle::default());
        assert_eq!(timeout.get(), FIRST);
        for round in 0..200u64 {
            let rtt = [60, 60, 130, 400, 90][(round / 7 % 5) as usize] + round % 3;
            let sent = Instant::from_millis(1_000 * round);
            timeout.sample(sent, Instant::from_millis(1_000 * round + rtt));
            let exact = oracle.sample(rtt as f64 / 1e3);
            let off = (timeout.get().as_secs_f64() - exact).abs();
            assert!(off <= 0.05, "{round}: {:?} {exact}", timeout.get());
        }
    }

    #[test]
    fn it_doubles_up_to_a_minute_until_new_data_arrive() {
        let mut timeout = Timeout::default();
        timeout.sample(Instant::ZERO, Instant::from_millis(600));
        let once = timeout.get();
        assert_eq!(once, Duration::from_millis(1_800));
        timeout.back_off();
        timeout.sample(Instant::ZERO, Instant::from_millis(600));
        assert!(timeout.get() > once, "a sample alone doesn't end it");
        for _ in 0..100 {
            timeout.back_off();
        }
        assert_eq!(timeout.get(), LONGEST);
        timeout.recover();
        assert!(timeout.get() <= once);
    }
}
