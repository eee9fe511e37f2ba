//! Measures the recent capacity of a link, for control laws that do not get its rate.
//!
//! The port counts the bytes that the link could have sent, used or not. Every 20 ms it passes
//! the mean over the last 100 ms to its law, like the routers of ABC that follow their wireless
//! links (Goyal et al., "ABC: A Simple Explicit Congestion Controller for Wireless Networks",
//! NSDI 2020, §3.1.2). If fewer than eight full packets fit into 100 ms, the mean covers more
//! time. Future rates are not known, so the difference between consecutive periods of 100 ms
//! determines how long packets may wait at the port. As a result, packets are already queued when
//! the rate rises.

use pathmark_cc::{Duration, Instant};

/// Time between two looks.
const STEP: Duration = Duration::from_millis(20);
/// Number of looks in the mean.
const STEPS: usize = 5;
/// Maximum number of looks, used until the link could have sent `LEAST_BYTES`. With fewer
/// packets, the mean would depend on the time of the last one rather than on the rate.
const MOST_STEPS: usize = 50;
const LEAST_BYTES: u64 = 8 * 1500;
/// Maximum time for which packets may wait, used if the means of consecutive 100 ms differ by
/// half of the rate or more; proportionally less otherwise.
const MOST_WAIT: Duration = Duration::from_millis(30);
/// The weight of old differences decreases by 1/32 every 100 ms.
const FORGET: u64 = 32;
/// Limit of the bytes per step, so that sums cannot overflow.
const MOST_BYTES: u64 = 1 << 40;

/// Measures the recent capacity, as described in the module.
#[derive(Clone, Debug)]
pub(super) struct Follow {
    /// Nanoseconds of the last steps, and bytes that the link could have sent in them; the next
    /// step is written at `at`.
    steps: [(u64, u64); MOST_STEPS],
    at: usize,
    last: Instant,
    offered: u64,
    rate: u64,
    variation: Variation,
}

impl Follow {
    /// Starts measuring at `now`, when the link could have sent `offered` bytes. Until the first
    /// look, `rate` bytes per second are assumed.
    pub(super) fn new(now: Instant, rate: u64, offered: u64) -> Self {
        Self {
            steps: [(0, 0); MOST_STEPS],
            at: 0,
            last: now,
            offered,
            rate,
            variation: Variation::default(),
        }
    }

    /// The time of the next look.
    pub(super) fn due(&self) -> Instant {
        self.last + STEP
    }

    /// Bytes per second over the last looks.
    pub(super) const fn rate(&self) -> u64 {
        self.rate
    }

    /// How long packets should wait at the port, because of the varying rate.
    pub(super) fn wait(&self) -> Duration {
        self.variation.wait()
    }

    /// Records that the link could have sent `offered` bytes until `now`.
    pub(super) fn look(&mut self, now: Instant, offered: u64) {
        let nanos = now.saturating_since(self.last).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        let bytes = offered.saturating_sub(self.offered).min(MOST_BYTES);
        self.last = now;
        self.offered = offered;
        if let Some(step) = self.steps.get_mut(self.at) {
            *step = (nanos, bytes);
        }
        self.at = (self.at + 1) % MOST_STEPS;
        self.variation.step(bytes);
        self.rate = self.mean();
    }

    fn mean(&self) -> u64 {
        let (newer, older) = self.steps.split_at(self.at);
        let latest = newer.iter().rev().chain(older.iter().rev());
        let (mut nanos, mut bytes) = (0_u128, 0_u64);
        for (steps, step) in latest.enumerate() {
            if steps >= STEPS && bytes >= LEAST_BYTES {
                break;
            }
            nanos += u128::from(step.0);
            bytes += step.1;
        }
        let rate = u128::from(bytes) * 1_000_000_000 / nanos.max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// The variation of the rate between consecutive periods of 100 ms.
#[derive(Clone, Copy, Debug, Default)]
struct Variation {
    /// Steps of the current 100 ms, and the bytes that the link could have sent in them and in
    /// the previous 100 ms.
    steps: usize,
    bytes: u64,
    before: Option<u64>,
    /// Sums of the bytes that the link could have sent, and of the differences.
    sum: u64,
    moved: u64,
}

impl Variation {
    fn step(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.steps += 1;
        if self.steps < STEPS {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.steps = 0;
        if let Some(before) = self.before.replace(bytes) {
            self.sum = self.sum - self.sum / FORGET + bytes;
            self.moved = self.moved - self.moved / FORGET + bytes.abs_diff(before);
        }
    }

    fn wait(&self) -> Duration {
        let most = u64::try_from(MOST_WAIT.as_micros()).unwrap_or(u64::MAX);
        let micros = u128::from(most) * 2 * u128::from(self.moved) / u128::from(self.sum.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).min(MOST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a link that could have sent these bytes in each step.
    fn looks(steps: &[u64]) -> (Follow, Vec<u64>) {
        let mut follow = Follow::new(Instant::ZERO, 77, 0);
        assert_eq!(follow.rate(), 77);
        let (mut offered, mut rates) = (0, Vec::new());
        for step in steps {
            offered += step;
            follow.look(follow.due(), offered);
            rates.push(follow.rate());
        }
        (follow, rates)
    }

    #[test]
    fn the_mean_over_100_ms_every_20() {
        // 12 kB or more per step, and finally 120 kB.
        let k = 12_000;
        let steps = [k, k, k, k, k, 2 * k, 2 * k, 2 * k, 2 * k, 2 * k, 10 * k];
        let (follow, rates) = looks(&steps);
        let parts: Vec<u64> = rates.iter().map(|rate| rate / (10 * k)).collect();
        assert_eq!(parts, [5, 5, 5, 5, 5, 6, 7, 8, 9, 10, 18]);
        assert_eq!(follow.due(), Instant::from_millis(240));
    }

    #[test]
    fn over_more_until_eight_packets_could_go() {
        // One packet every 40 ms, 37,500 bytes per second: eight take 300 ms and more.
        let steps: Vec<u64> = (0..60).map(|step| 1500 * (step % 2)).collect();
        let (_, rates) = looks(&steps);
        for rate in &rates[16..] {
            assert!((37_500..=40_000).contains(rate), "{rates:?}");
        }
        // A second without any capacity must show.
        let (_, rates) = looks(&[30_000, 30_000, 30_000, 30_000, 30_000].repeat(2));
        assert_eq!(rates.last(), Some(&1_500_000));
        let pause = [vec![30_000; 10], vec![0; 60]].concat();
        let (_, rates) = looks(&pause);
        assert!(rates[20] < 400_000, "{rates:?}");
        assert_eq!(rates.last(), Some(&0));
    }

    #[test]
    fn packets_wait_where_the_rate_moves_and_nowhere_else() {
        let (follow, _) = looks(&[30_000; 500]);
        assert_eq!(follow.wait(), Duration::ZERO);
        // 100 ms of nothing, then 100 ms of twice the rate.
        let moves = [[60_000; STEPS], [0; STEPS]].concat().repeat(50);
        let (mut follow, _) = looks(&moves);
        assert_eq!(follow.wait(), MOST_WAIT);
        // Steady again: the wait must be gone after half a minute.
        let mut offered = moves.iter().sum();
        for _ in 0..1500 {
            offered += 30_000;
            follow.look(follow.due(), offered);
        }
        assert!(
            follow.wait() < Duration::from_micros(10),
            "{:?}",
            follow.wait()
        );
        // Up and down by a fifth each 100 ms: 2/5 of the wait.
        let (follow, _) = looks(&[[30_000; STEPS], [24_000; STEPS]].concat().repeat(50));
        let wait = follow.wait().as_micros();
        assert!((12_500..14_200).contains(&wait), "{wait}");
    }

    #[test]
    fn late_looks_and_time_that_stands_still() {
        let mut follow = Follow::new(Instant::ZERO, 1, 0);
        follow.look(Instant::from_millis(1000), 50_000);
        assert_eq!(follow.rate(), 50_000);
        for _ in 0..MOST_STEPS {
            follow.look(Instant::from_millis(1000), 50_000);
        }
        assert_eq!(follow.rate(), 0);
        for _ in 0..1000 {
            follow.look(Instant::from_millis(1000), u64::MAX);
            follow.look(Instant::from_millis(1000), 0);
        }
        assert!(follow.wait() <= MOST_WAIT);
    }
}
