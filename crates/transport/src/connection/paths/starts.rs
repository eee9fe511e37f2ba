//! Initial windows of flows that share a connection.

use crate::{Duration, Instant};

/// Maximum number of bytes that starts within one round trip add, which is enough for about 140
/// flows.
const MOST: u64 = 2 << 20;

/// First bytes of flows, each of which would otherwise have a separate connection (RFC 6928).
///
/// These bytes may be in flight in addition to the congestion window, and the pacer spreads them
/// over a round trip. A start counts for at least one round trip and at most two. A loss or CE ends
/// all starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starts {
    current: u64,
    previous: u64,
    /// When `current` becomes `previous`, or `None` if there are no starts.
    until: Option<Instant>,
    round: Duration,
}

impl Starts {
    /// Adds the first `bytes` of flows.
    pub(super) fn add(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.poll(now);
        let room = MOST.saturating_sub(self.bytes());
        self.current += bytes.min(room);
        self.round = srtt;
        self.until.get_or_insert(now + srtt);
    }

    /// Ends starts whose time has passed.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant) {
        let Some(until) = self.until.filter(|until| now >= *until) else {
            return;
        };
        // Both are over after two round trips.
        let current = core::mem::take(&mut self.current);
        self.previous = if now < until + self.round { current } else { 0 };
        self.until = (self.previous > 0).then_some(until + self.round);
    }

    /// Ends all starts, because packets were lost or had CE.
    pub(super) const fn clear(&mut self) {
        (self.current, self.previous, self.until) = (0, 0, None);
    }

    /// Returns the bytes that count now.
    #[inline]
    pub(super) const fn bytes(&self) -> u64 {
        self.current + self.previous
    }

    /// Returns the rate that sends them within a round trip, in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        let nanos = self.round.as_nanos().max(1);
        let rate = u128::from(self.bytes()) * 1_000_000_000 / nanos;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_start_counts_for_one_round_trip_or_two() {
        let mut starts = Starts::default();
        for (ms, add, expected) in [
            (0, 100, 100),
            (99, 10, 110),
            // First round, to which the bytes of the next one are added.
            (100, 1, 111),
            (199, 0, 111),
            (200, 0, 1),
            (299, 2, 3),
            (300, 0, 2),
            (400, 0, 0),
            (1_000, 7, 7),
            // Two rounds pass without a call.
            (1_200, 0, 0),
        ] {
            starts.add(at(ms), add, RTT);
            assert_eq!(starts.bytes(), expected, "{ms}");
        }
    }

    #[test]
    fn a_start_ends_without_another() {
        let mut starts = Starts::default();
        starts.add(at(0), 100, RTT);
        for (ms, expected) in [(99, 100), (100, 100), (199, 100), (200, 0), (1_000, 0)] {
            starts.poll(at(ms));
            assert_eq!(starts.bytes(), expected, "{ms}");
        }
        assert!(starts.until.is_none());
    }

    #[test]
    fn starts_are_bounded_and_a_loss_ends_them() {
        let mut starts = Starts::default();
        for ms in 0..1_000 {
            starts.add(at(ms), 1 << 20, RTT);
            assert!(starts.bytes() <= MOST);
        }
        starts.clear();
        assert_eq!((starts.bytes(), starts.rate()), (0, 0));
        starts.add(at(2_000), 50_000, RTT);
        assert_eq!(starts.rate(), 500_000);
    }
}
