//! Limits how often an endpoint answers unknown senders.

use crate::{Duration, Instant};

/// A token bucket that allows `per_second` answers per second, and at most a second's worth at
/// once.
#[derive(Debug)]
pub(super) struct RateLimit {
    spacing: Duration,
    /// When the bucket would be full if nothing more were taken. It is empty one second before.
    full_at: Instant,
}

const BURST: Duration = Duration::from_secs(1);

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            // With 0 per second, one answer takes more than the bucket holds.
            spacing: BURST.checked_div(per_second).unwrap_or(BURST * 2),
            full_at: Instant::ZERO,
        }
    }

    /// Takes an answer from the bucket. Returns false if none may be sent now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.spacing;
        if full_at - now > BURST {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limit: &mut RateLimit, now: Instant) -> usize {
        (0..10_000).take_while(|_| limit.take(now)).count()
    }

    #[test]
    fn burst_of_a_second_then_the_rate() {
        let mut limit = RateLimit::new(100);
        let start = Instant::from_millis(5000);
        assert_eq!(taken(&mut limit, start), 100);
        assert_eq!(taken(&mut limit, start + Duration::from_millis(9)), 0);
        assert_eq!(taken(&mut limit, start + Duration::from_millis(50)), 5);
        assert_eq!(taken(&mut limit, start + Duration::from_secs(3600)), 100);
    }

    #[test]
    fn rate_of_zero_allows_nothing() {
        assert_eq!(taken(&mut RateLimit::new(0), Instant::from_millis(1)), 0);
    }
}
