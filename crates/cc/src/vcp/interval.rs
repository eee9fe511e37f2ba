//! How long a port measures: a fixed time, or one that follows the RTTs of its flows.
//!
//! A load that is measured over less than a round trip sees bursts, and BISE's growth then overshoots; one measured over
//! much more reacts late. Two and a half times the longest RTT served is what the VCP extensions paper uses. "Longest" is the
//! 90th percentile over *flows*, not packets, so that neither one odd flow nor one busy flow decides.

use super::params::Interval;
use crate::arith::{micros, mul_div};
use crate::{Duration, Instant, VcpAnswer};

/// Slots of the sketch: one flow each, collisions overwrite.
const SLOTS: usize = 256;
/// A flow that was silent for this many ticks is forgotten.
const FRESH_TICKS: u8 = 4;
const TICK: Duration = Duration::from_millis(2500);
/// t_ρ = 2.5 × RTT (VCP extensions paper, section V), the RTT taken from the middle of the quarter octave that packets tell:
/// they tell its upper end, so this is 2.5 · 2^(−1/8).
const RTT_FACTOR: (u64, u64) = (2293, 1000);
/// Where an automatic interval begins.
const START: Duration = Duration::from_secs(1);
/// Never below this, nor below the time of so many full packets.
const LEAST: Duration = Duration::from_millis(50);
const LEAST_BYTES: u64 = 64 * 1500;
/// It shrinks by half an octave (√½) per 10 s at most, and only if the target is a quarter octave away or more.
const LOWER_EVERY: Duration = Duration::from_secs(10);
const HALF_OCTAVE: (u64, u64) = (707_107, 1_000_000);
const QUARTER_OCTAVE: (u64, u64) = (840_896, 1_000_000);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The flow's least RTT in µs; 0: empty.
    rtt_us: u32,
    tick: u8,
}

/// The least RTTs of recently seen flows.
#[derive(Clone, Debug)]
struct Sketch {
    slots: Box<[Slot]>,
    tick: u8,
    next_tick: Instant,
    changed: bool,
    /// Every flow was forgotten since the last review.
    emptied: bool,
}

impl Sketch {
    fn new(now: Instant) -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into_boxed_slice(),
            tick: 0,
            next_tick: now + TICK,
            changed: false,
            emptied: true,
        }
    }

    #[inline]
    fn see(&mut self, now: Instant, flow_hash: u32, rtt: Duration) {
        if now >= self.next_tick {
            self.age(now);
        }
        let rtt_us = u32::try_from(micros(rtt).max(1)).unwrap_or(u32::MAX);
        // Hashes may be weak in some bits: fold all of them in.
        let index = usize::try_from(flow_hash.wrapping_mul(0x9E37_79B1) >> 24).unwrap_or(0);
        if let Some(slot) = self.slots.get_mut(index) {
            if slot.rtt_us != rtt_us {
                slot.rtt_us = rtt_us;
                self.changed = true;
            }
            slot.tick = self.tick;
        }
    }

    /// Forgets flows that were silent for long.
    #[cold]
    fn age(&mut self, now: Instant) {
        while now >= self.next_tick {
            self.tick = self.tick.wrapping_add(1);
            self.next_tick = if now - self.next_tick > TICK * u32::from(FRESH_TICKS) {
                self.slots.fill(Slot::default());
                now + TICK
            } else {
                self.next_tick + TICK
            };
            for slot in &mut self.slots {
                if self.tick.wrapping_sub(slot.tick) > FRESH_TICKS {
                    *slot = Slot::default();
                }
            }
            self.changed = true;
        }
        self.emptied |= self.slots.iter().all(|slot| slot.rtt_us == 0);
    }

    /// The 90th percentile in µs.
    fn percentile(&self) -> Option<u64> {
        let mut seen = [0u32; SLOTS];
        let mut count = 0;
        let occupied = self.slots.iter().filter(|slot| slot.rtt_us != 0);
        for (place, slot) in seen.iter_mut().zip(occupied) {
            *place = slot.rtt_us;
            count += 1;
        }
        let seen = seen.get_mut(..count)?;
        let rank = (count * 9 / 10).min(count.checked_sub(1)?);
        let (_, at, _) = seen.select_nth_unstable(rank);
        Some(u64::from(*at))
    }
}

#[derive(Clone, Debug)]
struct Auto {
    sketch: Sketch,
    ceiling: Duration,
    lowered: Instant,
}

/// A port's measuring interval.
#[derive(Clone, Debug)]
pub(crate) struct TRho {
    current: Duration,
    /// The same as packets carry it, at hand for each of them.
    advertised_ms: u16,
    auto: Option<Auto>,
}

impl TRho {
    pub(crate) fn new(now: Instant, interval: Interval) -> Self {
        let (current, auto) = match interval {
            Interval::Fixed(current) => (current.max(Duration::from_millis(1)), None),
            Interval::Auto { ceiling } => {
                let auto = Auto {
                    sketch: Sketch::new(now),
                    ceiling,
                    lowered: now,
                };
                (START.min(ceiling), Some(auto))
            }
        };
        Self {
            current,
            advertised_ms: VcpAnswer::whole_millis(current),
            auto,
        }
    }

    /// The interval as it is measured.
    #[inline]
    pub(crate) const fn current(&self) -> Duration {
        self.current
    }

    /// The interval as it is advertised.
    #[inline]
    pub(crate) const fn advertised_ms(&self) -> u16 {
        self.advertised_ms
    }

    /// A packet of a flow told its least RTT. True if the interval should be reviewed.
    #[inline]
    pub(crate) fn see(&mut self, now: Instant, flow_hash: u32, rtt: Option<Duration>) -> bool {
        match (&mut self.auto, rtt) {
            (Some(auto), Some(rtt)) => {
                auto.sketch.see(now, flow_hash, rtt);
                auto.sketch.changed
            }
            _ => false,
        }
    }

    /// Follows the flows: the first one's RTT takes the place of the assumption; then up at once, down slowly. True if the interval changed.
    #[cold]
    pub(crate) fn review(&mut self, now: Instant, capacity: u64) -> bool {
        let before = self.current;
        self.follow(now, capacity);
        self.advertised_ms = VcpAnswer::whole_millis(self.current);
        if self.auto.is_some() {
            // What is measured is what is advertised.
            self.current = Duration::from_millis(u64::from(self.advertised_ms));
        }
        self.current != before
    }

    fn follow(&mut self, now: Instant, capacity: u64) {
        let Some(auto) = &mut self.auto else {
            return;
        };
        auto.sketch.age(now);
        auto.sketch.changed = false;
        let Some(rtt_us) = auto.sketch.percentile() else {
            self.current = START.min(auto.ceiling);
            return;
        };
        let wanted = Duration::from_micros(mul_div(rtt_us, RTT_FACTOR.0, RTT_FACTOR.1));
        let packets = Duration::from_micros(mul_div(LEAST_BYTES, 1_000_000, capacity));
        let target = wanted.max(LEAST).max(packets).min(auto.ceiling);
        if core::mem::take(&mut auto.sketch.emptied) {
            // Nobody else is there to be served: what was assumed gives way to what is known.
            self.current = target;
            auto.lowered = now;
        } else if target > self.current {
            self.current = target;
            auto.lowered = now;
        } else if now - auto.lowered >= LOWER_EVERY
            && target <= scaled(self.current, QUARTER_OCTAVE)
        {
            self.current = target.max(scaled(self.current, HALF_OCTAVE));
            auto.lowered = now;
        }
    }
}

fn scaled(d: Duration, by: (u64, u64)) -> Duration {
    Duration::from_micros(mul_div(micros(d), by.0, by.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const CAPACITY: u64 = 12_500_000;

    fn auto() -> TRho {
        let ceiling = Duration::from_secs(10);
        TRho::new(Instant::ZERO, Interval::Auto { ceiling })
    }

    #[test]
    fn rises_at_once_and_falls_slowly() {
        let mut t_rho = auto();
        assert_eq!(t_rho.current(), ms(1000));
        assert!(t_rho.see(Instant::ZERO, 1, Some(ms(500))));
        assert!(t_rho.review(Instant::ZERO, CAPACITY));
        assert_eq!(t_rho.current(), ms(1147));
        // The flow's path became short: half an octave per 10 s.
        let mut seen = Vec::new();
        for second in 1..60 {
            let now = Instant::from_millis(1000 * second);
            let _ = t_rho.see(now, 1, Some(ms(100)));
            if t_rho.review(now, CAPACITY) {
                seen.push((second, t_rho.current().as_millis()));
            }
        }
        assert_eq!(
            seen,
            [(10, 812), (20, 575), (30, 407), (40, 288), (50, 230)]
        );
    }

    #[test]
    fn the_first_flow_replaces_the_assumption() {
        let mut t_rho = auto();
        let _ = t_rho.see(Instant::ZERO, 1, Some(ms(40)));
        assert!(t_rho.review(Instant::ZERO, CAPACITY));
        assert_eq!(t_rho.current(), ms(92));
        // One that takes longer is served at once, too.
        let _ = t_rho.see(Instant::ZERO, 2, Some(ms(400)));
        assert!(t_rho.review(Instant::ZERO, CAPACITY));
        assert_eq!(t_rho.current(), ms(918));
    }

    #[test]
    fn one_odd_flow_among_many_does_not_decide() {
        let mut t_rho = auto();
        for flow in 0..100u32 {
            let rtt = if flow == 7 { ms(9000) } else { ms(600) };
            let _ = t_rho.see(Instant::ZERO, flow, Some(rtt));
        }
        let _ = t_rho.review(Instant::ZERO, CAPACITY);
        assert_eq!(t_rho.current(), ms(1376));
    }

    #[test]
    fn never_beyond_the_ceiling_nor_below_the_floor() {
        let mut t_rho = auto();
        let _ = t_rho.see(Instant::ZERO, 1, Some(Duration::from_secs(3000)));
        let _ = t_rho.review(Instant::ZERO, CAPACITY);
        assert_eq!(t_rho.current(), Duration::from_secs(10));
        for step in 1..100u64 {
            let now = Instant::from_millis(step * 10_000);
            let _ = t_rho.see(now, 1, Some(Duration::from_micros(100)));
            let _ = t_rho.review(now, CAPACITY);
        }
        let least = t_rho.current();
        assert!((LEAST..LEAST * 6 / 5).contains(&least), "{least:?}");
        // Silent flows are forgotten: nothing is known again.
        let later = Instant::from_millis(1_010_000);
        let _ = t_rho.review(later, CAPACITY);
        assert_eq!(t_rho.current(), START);
        // A slow port measures over enough packets.
        let _ = t_rho.see(later, 1, Some(Duration::from_micros(100)));
        let _ = t_rho.review(later, 12_500);
        assert_eq!(t_rho.current(), ms(7680));
    }
}
