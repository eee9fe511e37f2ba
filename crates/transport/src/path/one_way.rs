//! How long packets queue on their way to the receiver.
//!
//! A round trip grows with queues on either way, and only the one to the receiver is the sender's doing. FEEDBACK frames tell the
//! receiver's clock, so the sender can compare when packets left with when they arrived: the difference of two clocks means nothing,
//! but how far it is above its least is the time spent in queues on the way there.

use crate::wire::frame::feedback::TIME_MODULUS;
use crate::{Duration, Instant};

/// Clocks may drift apart by one part in this many (200 ppm); the least difference is raised that fast, so that drift is not
/// taken for a queue. A standing queue of 20 ms is forgotten in 100 s.
const DRIFT: u64 = 5000;

/// The least difference of the clocks.
#[derive(Clone, Copy, Debug)]
struct Base {
    /// Arrival by the peer's clock less departure by ours, modulo [`TIME_MODULUS`], in microseconds.
    offset: u32,
    /// It has been raised for drift up to then.
    raised: Instant,
}

/// Queueing delay on the way to the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWayDelay {
    base: Option<Base>,
}

impl OneWayDelay {
    /// A path of which nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self { base: None }
    }

    /// A packet that left at `sent_at` arrived when the peer's clock showed `arrived` microseconds, modulo
    /// [`TIME_MODULUS`]. How much longer it took than the fastest: its time in queues. Clocks may differ by anything.
    pub fn on_sample(&mut self, now: Instant, sent_at: Instant, arrived: u32) -> Duration {
        let left = sent_at.as_nanos() / 1000 % u64::from(TIME_MODULUS);
        let offset = minus(arrived, u32::try_from(left).unwrap_or(0));
        let base = self.base.get_or_insert(Base {
            offset,
            raised: now,
        });
        let elapsed = u64::try_from(now.saturating_since(base.raised).as_micros());
        let drift = elapsed.unwrap_or(u64::MAX) / DRIFT;
        base.offset = (base.offset + (drift % u64::from(TIME_MODULUS)) as u32) % TIME_MODULUS;
        base.raised += Duration::from_micros(drift * DRIFT);
        let above = minus(offset, base.offset);
        if above < TIME_MODULUS / 2 {
            return Duration::from_micros(u64::from(above));
        }
        base.offset = offset;
        base.raised = now;
        Duration::ZERO
    }
}

/// `a - b` modulo [`TIME_MODULUS`].
const fn minus(a: u32, b: u32) -> u32 {
    (a % TIME_MODULUS + TIME_MODULUS - b % TIME_MODULUS) % TIME_MODULUS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of packets that leave `every` ms apart, take `delay(n)` ms, and are heard of 50 ms later, where the peer's
    /// clock runs `ppm` fast from `start` µs.
    fn samples(
        every: u64,
        count: u64,
        start: u64,
        ppm: i64,
        delay: impl Fn(u64) -> u64,
    ) -> Vec<u64> {
        let mut one_way = OneWayDelay::new();
        (0..count)
            .map(|n| {
                let sent = 1_000_000 + n * every * 1000;
                let arrived = sent + delay(n) * 1000;
                let clock =
                    (i64::try_from(start + arrived).unwrap() * (1_000_000 + ppm)) / 1_000_000;
                let clock = u32::try_from(clock.rem_euclid(1 << 30)).unwrap();
                let now = Instant::from_micros(arrived + 50_000);
                let queued = one_way.on_sample(now, Instant::from_micros(sent), clock);
                u64::try_from(queued.as_micros()).unwrap()
            })
            .collect()
    }

    #[test]
    fn queues_show_whatever_the_clocks_say() {
        for start in [0, 1, 123_456_789, (1 << 30) - 1_020_000] {
            let queued = samples(10, 6, start, 0, |n| [20, 20, 35, 90, 20, 18][n as usize]);
            for (queued, expected) in queued.into_iter().zip([0, 0, 15_000, 70_000, 0, 0]) {
                assert!(
                    queued.abs_diff(expected) < 20,
                    "{start}: {queued} {expected}"
                );
            }
        }
    }

    #[test]
    fn drifting_clocks_are_no_queue() {
        for ppm in [-200, -50, 50, 190] {
            // An hour: the modulus is passed three times.
            let queued = samples(100, 36_000, 7, ppm, |n| 20 + n % 3);
            assert!(queued.iter().all(|&q| q < 3000), "{ppm}");
        }
        let standing = samples(100, 600, 7, 0, |n| if n < 100 { 20 } else { 60 });
        assert!(
            standing[100..]
                .iter()
                .all(|&q| (28_000..=40_000).contains(&q))
        );
    }
}
