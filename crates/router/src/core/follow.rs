//! What a link could carry lately, for control laws that are not told its rate.
//!
//! The port counts what the link could have sent, whether or not somebody used it, and tells its
//! law the mean over the last 100 ms every 20 ms, as the routers of ABC follow their wireless links
//! (Goyal et al., "ABC: A Simple Explicit Congestion Controller for Wireless Networks", NSDI 2020,
//! §3.1.2). Nothing of what comes is known.

use pathmark_cc::{Duration, Instant};

/// Time between two looks.
const STEP: Duration = Duration::from_millis(20);
/// The mean is over so many of them.
const STEPS: usize = 5;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Follow {
    /// What the link could have sent, bytes since it came up, at the last looks; the oldest at
    /// `oldest`.
    looks: [(Instant, u64); STEPS],
    oldest: usize,
    next: Instant,
    rate: u64,
}

impl Follow {
    /// Follows a link from `now` on, when it could have sent `offered` bytes. Until the first look
    /// it is taken for one that carries `rate` bytes per second.
    pub(super) fn new(now: Instant, rate: u64, offered: u64) -> Self {
        Self {
            looks: [(now, offered); STEPS],
            oldest: 0,
            next: now + STEP,
            rate,
        }
    }

    /// When to look next.
    #[inline]
    pub(super) const fn due(&self) -> Instant {
        self.next
    }

    /// Bytes per second over the last looks.
    #[inline]
    pub(super) const fn rate(&self) -> u64 {
        self.rate
    }

    /// The link could have sent `offered` bytes until `now`.
    pub(super) fn look(&mut self, now: Instant, offered: u64) {
        self.next = now + STEP;
        let Some(oldest) = self.looks.get_mut(self.oldest) else {
            return;
        };
        let (since, before) = std::mem::replace(oldest, (now, offered));
        self.oldest = (self.oldest + 1) % STEPS;
        let nanos = now.saturating_since(since).as_nanos().max(1);
        let bytes = u128::from(offered.saturating_sub(before));
        self.rate = u64::try_from(bytes * 1_000_000_000 / nanos).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_over_100_ms_every_20() {
        let mut follow = Follow::new(Instant::ZERO, 77, 0);
        assert_eq!(follow.rate(), 77);
        let mut rates = Vec::new();
        // 1 kB per step, then nothing, then 10 kB.
        let steps = [1000, 1000, 1000, 1000, 1000, 0, 0, 0, 0, 0, 10_000];
        let mut offered = 0;
        for step in steps {
            offered += step;
            let now = follow.due();
            follow.look(now, offered);
            rates.push(follow.rate() / 1000);
        }
        assert_eq!(rates, [50, 50, 50, 50, 50, 40, 30, 20, 10, 0, 100]);
        assert_eq!(follow.due(), Instant::from_millis(240));
    }

    #[test]
    fn late_looks_and_time_that_stands_still() {
        let mut follow = Follow::new(Instant::ZERO, 1, 0);
        follow.look(Instant::from_millis(1000), 5000);
        assert_eq!(follow.rate(), 5000);
        for _ in 0..10 {
            follow.look(Instant::from_millis(1000), 5000);
        }
        assert_eq!(follow.rate(), 0);
        follow.look(Instant::from_millis(1000), u64::MAX);
    }
}
