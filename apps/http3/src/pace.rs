//! Limits the rate of content, and reads the clocks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How much time's worth of bytes can pass at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// A token bucket without I/O. Whoever takes bytes should wait for the returned time.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Bytes per second.
    rate: u64,
    /// The time when all bytes taken so far have passed at this rate.
    due: Option<Instant>,
}

impl Bucket {
    /// Creates a bucket with this rate in bytes per second, which is at least 1.
    pub fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            due: None,
        }
    }

    /// Takes bytes at the time `now`, and returns how long to wait.
    pub fn take(&mut self, now: Instant, bytes: u64) -> Duration {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = self.due.map_or(earliest, |due| due.max(earliest));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let due = begin.checked_add(takes).unwrap_or(begin);
        self.due = Some(due);
        due.saturating_duration_since(now)
    }
}

/// A bucket shared by transfers.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Mutex<Bucket>>);

impl Pace {
    /// Creates a limit on the total rate of these transfers in bytes per second.
    pub fn new(rate: u64) -> Self {
        Self(Arc::new(Mutex::new(Bucket::new(rate))))
    }

    /// Waits until these bytes can pass.
    pub async fn pass(&self, bytes: usize) {
        let wait = {
            let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(instant(), bytes as u64)
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Returns the time for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the time for fields and entity tags.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time is a beginning")]
    fn the_rate_holds_whatever_the_pieces() {
        let begin = Instant::now();
        for piece in [1, 1000, 16_384, 1_000_000] {
            let (mut bucket, mut now, mut taken) = (Bucket::new(1_000_000), begin, 0);
            while taken < 10_000_000 {
                now += bucket.take(now, piece);
                taken += piece;
            }
            let passed = (now - begin + BURST).as_secs_f64();
            assert!((passed - taken as f64 / 1e6).abs() < 1e-3, "{passed} s");
        }
        let mut bucket = Bucket::new(1000);
        assert_eq!(bucket.take(begin, 100), Duration::ZERO);
        assert_eq!(bucket.take(begin, 100), Duration::from_millis(100));
        // After a pause, the bucket has one burst.
        let later = begin + Duration::from_secs(3600);
        assert_eq!(bucket.take(later, 1100), Duration::from_secs(1));
        assert!(Bucket::new(0).take(begin, u64::MAX) > Duration::from_secs(1));
    }
}
