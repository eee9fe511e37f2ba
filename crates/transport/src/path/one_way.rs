//! How long packets queue on their way to the receiver.
//!
//! A round trip grows with queues in either direction, but the sender only causes those on the way
//! to the receiver. Because FEEDBACK frames report the receiver's clock, the sender can compare
//! when packets were sent and when they arrived. The difference between two clocks is meaningless
//! by itself; its excess over its minimum, however, is the time spent in queues on the way there.
//!
//! Since the peer may report anything, its clock is checked against the sender's own measurements.
//! A packet whose round trip took `excess` longer than the fastest packet queued for 0 to `excess`
//! on its way there, so the difference without queues (the *base*) is between `difference - excess`
//! and `difference`. If the bounds of samples contradict each other by more than drift and
//! permanently standing queues can explain, the clock has stepped.

use crate::wire::frame::feedback::TIME_MODULUS;
use crate::{Duration, Instant};

/// The clocks of honest hosts drift apart by at most 200 ppm, a nanosecond in `DRIFT` microseconds.
/// The base is raised at this rate, so that drift isn't mistaken for a queue. As a consequence, a
/// standing queue of 20 ms is forgotten in 100 s.
const DRIFT: u64 = 5;

/// Nanoseconds by which the bounds widen in `DRIFT` microseconds. This is 1000 ppm; anything beyond
/// it is a step instead of drift.
const WIDEN: u64 = 5;

/// A queue that has existed in either direction ever since the path began makes the fastest round
/// trip too long. Bounds may therefore contradict each other by this, or by the minimum round trip
/// if longer, before this counts as a step.
const STANDING: Duration = Duration::from_millis(50);
/// Number of round trips after which [`STANDING`] applies. Until then, the slack is the time that
/// the way back may account for.
const SEEN: u32 = 64;

/// A clock that steps this number of times within [`STEPS_WITHIN`] isn't used anymore.
const MOST_STEPS: usize = 3;
/// Period in which [`MOST_STEPS`] are too many. Setting a clock or pausing a machine causes only
/// one step.
const STEPS_WITHIN: Duration = Duration::from_secs(600);

/// The way back may account for this much of a round trip, or for twice the minimum round trip if
/// longer. If a round trip grew by more, the packet queued on the way there, even if the clock
/// shows otherwise.
const MOST_ON_THE_WAY_BACK: Duration = Duration::from_millis(200);

/// A packet that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was sent, by our clock.
    pub sent_at: Instant,
    /// When it arrived, by the peer's clock, in microseconds modulo [`TIME_MODULUS`].
    pub arrived: u32,
    /// Its round trip, without the peer's delay.
    pub rtt: Duration,
    /// The minimum round trip of the path so far.
    pub min_rtt: Duration,
}

/// State of the peer's clock. Differences are the arrival by the peer's clock minus the departure
/// by ours, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The latest difference as reported, in microseconds modulo [`TIME_MODULUS`], and unwrapped
    /// relative to the first.
    raw: u32,
    latest: i64,
    /// The least difference, relative to which queues are measured.
    base: i64,
    /// Bounds of the true base.
    floor: i64,
    ceiling: i64,
    /// The minimum round trip with which the floor was calculated.
    min_rtt: Duration,
    /// Drift has been accounted for until then.
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
        // The bound of 2^40 units is 63 days without a sample.
        let units = (elapsed.unwrap_or(u64::MAX) / DRIFT).min(1 << 40);
        self.drifted += Duration::from_micros(units * DRIFT);
        let base = units.cast_signed();
        let widen = (units * WIDEN).cast_signed();
        self.base = self.base.saturating_add(base);
        self.ceiling = self.ceiling.saturating_add(widen);
        self.floor = self.floor.saturating_sub(widen);
    }

    /// Adapts the floor to a new minimum round trip. If it fell, the excess of earlier samples was
    /// larger; if it rose, this excess is unknown.
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
    /// Number of samples so far, up to [`SEEN`].
    seen: u32,
    /// When the latest steps were found, latest first.
    stepped: [Option<Instant>; MOST_STEPS],
    steps: u64,
    given_up: bool,
}

impl OneWayDelay {
    /// Creates the state of an unknown path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how much longer a packet took to arrive than the fastest packet. This is its time in
    /// queues, and never more than the excess of its round trip. The clocks may differ by any
    /// amount. Returns all of this excess if the clock was given up, and `None` if the clock has
    /// just stepped.
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

    /// Returns how often the peer's clock has stepped.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns true once the clock has stepped too often to be used on this path.
    pub const fn given_up(&self) -> bool {
        self.given_up
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns `a - b` modulo [`TIME_MODULUS`].
const fn minus(a: u32, b: u32) -> u32 {
    (a % TIME_MODULUS + TIME_MODULUS - b % TIME_MODULUS) % TIME_MODULUS
}

/// Maps a number modulo [`TIME_MODULUS`] to its representative nearest to 0.
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
