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

    #[inline]
    pub(crate) const fn believed(&self) -> u64 {
        self.believed
    }

    /// Handles the start of a departure of `bytes` bytes, behind which others wait if `backlogged`.
    /// Returns true if the estimate changed.
    #[inline]
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
