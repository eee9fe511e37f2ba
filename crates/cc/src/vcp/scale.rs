//! RTT scaling: converts ε and α per interval to gains per round trip.

use super::params::{AI_CLAMP, AiGrowth, MAX_INTERVALS_PPM, MAX_INTERVALS_STEEP_PPM, VcpParams};
use crate::base::arith::{PPM, expm1, ln1p, micros, mul_div, ns_since, saturate};
use crate::base::{Duration, Instant};
use crate::supervise::TYPICAL_RTT;

/// Largest ε_s, in 2^-32: a window multiplied by a thousand per round trip.
const MAX_EPSILON_Q32: u64 = 1000 << 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gains {
    /// ε_s in 2^-32 per acknowledged byte, from VCP's ε.
    pub(crate) mild_q32: u64,
    /// The same from BISE's ε, before r is applied.
    pub(crate) steep_q32: u64,
    /// α_s in 2^-16 packets per window.
    pub(crate) alpha_q16: u64,
}

/// Cached gains.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    mild: Epsilon,
    steep: Option<Epsilon>,
    /// Inputs of the cached gains.
    rtt_us: u64,
    t_rho: Duration,
    gains: Gains,
}

/// An ε, prepared for exponentiation.
#[derive(Clone, Copy, Debug)]
struct Epsilon {
    ln_gain: u64,
    /// Maximum number of intervals whose gain one round trip may use, in 10^-6.
    cap_ppm: Option<u64>,
}

impl Epsilon {
    fn new(ppm: u64, capped: bool) -> Self {
        Self {
            ln_gain: ln_gain(ppm),
            cap_ppm: capped.then(|| cap_ppm(ppm)),
        }
    }
}

impl Scaling {
    pub(crate) fn new(params: &VcpParams) -> Self {
        let mut scaling = Self {
            mild: Epsilon::new(params.epsilon_ppm, params.mi_cap),
            steep: params
                .bise_epsilon_ppm
                .map(|ppm| Epsilon::new(ppm, params.mi_cap)),
            rtt_us: 0,
            t_rho: Duration::ZERO,
            gains: Gains::default(),
        };
        scaling.update(params, micros(TYPICAL_RTT), params.t_rho);
        scaling
    }

    /// The gains for a round trip of `srtt`, if routers measure over `t_rho`.
    pub(crate) fn gains(&mut self, params: &VcpParams, srtt: Duration, t_rho: Duration) -> Gains {
        let rtt_us = micros(srtt).max(1);
        // Gains grow with the RTT, so gains for an RTT up to 1/64 shorter are slightly too careful.
        let close = rtt_us >= self.rtt_us && rtt_us - self.rtt_us <= self.rtt_us / 64;
        if !(close && t_rho == self.t_rho) {
            self.update(params, rtt_us, t_rho);
        }
        self.gains
    }

    #[cold]
    fn update(&mut self, params: &VcpParams, rtt_us: u64, t_rho: Duration) {
        self.rtt_us = rtt_us;
        self.t_rho = t_rho;
        let t_rho_us = micros(t_rho);
        let gain =
            |epsilon: Epsilon| epsilon_q32(epsilon.ln_gain, rtt_us, t_rho_us, epsilon.cap_ppm);
        self.gains = Gains {
            mild_q32: gain(self.mild),
            steep_q32: self.steep.map_or(0, gain),
            alpha_q16: alpha_q16(params.alpha_ppm, rtt_us, t_rho_us, params.ai_clamp),
        };
    }
}

/// Maximum number of intervals whose gain one round trip may use, in 10^-6.
fn cap_ppm(epsilon_ppm: u64) -> u64 {
    if epsilon_ppm > PPM {
        MAX_INTERVALS_STEEP_PPM
    } else {
        MAX_INTERVALS_PPM
    }
}

/// ln(1 + ε) in 2^-60. Exact for ε below 2^23; options allow values up to 100.
pub(crate) fn ln_gain(epsilon_ppm: u64) -> u64 {
    saturate(ln1p(epsilon_ppm.into(), PPM.into()))
}

/// [VCP-ext eq. 6]: ε_s = (1 + ε)^x − 1 with x = rtt / t_ρ, limited to `cap_ppm`, in 2^-32, rounded
/// down.
pub(crate) fn epsilon_q32(ln_gain: u64, rtt_us: u64, t_rho_us: u64, cap_ppm: Option<u64>) -> u64 {
    let times = |num: u64, den: u64| u128::from(ln_gain) * u128::from(num) / u128::from(den.max(1));
    let exponent = times(rtt_us, t_rho_us);
    let exponent = cap_ppm.map_or(exponent, |cap| exponent.min(times(cap, PPM)));
    saturate(expm1(exponent) >> 28).min(MAX_EPSILON_Q32)
}

/// [VCP-ext eq. 5]: α_s = α·(rtt / t_ρ)² in 2^-16 packets, rounded down. If `clamped`, α_s is
/// linear for RTTs beyond five t_ρ (the authors' simulator).
pub(crate) fn alpha_q16(alpha_ppm: u64, rtt_us: u64, t_rho_us: u64, clamped: bool) -> u64 {
    let (rtt, t_rho) = (u128::from(rtt_us), u128::from(t_rho_us.max(1)));
    let knee = u128::from(AI_CLAMP);
    let (num, den) = if clamped && rtt > knee * t_rho {
        // x² up to the knee at 5, then 25 + (x − 5) = x + 20.
        (rtt + knee * (knee - 1) * t_rho, t_rho)
    } else {
        (rtt * rtt, t_rho * t_rho)
    };
    let alpha = (u128::from(alpha_ppm) << 16) * num / (den * u128::from(PPM));
    saturate(alpha).min(1 << 48)
}

// The growth of α, the increment of AI, while no OVER arrives.

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
    pub(crate) fn hold(&mut self, now: Instant) {
        self.since = now;
    }

    /// Restarts without history, because another law controls the window.
    pub(crate) fn reset(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// The current α, computed from α_s in 2^-16 packets.
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
