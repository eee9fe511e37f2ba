//! The growth of α, the increment of AI, while no OVER arrives.

use super::params::AiGrowth;
use crate::base::arith::{micros, mul_div, ns_since};
use crate::base::{Duration, Instant};

/// 2^(i/8) in 2^-16, rounded down.
const EIGHTHS_Q16: [u64; 8] = [
    65_536, 71_467, 77_935, 84_989, 92_681, 101_070, 110_217, 120_193,
];

/// Maximum number of doublings.
const MAX_DOUBLINGS: u64 = 24;

/// How far α has grown, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AiClock {
    since: Instant,
    /// Eighths of a doubling at the start of the current cycle.
    base: u64,
}

impl AiClock {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            base: 0,
        }
    }

    fn eighths(&self, now: Instant, t_rho: Duration, intervals: u32) -> u64 {
        let per_doubling = micros(t_rho).saturating_mul(u64::from(intervals)).max(1);
        let grown = mul_div(ns_since(now, self.since) / 1000, 8, per_doubling);
        self.base.saturating_add(grown).min(8 * MAX_DOUBLINGS)
    }

    /// Handles an OVER from a router, after which all of its flows begin a new cycle.
    #[inline]
    pub(crate) fn on_over(&mut self, now: Instant, t_rho: Duration, growth: AiGrowth) {
        if let AiGrowth::Doubling { intervals } = growth
            && now - self.since > t_rho / 2
        {
            self.base = self.eighths(now, t_rho, intervals) / 2;
        }
        self.since = now;
    }

    /// Halves the remaining doublings again because OVER continues although the window was cut.
    pub(crate) const fn halve(&mut self) {
        self.base /= 2;
    }

    /// Stops the clock because AI does not determine the window at the moment.
    #[inline]
    pub(crate) fn hold(&mut self, now: Instant) {
        self.since = now;
    }

    /// Restarts without history, because another law controls the window.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// The current α, computed from α_s in 2^-16 packets.
    #[inline]
    pub(crate) fn alpha_q16(
        &self,
        now: Instant,
        t_rho: Duration,
        growth: AiGrowth,
        alpha_q16: u64,
    ) -> u64 {
        let AiGrowth::Doubling { intervals } = growth else {
            return alpha_q16;
        };
        let eighths = self.eighths(now, t_rho, intervals);
        let fraction = usize::try_from(eighths % 8)
            .ok()
            .and_then(|index| EIGHTHS_Q16.get(index))
            .copied()
            .unwrap_or(1 << 16);
        mul_div(alpha_q16, fraction << (eighths / 8), 1 << 16)
    }
}
