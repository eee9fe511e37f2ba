//! A token bucket for what the router itself sends (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).

use pathmark_cc::{Duration, Instant};

/// Admits one event per `interval`, and up to `burst` at once after a pause.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// The bucket was, or will be, full at this time.
    full_at: Instant,
}

impl TokenBucket {
    /// `per_second` events on average, up to `burst` at once. 0 per second lets none through.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: 1_000_000_000u64
                .checked_div(u64::from(per_second))
                .map_or(Duration::MAX, Duration::from_nanos),
            burst,
            full_at: Instant::ZERO,
        }
    }

    /// True if an event may happen now, which then counts.
    pub fn take(&mut self, now: Instant) -> bool {
        if self.interval == Duration::MAX {
            return false;
        }
        let full_at = self.full_at.max(now) + self.interval;
        if full_at - now > self.interval * self.burst {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = TokenBucket::new(100, 5);
        let at = |ms: u64| Instant::from_millis(1_000 + ms);
        let passed = (0..20).filter(|_| bucket.take(at(0))).count();
        assert_eq!(passed, 5);
        assert!(!bucket.take(at(9)));
        assert!(bucket.take(at(10)));
        assert!(!bucket.take(at(11)));
        let passed = (0..10_000).filter(|ms| bucket.take(at(1_000 + ms))).count();
        assert!((1000..=1006).contains(&passed), "{passed}");
        assert!(!TokenBucket::new(0, 5).take(at(0)));
    }
}
