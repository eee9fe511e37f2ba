//! Sending patterns of applications: at a rate, at random, on and off.

use pathmark_cc::{Duration, Instant};
use pathmark_link::impair::Random;

use crate::scenario::{OnOff, Pattern};

/// Maximum number of on and off times between two packets that are processed individually.
const MOST_SPANS: u32 = 64;

/// The times at which an application has another packet's worth of bytes.
#[derive(Debug)]
pub(super) struct Ticks {
    pattern: Pattern,
    /// Bytes per tick.
    unit: u64,
    next: Instant,
    /// When the current on time ends.
    off_at: Option<Instant>,
    random: Random,
}

impl Ticks {
    /// Creates the pattern in ticks of `unit` bytes, starting at `start`.
    pub(super) fn new(pattern: Pattern, unit: u16, start: Instant, random: Random) -> Self {
        let mut ticks = Self {
            pattern,
            unit: u64::from(unit.max(1)),
            next: start,
            off_at: None,
            random,
        };
        if let Some(OnOff { on, random, .. }) = pattern.on_off {
            ticks.off_at = Some(start + ticks.span(on, random));
        }
        ticks
    }

    /// When more bytes become available.
    pub(super) fn deadline(&self) -> Instant {
        self.next
    }

    /// Bytes that became available by `now` since the last call.
    pub(super) fn take(&mut self, now: Instant) -> u64 {
        let mut bytes = 0u64;
        while self.next <= now {
            bytes = bytes.saturating_add(self.unit);
            self.advance();
        }
        bytes
    }

    fn advance(&mut self) {
        let nanos = self.unit * 1_000_000_000 / self.pattern.rate.max(1);
        let gap = self.span(Duration::from_nanos(nanos), self.pattern.poisson);
        self.next += gap;
        let (Some(OnOff { on, off, random }), Some(mut off_at)) =
            (self.pattern.on_off, self.off_at)
        else {
            return;
        };
        // Time until the next packet only passes while the source is on.
        for _ in 0..MOST_SPANS {
            if self.next < off_at {
                break;
            }
            let off = self.span(off, random);
            self.next += off;
            off_at = off_at + off + self.span(on, random);
        }
        if self.next >= off_at {
            // The rest at once, using the means.
            let left = (self.next - off_at).as_nanos() / on.as_nanos().max(1) + 1;
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            self.next += off.saturating_mul(left);
            off_at = off_at + off.saturating_mul(left) + on.saturating_mul(left);
        }
        self.off_at = Some(off_at);
    }

    /// Returns `mean`, or an exponential time with this mean, but never 0, so that time
    /// advances.
    fn span(&mut self, mean: Duration, random: bool) -> Duration {
        let least = Duration::from_nanos(1);
        if !random {
            return mean.max(least);
        }
        // Uniform over (0, 1]; libm returns the same on every machine.
        let uniform = (f64::from(self.random.next_u32()) + 1.0) / 4_294_967_296.0;
        mean.mul_f64(-libm::log(uniform)).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(poisson: bool, on_off: Option<OnOff>) -> Ticks {
        let pattern = Pattern {
            rate: 125_000,
            poisson,
            on_off,
        };
        Ticks::new(pattern, 1250, Instant::ZERO, Random::new(1, "test"))
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_comes_a_packet_at_a_time() {
        let mut ticks = ticks(false, None);
        assert_eq!(ticks.take(at(0)), 1250);
        assert_eq!(ticks.deadline(), at(10));
        assert_eq!(ticks.take(at(9)), 0);
        assert_eq!(ticks.take(at(1000)), 125_000);
    }

    #[test]
    fn times_on_and_off() {
        let on_off = OnOff {
            on: Duration::from_millis(100),
            off: Duration::from_millis(300),
            random: false,
        };
        let mut ticks = ticks(false, Some(on_off));
        assert_eq!(ticks.take(at(399)), 12_500);
        assert_eq!(ticks.deadline(), at(400));
        assert_eq!(ticks.take(at(3999)), 9 * 12_500);
    }

    /// If a packet takes longer than an on time, the pattern must still keep its rate and its on
    /// and off times.
    #[test]
    fn times_on_shorter_than_a_packet() {
        for on in [Duration::from_millis(1), Duration::from_nanos(1)] {
            let on_off = OnOff {
                on,
                off: on,
                random: false,
            };
            let mut ticks = ticks(false, Some(on_off));
            // A packet takes 10 ms of on time, so 20 ms in total.
            let bytes = ticks.take(at(20_000));
            assert!((1_240_000..=1_252_500).contains(&bytes), "{on:?}: {bytes}");
        }
    }

    /// Poisson arrivals: the count over a time must have the mean given by the rate, and an
    /// equal variance.
    #[test]
    fn poisson_counts() {
        let mut ticks = ticks(true, None);
        let counts: Vec<f64> = (1..=20_000)
            .map(|second| (ticks.take(at(second * 100)) / 1250) as f64)
            .collect();
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n;
        // Standard errors: 0.022 of the mean, about 0.1 of the variance.
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!((variance - 10.0).abs() < 0.5, "{variance}");
    }
}
