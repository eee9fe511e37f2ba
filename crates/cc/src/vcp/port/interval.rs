//! The length of a port's measuring interval: fixed, or following the RTTs of its traffic.
//!
//! A load measured over less than a round trip shows bursts, so that BISE's growth overshoots. A
//! load measured over much more reacts late. The VCP extensions paper uses two and a half times the
//! longest RTT served. Here, "longest" is a percentile over *bytes*: because anyone can write a
//! shim, a packet's RTT weighs as much as the packet, so that a share x of the bytes costs the
//! others no more than about x.
//!
//! - Below half of the capacity, the shortest RTTs decide: those of 16 full packets, or of a tenth
//!   of the bytes. The interval falls to the length for these RTTs immediately, because a long
//!   interval would slow starts.
//! - Above, the longest RTTs decide: a third of the bytes lengthens the interval as far as it
//!   needs, and a tenth of the bytes up to sixteen times the need of the third. The interval falls,
//!   half an octave at a time, once half of these shares needs less.
//! - The interval rises by a factor of at most 1 + x if a share x of the bytes needs more, so it at
//!   most doubles.
//! - The interval is never shorter than the time of 64 full packets, computed from the mean
//!   capacity over several seconds and not from the current capacity.

use crate::base::arith::{PPM, micros, mul_div};
use crate::base::rtt_sketch::{FEW, RttSketch, WORTH};
use crate::base::{Duration, Instant};
use crate::signals::VcpAnswer;
use crate::vcp::params::Interval;

/// Divides the shares for falling, so that a flow with about these shares does not make the
/// interval oscillate.
const FALLING: u64 = 2;
/// t_ρ = 2.5 × RTT (VCP extensions paper, section V). Packets carry the upper end of a quarter
/// octave, but the RTT is taken from its middle, so the factor is 2.5 · 2^(−1/8).
const RTT_FACTOR: (u64, u64) = (2293, 1000);
/// Initial length of an automatic interval.
const START: Duration = Duration::from_secs(1);
/// Smallest interval; the time of 64 full packets is another lower limit.
const LEAST: Duration = Duration::from_millis(50);
const LEAST_BYTES: u64 = 64 * 1500;
/// Smallest interval for this long after an interval with less than half of the mean capacity.
/// Otherwise, a link that comes and goes within an interval would be measured only in its pauses.
const LEAST_UNEVEN: Duration = Duration::from_millis(200);
const UNEVEN_FOR: Duration = Duration::from_secs(2);
/// Time over which the mean capacity is computed.
const CAPACITY_OVER: Duration = Duration::from_secs(10);
/// The interval falls by at most half an octave (√½) in this time, and only if the target is at
/// least a quarter octave away.
const LOWER_EVERY: Duration = Duration::from_millis(500);
const HALF_OCTAVE_PPM: u64 = 707_107;
const QUARTER_OCTAVE_PPM: u64 = 840_896;
#[derive(Clone, Debug)]
struct Auto {
    sketch: RttSketch,
    ceiling: Duration,
    capacity: u64,
    /// The link recently offered much less than the mean; until when this counts.
    uneven_until: Instant,
    uneven: bool,
    lowered: Instant,
}

/// A port's measuring interval.
#[derive(Clone, Debug)]
pub(crate) struct TRho {
    current: Duration,
    /// The current interval as packets carry it, stored for fast access.
    advertised_ms: u16,
    auto: Option<Auto>,
}

impl TRho {
    /// Creates the interval of a port with `capacity` bytes per second.
    pub(crate) fn new(now: Instant, interval: Interval, capacity: u64) -> Self {
        let (current, auto) = match interval {
            Interval::Fixed(current) => (current.max(Duration::from_millis(1)), None),
            Interval::Auto { ceiling } => {
                let auto = Auto {
                    sketch: RttSketch::new(now),
                    ceiling,
                    capacity,
                    uneven_until: now,
                    uneven: false,
                    lowered: now,
                };
                (auto.start(), Some(auto))
            }
        };
        Self {
            current,
            advertised_ms: VcpAnswer::whole_millis(current),
            auto,
        }
    }

    pub(crate) const fn current(&self) -> Duration {
        self.current
    }

    pub(crate) const fn advertised_ms(&self) -> u16 {
        self.advertised_ms
    }

    /// Counts a packet, which may carry its flow's minimum RTT. Returns true if the interval needs
    /// a [review](Self::review).
    pub(crate) fn see(&mut self, now: Instant, bytes: u32, rtt: Option<Duration>) -> bool {
        match &mut self.auto {
            Some(auto) => auto.sketch.count(now, bytes, rtt) && auto.is_light(),
            None => false,
        }
    }

    /// Ends an interval of length `elapsed`, in which the link could carry `capacity` bytes per
    /// second. Returns true if the next interval has a different length.
    #[cold]
    pub(crate) fn on_interval(&mut self, now: Instant, elapsed: Duration, capacity: u64) -> bool {
        let Some(auto) = &mut self.auto else {
            return false;
        };
        if capacity < auto.capacity / 2 {
            auto.uneven_until = now + UNEVEN_FOR;
        }
        auto.uneven = now < auto.uneven_until;
        let share = micros(elapsed.min(CAPACITY_OVER));
        let over = micros(CAPACITY_OVER);
        let old = mul_div(auto.capacity, over - share, over);
        auto.capacity = old.saturating_add(mul_div(capacity, share, over));
        let before = self.current;
        self.follow(now);
        if let Some(auto) = &mut self.auto
            && auto.sketch.stated() > 0
        {
            self.current = auto.risen(self.current);
            if auto.uneven {
                let longer = LEAST_UNEVEN.min(before * 2).min(auto.ceiling);
                self.current = self.current.max(longer);
            }
        }
        self.take(before)
    }

    /// Shortens the interval if the traffic requires it. Returns true if its length changed.
    #[cold]
    pub(crate) fn review(&mut self, now: Instant) -> bool {
        let before = self.current;
        self.follow(now);
        if self.auto.as_ref().is_some_and(|auto| auto.uneven) {
            self.current = self.current.max(LEAST_UNEVEN.min(before));
        }
        self.take(before)
    }

    /// Forgets the RTTs that packets stated so far, as if the port had been silent.
    pub(crate) fn forget(&mut self, now: Instant) {
        let before = self.current;
        if let Some(auto) = &mut self.auto {
            auto.sketch = RttSketch::new(now);
            self.current = auto.start().min(before);
        }
        self.take(before);
    }

    /// Makes the measured interval equal to the advertised interval. True if it differs from
    /// `before`.
    fn take(&mut self, before: Duration) -> bool {
        self.advertised_ms = VcpAnswer::whole_millis(self.current);
        self.current = Duration::from_millis(u64::from(self.advertised_ms));
        self.current != before
    }

    fn follow(&mut self, now: Instant) {
        let Some(auto) = &mut self.auto else {
            return;
        };
        auto.sketch.age(now, self.current);
        let stated = auto.sketch.stated();
        if stated == 0 {
            self.current = auto.start();
        } else if auto.is_light() {
            self.current = auto.target(auto.sketch.short()).min(self.current);
            auto.lowered = now;
        } else if now - auto.lowered >= LOWER_EVERY {
            let target = auto.target(auto.sketch.long(stated, FALLING));
            if target <= scaled(self.current, QUARTER_OCTAVE_PPM) {
                self.current = target.max(scaled(self.current, HALF_OCTAVE_PPM));
                auto.lowered = now;
            }
        }
    }
}

impl Auto {
    /// The interval for an RTT.
    fn target(&self, rtt_us: Option<u64>) -> Duration {
        let wanted = mul_div(rtt_us.unwrap_or(0), RTT_FACTOR.0, RTT_FACTOR.1);
        let packets = mul_div(LEAST_BYTES, 1_000_000, self.capacity);
        Duration::from_micros(wanted.max(packets))
            .max(LEAST)
            .min(self.ceiling)
    }

    /// The interval while nothing is known.
    fn start(&self) -> Duration {
        self.target(None).max(START).min(self.ceiling)
    }

    /// True if less than half of the capacity arrived recently.
    fn is_light(&self) -> bool {
        self.sketch.is_light(self.capacity)
    }

    /// The length to which an interval of length `current` may grow in one step.
    fn risen(&self, current: Duration) -> Duration {
        let all = self.sketch.all().max(1);
        let rtt = if !self.is_light() {
            self.sketch.long(all, 1)
        } else if self.sketch.stated().saturating_mul(FEW) < WORTH {
            // Single packets do not lengthen the interval.
            None
        } else {
            self.sketch.short()
        };
        let target = self.target(rtt);
        if target <= current {
            return current;
        }
        let served = mul_div(micros(current), RTT_FACTOR.1, RTT_FACTOR.0);
        let longer = if self.target(None) > current {
            // The packets of a slow link take longer. This follows from the capacity, and not from
            // a header.
            all
        } else {
            self.sketch.above(served).min(all)
        };
        let step = mul_div(micros(current), longer, all);
        target.min(current + Duration::from_micros(step))
    }
}

fn scaled(d: Duration, ppm: u64) -> Duration {
    Duration::from_micros(mul_div(micros(d), ppm, PPM))
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
