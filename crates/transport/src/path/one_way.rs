//! How long packets queue on their way to the receiver.
//!
//! A round trip grows with queues on either way, and only the one to the receiver is the sender's
//! doing. FEEDBACK frames tell the receiver's clock, so the sender can compare when packets left
//! with when they arrived: the difference of two clocks means nothing, but how far it is above its
//! least is the time spent in queues on the way there.
//!
//! The clock is the peer's word, and held against what the sender measures itself. A packet whose
//! round trip took `excess` longer than the fastest queued for 0 to `excess` on its way there, so
//! the difference without queues (the *base*) lies between `difference - excess` and `difference`.
//! Samples whose bounds contradict each other by more than drift, and queues that stood all the
//! time, can account for mean that the clock stepped.

use crate::wire::frame::feedback::TIME_MODULUS;
use crate::{Duration, Instant};

/// Clocks of honest hosts drift apart by 200 ppm at most: a nanosecond in `DRIFT` microseconds. The
/// base is raised that fast, so that drift is not taken for a queue. A standing queue of 20 ms is
/// forgotten in 100 s.
const DRIFT: u64 = 5;

/// Nanoseconds by which bounds widen in the same time, which is 1000 ppm: what is beyond is no
/// drift but a step.
const WIDEN: u64 = 5;

/// A queue that stood on one way or the other ever since the path began makes the fastest round
/// trip too long. Bounds may contradict each other by as much, or by the length of the path, before
/// that is a step …
const STANDING: Duration = Duration::from_millis(50);
/// … once this many round trips were seen; until then, by as much as the way back is believed to
/// hold.
const SEEN: u32 = 64;

/// A clock that stepped this number of times …
const MOST_STEPS: usize = 3;
/// … within this time is not used any more. (One that was set right, or a machine that was paused,
/// steps once.)
const STEPS_WITHIN: Duration = Duration::from_secs(600);

/// The way back is believed to hold as much of a round trip as the path is long twice, or this. A
/// round trip that grew by more than that queues on the way there, whatever the clock shows.
const MOST_ON_THE_WAY_BACK: Duration = Duration::from_millis(200);

/// A packet that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it left, by our clock.
    pub sent_at: Instant,
    /// When it arrived, by the peer's clock, in microseconds modulo [`TIME_MODULUS`].
    pub arrived: u32,
    /// Its round trip, without the peer's delay.
    pub rtt: Duration,
    /// The least round trip of the path so far.
    pub min_rtt: Duration,
}

/// What is known of the peer's clock. Differences are arrival by the peer's clock less departure by
/// ours, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The latest difference as it came, in microseconds modulo [`TIME_MODULUS`]; and counted on
    /// from the first.
    raw: u32,
    latest: i64,
    /// The least, from which queues are reckoned.
    base: i64,
    /// The true base is not below, and not above.
    floor: i64,
    ceiling: i64,
    /// The least round trip that the floor was reckoned with.
    min_rtt: Duration,
    /// Drift has been allowed for up to then.
    drifted: Instant,
}

impl Clock {
    const fn new(now: Instant, raw: u32, latest: i64, excess: i64, min_rtt: Duration) -> Self {
        Self {
            raw,
            latest,
            base: latest,
            floor: latest.saturating_sub(excess),
            ceiling: latest,
            min_rtt,
            drifted: now,
        }
    }

    fn drift(&mut self, now: Instant) {
        let elapsed = u64::try_from(now.saturating_since(self.drifted).as_micros());
        // 2^40 of these are 63 days without a sample.
        let units = (elapsed.unwrap_or(u64::MAX) / DRIFT).min(1 << 40);
        self.drifted += Duration::from_micros(units * DRIFT);
        let base = units.cast_signed();
        let widen = (units * WIDEN).cast_signed();
        self.base = self.base.saturating_add(base);
        self.ceiling = self.ceiling.saturating_add(widen);
        self.floor = self.floor.saturating_sub(widen);
    }

    /// The fastest round trip is another by now: what earlier ones had in excess of it is more, or
    /// not known.
    fn follow(&mut self, min_rtt: Duration) {
        self.floor = match self.min_rtt.checked_sub(min_rtt) {
            Some(less) => self.floor.saturating_sub(nanos(less)),
            None => i64::MIN,
        };
        self.min_rtt = min_rtt;
    }
}

/// Queueing delay on the way to the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWayDelay {
    clock: Option<Clock>,
    /// Samples so far, up to [`SEEN`].
    seen: u32,
    /// When the last steps were found, latest first.
    stepped: [Option<Instant>; MOST_STEPS],
    steps: u64,
    given_up: bool,
}

impl OneWayDelay {
    /// A path of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How much longer a packet took to arrive than the fastest: its time in queues, at most what
    /// its round trip was longer. All of that where the clock is given up. Clocks may differ by
    /// anything. `None` where the clock just stepped.
    pub fn on_sample(&mut self, now: Instant, sample: &Sample) -> Option<Duration> {
        let left = sample.sent_at.as_nanos() / 1000 % u64::from(TIME_MODULUS);
        let raw = minus(sample.arrived, u32::try_from(left).unwrap_or(0));
        let min_rtt = sample.min_rtt;
        let longer = sample.rtt.saturating_sub(min_rtt);
        if self.given_up {
            return Some(longer);
        }
        let excess = nanos(longer);
        let back = MOST_ON_THE_WAY_BACK.max(min_rtt * 2);
        let slack = nanos(if self.seen < SEEN {
            self.seen += 1;
            back
        } else {
            STANDING.max(min_rtt)
        });
        let queued = match &mut self.clock {
            None => {
                self.clock = Some(Clock::new(now, raw, 0, excess, min_rtt));
                Duration::ZERO
            }
            Some(clock) => {
                clock.drift(now);
                clock.follow(min_rtt);
                let latest = clock
                    .latest
                    .saturating_add(signed(minus(raw, clock.raw)) * 1000);
                let lowest = latest.saturating_sub(excess);
                let backward = latest.saturating_add(slack) < clock.floor;
                let forward = lowest > clock.ceiling.saturating_add(slack);
                if backward || forward {
                    *clock = Clock::new(now, raw, latest, excess, min_rtt);
                    self.on_step(now);
                    return None;
                }
                clock.raw = raw;
                clock.latest = latest;
                clock.base = clock.base.min(latest);
                clock.floor = clock.floor.max(lowest);
                clock.ceiling = clock.ceiling.min(latest);
                let queued = latest.saturating_sub(clock.base);
                Duration::from_nanos(u64::try_from(queued).unwrap_or(0))
            }
        };
        Some(queued.max(longer.saturating_sub(back)).min(longer))
    }

    fn on_step(&mut self, now: Instant) {
        self.steps += 1;
        self.stepped.rotate_right(1);
        if let Some(latest) = self.stepped.first_mut() {
            *latest = Some(now);
        }
        let oldest = self.stepped.last().copied().flatten();
        self.given_up = oldest.is_some_and(|then| now.saturating_since(then) <= STEPS_WITHIN);
    }

    /// Steps of the peer's clock so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// True once the clock stepped too often to be used on this path.
    #[must_use]
    pub const fn given_up(&self) -> bool {
        self.given_up
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// `a - b` modulo [`TIME_MODULUS`].
const fn minus(a: u32, b: u32) -> u32 {
    (a % TIME_MODULUS + TIME_MODULUS - b % TIME_MODULUS) % TIME_MODULUS
}

/// A number modulo [`TIME_MODULUS`] as the nearest to 0.
const fn signed(difference: u32) -> i64 {
    if difference < TIME_MODULUS / 2 {
        difference as i64
    } else {
        difference as i64 - TIME_MODULUS as i64
    }
}

#[cfg(test)]
#[path = "one_way_tests.rs"]
mod tests;
