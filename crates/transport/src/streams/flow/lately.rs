//! The largest earned value of the recent past.
//!
//! Over a short path, the last round trips aren't representative: an application reads in
//! bursts when it is scheduled, and nothing arrives while a sender waits for a probe timeout.
//! If earned memory expired after a few round trips, data sent in reliance on it would be
//! refused.

use pathmark_cc::{Duration, Instant};

/// Minimum period. A value is kept for one to two periods.
const PERIOD: Duration = Duration::from_millis(100);

/// The largest values of the current and the previous period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// Start of the current period.
    since: Instant,
    present: u64,
    previous: u64,
}

impl Lately {
    /// Records that `value` is earned now. It is kept for one to two periods of `least`, or of
    /// [`PERIOD`] if that is longer.
    pub(super) fn sample(&mut self, now: Instant, value: u64, least: Duration) {
        let period = least.max(PERIOD);
        let elapsed = now.saturating_since(self.since);
        if elapsed >= period {
            let follows = elapsed < period * 2;
            self.previous = if follows { self.present } else { 0 };
            self.present = 0;
            self.since = now;
        }
        self.present = self.present.max(value);
    }

    pub(super) const fn most(&self) -> u64 {
        if self.present > self.previous {
            self.present
        } else {
            self.previous
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(5000 + millis)
    }

    fn sample(lately: &mut Lately, now: Instant, value: u64) -> u64 {
        lately.sample(now, value, Duration::ZERO);
        lately.most()
    }

    #[test]
    fn the_most_stays_for_one_to_two_periods() {
        let mut lately = Lately::default();
        let values = [(0, 7), (10, 50), (30, 0), (99, 3)];
        let found = values.map(|(ms, value)| sample(&mut lately, at(ms), value));
        assert_eq!(found, [7, 50, 50, 50]);
        // The second period began with the sample at 100, the third with the one at 250.
        let values = [(100, 4), (199, 0), (250, 1), (349, 0), (350, 0)];
        let found = values.map(|(ms, value)| sample(&mut lately, at(ms), value));
        assert_eq!(found, [50, 50, 4, 4, 1]);
    }

    #[test]
    fn a_longer_period_keeps_it_longer() {
        let mut lately = Lately::default();
        let second = Duration::from_secs(1);
        lately.sample(at(0), 9, second);
        lately.sample(at(1000), 0, second);
        lately.sample(at(1999), 0, second);
        assert_eq!(lately.most(), 9);
        lately.sample(at(2000), 1, second);
        assert_eq!(lately.most(), 1);
    }

    #[test]
    fn a_pause_ends_it() {
        let mut lately = Lately::default();
        assert_eq!(sample(&mut lately, at(0), 9), 9);
        assert_eq!(sample(&mut lately, at(200), 1), 1);
        // Time that goes backwards changes nothing.
        assert_eq!(sample(&mut lately, at(0), 0), 1);
    }
}
