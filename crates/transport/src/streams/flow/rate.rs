//! How much useful data arrives per measured round trip, and the most that it earned lately.

use pathmark_cc::{Duration, Instant};

/// Rounds over which the application must have read the data, or waited for it at a gap. Loss
/// can delay in-order delivery for this long.
const ROUNDS: usize = 4;

/// Minimum round. Over shorter paths, the window must cover the time until the application is
/// scheduled.
const LEAST_ROUND: Duration = Duration::from_millis(2);

/// Maximum round, because the peer can make a round trip arbitrarily long by answering late.
pub(super) const LONGEST_ROUND: Duration = Duration::from_secs(1);

/// RTT before the first sample: RFC 9002 §6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Total bytes since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Sum of the highest offsets received.
    pub(super) received: u64,
    /// Read by the application.
    pub(super) read: u64,
    /// Arrived beyond a gap while the application waited for the missing bytes.
    pub(super) held_up: u64,
}

/// Bytes per round trip, over the current and the previous round.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// Start of the current round, and the bytes received by then.
    since: Instant,
    received: u64,
    /// Bytes that arrived in the previous round, per RTT.
    previous: u64,
    /// Bytes read and held up over the last rounds.
    read: Recent,
    held_up: Recent,
    /// The most bytes of any round trip: now, and when the last two rounds began, latest first.
    peak: u64,
    peaks: [u64; 2],
}

impl Rate {
    /// Returns the most bytes that were received *and* either read by the application or waited
    /// for at a gap in any round trip so far. If an application doesn't read, no window grows.
    pub(super) fn sample(&mut self, now: Instant, rtt: Option<Duration>, totals: Totals) -> u64 {
        let rtt = nanos(rtt.unwrap_or(INITIAL_RTT).clamp(LEAST_ROUND, LONGEST_ROUND));
        let received = totals.received;
        let elapsed = nanos(now - self.since);
        if elapsed >= rtt {
            self.previous = scale(received.saturating_sub(self.received), rtt, elapsed);
            self.since = now;
            self.received = received;
            self.read.turn(totals.read);
            // Data that arrived before a pause isn't waited for anymore.
            let rounds = elapsed.checked_div(rtt).unwrap_or_default();
            for _ in 0..rounds.min(ROUNDS as u64) {
                self.held_up.turn(totals.held_up);
            }
            self.peaks = [self.peak, self.peaks[0]];
        }
        let left = rtt.saturating_sub(nanos(now - self.since));
        let present = received.saturating_sub(self.received);
        let sliding = present.saturating_add(scale(self.previous, left, rtt));
        self.read.see(totals.read);
        self.held_up.see(totals.held_up);
        let held_up = self.held_up.in_round(totals.held_up, left, rtt);
        let of_use = self.taken().saturating_add(held_up);
        self.peak = self.peak.max(sliding.min(of_use));
        self.peak
    }

    pub(super) fn taken(&self) -> u64 {
        self.read.sum
    }

    /// Returns the bytes that arrived beyond a gap over the last rounds while the application
    /// waited.
    pub(super) fn held_up(&self) -> u64 {
        self.held_up.sum
    }

    /// Returns true while the peak grows by more than a quarter in two rounds.
    pub(super) fn speeds_up(&self) -> bool {
        self.peak > self.peaks[1].saturating_add(self.peaks[1] / 4)
    }

    /// Returns true while more bytes arrive beyond gaps than in the best round trip.
    pub(super) fn is_held_up(&self) -> bool {
        self.held_up.sum > self.peak
    }
}

/// Growth of a total over the last rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// The total at the start of the last rounds, latest first.
    began: [u64; ROUNDS],
    sum: u64,
}

impl Recent {
    fn turn(&mut self, total: u64) {
        self.began.rotate_right(1);
        if let Some(latest) = self.began.first_mut() {
            *latest = total;
        }
    }

    /// Returns the growth over the last `rtt` nanoseconds, of which `left` are in the previous
    /// round.
    fn in_round(&self, total: u64, left: u64, rtt: u64) -> u64 {
        let [present, previous, ..] = self.began;
        let before = scale(present.saturating_sub(previous), left, rtt);
        total.saturating_sub(present).saturating_add(before)
    }

    fn see(&mut self, total: u64) {
        let oldest = self.began.last().copied().unwrap_or(0);
        self.sum = total.saturating_sub(oldest);
    }
}

/// `value × num / den`.
fn scale(value: u64, num: u64, den: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(num) / u128::from(den.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Minimum period. A value is kept for one to two periods.
const PERIOD: Duration = Duration::from_millis(100);

/// The largest earned value of the recent past: of the current and the previous period.
///
/// Over a short path, the last round trips aren't representative: an application reads in
/// bursts when it is scheduled, and nothing arrives while a sender waits for a probe timeout.
/// If earned memory expired after a few round trips, data sent in reliance on it would be
/// refused.
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
