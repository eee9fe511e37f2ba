//! α over time: how AI develops while no OVER comes.

use super::params::AiGrowth;
use crate::arith::{micros, mul_div};
use crate::{Duration, Instant};

/// 2^(i/8) in 2^-16, rounded down.
const EIGHTHS_Q16: [u64; 8] = [
    65_536, 71_467, 77_935, 84_989, 92_681, 101_070, 110_217, 120_193,
];

/// Most doublings.
const MAX_DOUBLINGS: u64 = 24;

/// The time since the last OVER.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AiClock {
    since: Instant,
}

impl AiClock {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { since: now }
    }

    /// A router said OVER: all its flows start over.
    #[inline]
    pub(crate) fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// α as it is now, from α_s in 2^-16 packets.
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
        let per_doubling = micros(t_rho).saturating_mul(u64::from(intervals)).max(1);
        let eighths = mul_div(micros(now - self.since), 8, per_doubling).min(8 * MAX_DOUBLINGS);
        let fraction = usize::try_from(eighths % 8)
            .ok()
            .and_then(|index| EIGHTHS_Q16.get(index))
            .copied()
            .unwrap_or(1 << 16);
        mul_div(alpha_q16, fraction << (eighths / 8), 1 << 16)
    }
}
