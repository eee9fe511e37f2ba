//! A token bucket for packets that the router itself sends (RFC 1812 §4.3.2.8, RFC 4443 §2.4
//! (f)).

use pathmark_cc::{Duration, Instant};

/// Allows one event per `interval` on average, and up to `burst` at once after a pause.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// The time at which the bucket was or will be full.
    full_at: Instant,
}

impl TokenBucket {
    /// Creates a bucket of `per_second` events on average, and up to `burst` at once. A rate of
    /// 0 allows none.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: 1_000_000_000u64
                .checked_div(u64::from(per_second))
                .map_or(Duration::MAX, Duration::from_nanos),
            burst,
            full_at: Instant::ZERO,
        }
    }

    /// Takes a token. Returns true if the event may happen now.
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
