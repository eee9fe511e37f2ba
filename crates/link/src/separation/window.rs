//! Recent sending rates of a separated port's classes.

use pathmark_cc::Instant;

/// Time over which the classes' rates are measured. New values have a weight of 1/4, so that the
/// average covers about 200 ms, which is shorter than the reaction time of control laws.
pub(super) const WINDOW_NANOS: u64 = 50_000_000;

/// The classes' rates, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) heard: u64,
    pub(super) foreign: u64,
    /// Arrival rate of the foreign class, excluding flows that are set aside.
    pub(super) plain: u64,
}

/// Measures the bytes that each class sends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    start: Instant,
    /// Bytes sent since then.
    pub(super) heard: u64,
    pub(super) foreign: u64,
    /// Bytes that arrived since then.
    pub(super) plain: u64,
    pub(super) average: Rates,
}

impl Window {
    /// Nanoseconds since its start.
    #[inline]
    pub(super) fn elapsed(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.start.as_nanos())
    }

    /// Whether a window has passed, so that the average is new.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let elapsed = self.elapsed(now);
        if elapsed >= WINDOW_NANOS {
            self.turn(now, elapsed);
            return true;
        }
        false
    }

    #[cold]
    fn turn(&mut self, now: Instant, elapsed: u64) {
        // One step per elapsed window, so that the frequency of calls does not matter. After a
        // pause, the old average is discarded.
        let windows = elapsed / WINDOW_NANOS;
        let step = |average: &mut u64, sent: u64| {
            let rate = u128::from(sent) * 1_000_000_000 / u128::from(elapsed);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            if windows > 8 {
                *average = rate;
            } else {
                for _ in 0..windows {
                    *average = *average - *average / 4 + rate / 4;
                }
            }
        };
        step(&mut self.average.heard, self.heard);
        step(&mut self.average.foreign, self.foreign);
        step(&mut self.average.plain, self.plain);
        (self.heard, self.foreign, self.plain) = (0, 0, 0);
        self.start = now;
    }
}
