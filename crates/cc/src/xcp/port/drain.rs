//! Measures the actual rate of a link that is shared or changes without the port being informed (an
//! open question in section IV-B of the XCP Linux paper).
//!
//! While packets wait, the next packet leaves as soon as the link accepts it. Therefore, bytes over
//! time of a busy period of at least ten packets give the link's rate, whatever else it carries.
//! Without a backlog, nothing can be measured. If the traffic still fills the estimate, it grows by
//! a fiftieth per interval until a queue forms.

use crate::base::arith::{mul_div, ns_since};
use crate::base::{Duration, Instant};

/// The minimum number of packets in a busy period.
const LEAST_PACKETS: u32 = 10;
/// A busy period lasts at least this part of the mean RTT, because transmitters work in bursts.
const PART_OF_RTT: u32 = 8;
/// A longer pause between two packets ends the busy period.
const MOST_GAP: Duration = Duration::from_secs(2);
/// Each busy period moves the estimate by this part of the difference.
const GAIN: i128 = 4;
/// The estimate is slightly below the measurement, so that the queue drains.
const MARGIN: (u64, u64) = (63, 64);
/// If the estimate is used without a queue, it grows by this part per interval.
const PROBE: u64 = 50;
/// The share of the estimate that must be used.
const FULL: (u64, u64) = (19, 20);
/// Bounds of the estimate, in bytes per second.
const LEAST: u64 = 1_000;
const MOST: u64 = 1_000_000_000_000;

/// A period during which packets always waited.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    since: Instant,
    last: Instant,
    bytes: u64,
    packets: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainMeter {
    /// The estimate, in bytes per second.
    believed: u64,
    /// The port's configured rate, an upper bound.
    port: u64,
    stretch: Option<Stretch>,
    /// Size in bytes of the packet that left last.
    leaving: u32,
    /// A busy period ended in the current interval.
    measured: bool,
}

impl DrainMeter {
    pub(crate) fn new(port: u64) -> Self {
        let port = port.clamp(LEAST, MOST);
        Self {
            believed: port,
            port,
            stretch: None,
            leaving: 0,
            measured: false,
        }
    }

    /// Restarts with the port's own rate if it changed.
    pub(crate) fn set_port(&mut self, port: u64) {
        let port = port.clamp(LEAST, MOST);
        if port != self.port {
            *self = Self::new(port);
        }
    }

    pub(crate) const fn believed(&self) -> u64 {
        self.believed
    }

    /// Handles the start of a departure of `bytes` bytes, behind which others wait if `backlogged`.
    /// Returns true if the estimate changed.
    pub(crate) fn on_departure(
        &mut self,
        now: Instant,
        bytes: u32,
        backlogged: bool,
        mean_rtt: Duration,
    ) -> bool {
        let mut changed = false;
        let left = core::mem::replace(&mut self.leaving, bytes);
        if let Some(stretch) = &mut self.stretch {
            if now - stretch.last > MOST_GAP {
                self.stretch = None;
            } else {
                stretch.bytes = stretch.bytes.saturating_add(u64::from(left));
                stretch.packets += 1;
                stretch.last = now;
                let long = ns_since(now, stretch.since) > 0
                    && now - stretch.since >= mean_rtt / PART_OF_RTT;
                if stretch.packets >= LEAST_PACKETS && long {
                    let stretch = *stretch;
                    self.learn(stretch);
                    self.stretch = None;
                    changed = true;
                }
            }
        }
        if !backlogged {
            self.stretch = None;
        } else if self.stretch.is_none() {
            self.stretch = Some(Stretch {
                since: now,
                last: now,
                bytes: 0,
                packets: 0,
            });
        }
        changed
    }

    #[cold]
    fn learn(&mut self, stretch: Stretch) {
        let nanos = ns_since(stretch.last, stretch.since).max(1);
        let rate = mul_div(stretch.bytes, 1_000_000_000, nanos);
        let rate = mul_div(rate, MARGIN.0, MARGIN.1);
        let step = (i128::from(rate) - i128::from(self.believed)) / GAIN;
        let next = i128::from(self.believed) + step;
        self.believed = u64::try_from(next).unwrap_or(LEAST).clamp(LEAST, self.port);
        self.measured = true;
    }

    /// Ends a control interval with an input of `input` bytes per second and a queue of `standing`
    /// bytes that did not drain.
    pub(crate) fn on_interval(&mut self, input: u64, standing: u64) {
        let used = input >= mul_div(self.believed, FULL.0, FULL.1);
        if used && standing == 0 && !self.measured {
            let more = (self.believed / PROBE).max(1);
            self.believed = self.believed.saturating_add(more).min(self.port);
        }
        self.measured = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    /// Sends `packets` packets of 1250 bytes back to back at `rate` bytes per second, beginning at
    /// `start`.
    fn drain(meter: &mut DrainMeter, start: Instant, packets: u64, rate: u64) -> Instant {
        let mut now = start;
        for _ in 0..packets {
            let _ = meter.on_departure(now, 1250, true, ms(80));
            now += Duration::from_nanos(1250 * 1_000_000_000 / rate);
        }
        let _ = meter.on_departure(now, 1250, false, ms(80));
        now
    }

    #[test]
    fn follows_a_backlogged_link_down_and_up_again() {
        let mut meter = DrainMeter::new(1_250_000);
        assert_eq!(meter.believed(), 1_250_000);
        let now = drain(&mut meter, Instant::ZERO, 400, 625_000);
        let off = meter.believed() as f64 / 625_000.0;
        assert!((0.97..1.0).contains(&off), "{off}");
        let _ = drain(&mut meter, now + ms(5), 400, 1_000_000);
        let off = meter.believed() as f64 / 1_000_000.0;
        assert!((0.97..1.0).contains(&off), "{off}");
    }

    #[test]
    fn short_bursts_say_nothing() {
        let mut meter = DrainMeter::new(1_250_000);
        let mut now = Instant::ZERO;
        for _ in 0..100 {
            now = drain(&mut meter, now, 9, 125_000) + ms(100);
        }
        assert_eq!(meter.believed(), 1_250_000);
    }

    #[test]
    fn grows_while_filled_without_a_queue() {
        let mut meter = DrainMeter::new(1_250_000);
        let _ = drain(&mut meter, Instant::ZERO, 400, 625_000);
        meter.on_interval(700_000, 10_000);
        let before = meter.believed();
        // There is a persistent queue, or the traffic is less than the estimate.
        meter.on_interval(700_000, 10_000);
        meter.on_interval(before / 2, 0);
        assert_eq!(meter.believed(), before);
        meter.on_interval(before, 0);
        assert_eq!(meter.believed(), before + before / 50);
        for _ in 0..200 {
            meter.on_interval(meter.believed(), 0);
        }
        assert_eq!(meter.believed(), 1_250_000, "not beyond the port's rate");
    }
}

// Plausibility levels of header fields. At most a few percent of the bytes exceed a level.
//
// Anyone can write a header, so a header counts according to its bytes, which cost its sender
// something: X per byte and RTT count up to a multiple of a level that nearly all bytes stay
// below. A level is computed from the header fields *before* anything is cut off, so that cutting
// never influences itself. It doubles at most once per interval, while more than one part in 32 of
// the bytes exceeds it, and shrinks by a quarter when as few bytes exceed three quarters of the
// level.

/// One part in `FEW` of the bytes may exceed a level.
const FEW: u64 = 32;
const SHRINKS: (u64, u64) = (3, 4);

/// A level, in any unit, and the bytes of the current interval that exceed the level (`above`) or
/// three quarters of the level (`near`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    at: u64,
    above: u64,
    near: u64,
}

impl Level {
    pub(crate) const fn new(at: u64) -> Self {
        Self {
            at,
            above: 0,
            near: 0,
        }
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// Counts a header that carries `value` and stands for `bytes`. The level in the same unit is
    /// `at`.
    pub(crate) const fn count(&mut self, value: u64, at: u64, bytes: u64) {
        if value > at - at / 4 {
            self.near = self.near.saturating_add(bytes);
            if value > at {
                self.above = self.above.saturating_add(bytes);
            }
        }
    }

    /// Ends the interval, whose headers stood for `bytes`, and adapts the level.
    pub(crate) fn turn(&mut self, bytes: u64, least: u64) {
        let few = bytes / FEW;
        let at = if self.above > few {
            self.at.saturating_mul(2)
        } else if self.near <= few && bytes > 0 {
            crate::base::arith::mul_div(self.at, SHRINKS.0, SHRINKS.1)
        } else {
            self.at
        };
        *self = Self::new(at.max(least));
    }
}

#[cfg(test)]
mod believed_tests {
    use proptest::prelude::*;

    use super::*;

    /// A level after `intervals` intervals, each with all `values` and their bytes.
    fn settle(mut level: Level, values: &[(u64, u64)], intervals: u32) -> Level {
        for _ in 0..intervals {
            let at = level.at();
            for (value, bytes) in values {
                level.count(*value, at, *bytes);
            }
            level.turn(values.iter().map(|(_, bytes)| bytes).sum(), 1);
        }
        level
    }

    #[test]
    fn few_bytes_move_no_level_whatever_they_say() {
        let honest = settle(Level::new(50_000), &[(20_000, 97_000)], 40);
        let values = [(20_000, 97_000), (u64::MAX, 3_000)];
        let lied_to = settle(Level::new(50_000), &values, 40);
        assert_eq!(honest.at(), lied_to.at());
        let lied_to = settle(lied_to, &[(20_000, 97_000), (u64::MAX, 4_000)], 1);
        assert_eq!(lied_to.at(), 2 * honest.at(), "twice per interval");
    }

    proptest! {
        /// From any start, the level converges to between the value and a third more.
        #[test]
        fn finds_the_value(value in 1_000u64..1 << 40, start in 1u64..1 << 50) {
            let level = settle(Level::new(start), &[(value, 1500)], 140);
            prop_assert!(level.at() >= value && level.at() <= value * 4 / 3 + 2, "{}", level.at());
        }
    }
}
