//! RTT scaling: what ε and α per interval mean per round trip (VCP extensions paper, eq. 5 and 6).

use super::params::{
    AI_CLAMP, AiBase, MAX_RTT_BY_T_RHO, MAX_RTT_BY_T_RHO_STEEP, PPM, TYPICAL_RTT, VcpParams,
};
use crate::Duration;
use crate::arith::{micros, saturate};

/// Largest ε_s that is used, in 2^-32: a window times a thousand per round trip.
const MAX_EPSILON_Q32: u64 = 1000 << 32;

/// Gains per round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gains {
    /// ε_s in 2^-32 per acknowledged byte, from VCP's ε.
    pub(crate) mild_q32: u64,
    /// The same from BISE's ε; r is still to be applied.
    pub(crate) steep_q32: u64,
    /// α_s in 2^-16 packets per window.
    pub(crate) alpha_q16: u64,
}

/// The gains, kept until what they depend on changes.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    mild: Epsilon,
    steep: Option<Epsilon>,
    /// Inputs of the gains at hand.
    rtt_us: u64,
    t_rho: Duration,
    gains: Gains,
}

/// An ε, ready to be raised to powers.
#[derive(Clone, Copy, Debug)]
struct Epsilon {
    log2_gain: f64,
    cap: f64,
}

impl Epsilon {
    fn new(ppm: u64, capped: bool) -> Self {
        Self {
            log2_gain: log2_gain(ppm),
            cap: if capped { cap(ppm) } else { f64::INFINITY },
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

    /// The gains for a round trip of `srtt`, where routers measure over `t_rho`.
    #[inline]
    pub(crate) fn gains(&mut self, params: &VcpParams, srtt: Duration, t_rho: Duration) -> Gains {
        let rtt_us = micros(srtt).max(1);
        // Gains rise with the RTT, so those of an RTT up to 1/64 shorter err on the careful side.
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
        let (base_us, clamp) = match (params.ai_base, params.ai_clamp) {
            (AiBase::TRho, false) => (t_rho_us, Clamp::None),
            (AiBase::TRho, true) => (t_rho_us, Clamp::Long),
            (AiBase::Fixed(base), false) => (micros(base), Clamp::None),
            (AiBase::Fixed(base), true) => (micros(base), Clamp::Both),
        };
        let gain = |epsilon: Epsilon| epsilon_q32(epsilon.log2_gain, rtt_us, t_rho_us, epsilon.cap);
        self.gains = Gains {
            mild_q32: gain(self.mild),
            steep_q32: self.steep.map_or(0, gain),
            alpha_q16: alpha_q16(params.alpha_ppm, rtt_us, base_us, clamp),
        };
    }
}

/// Most intervals whose gain one round trip may use.
fn cap(epsilon_ppm: u64) -> f64 {
    if epsilon_ppm > PPM {
        MAX_RTT_BY_T_RHO_STEEP
    } else {
        MAX_RTT_BY_T_RHO
    }
}

/// log2(1 + ε).
#[allow(
    clippy::cast_precision_loss,
    reason = "a configured number of a few digits"
)]
pub(crate) fn log2_gain(epsilon_ppm: u64) -> f64 {
    libm::log2(1.0 + epsilon_ppm as f64 / 1e6)
}

/// ε_s = (1 + ε)^x − 1 with x = rtt / t_ρ, at most `cap`, in 2^-32, rounded down.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both times are below 2^53 µs, the result is clamped before the cast"
)]
pub(crate) fn epsilon_q32(log2_gain: f64, rtt_us: u64, t_rho_us: u64, cap: f64) -> u64 {
    let x = (rtt_us as f64 / t_rho_us.max(1) as f64).min(cap);
    // 2^y − 1 loses digits for small y; expm1 does not.
    let gain = libm::expm1(x * log2_gain * core::f64::consts::LN_2);
    let q32 = libm::floor(gain * 4_294_967_296.0);
    (q32.max(0.0) as u64).min(MAX_EPSILON_Q32)
}

/// Where AI's scaling is linear instead of quadratic (the authors' simulator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clamp {
    /// Nowhere.
    None,
    /// Beyond five bases.
    Long,
    /// There, and below a fifth of one.
    Both,
}

/// α_s = α·(rtt / base)² in 2^-16 packets, rounded down.
pub(crate) fn alpha_q16(alpha_ppm: u64, rtt_us: u64, base_us: u64, clamp: Clamp) -> u64 {
    let (rtt, base) = (u128::from(rtt_us), u128::from(base_us.max(1)));
    let knee = u128::from(AI_CLAMP);
    let (num, den) = if clamp != Clamp::None && rtt > knee * base {
        // x² up to the knee at 5, then 25 + (x − 5) = x + 20.
        (rtt + knee * (knee - 1) * base, base)
    } else if clamp == Clamp::Both && rtt * knee < base {
        (rtt, knee * base)
    } else {
        (rtt * rtt, base * base)
    };
    let alpha = (u128::from(alpha_ppm) << 16) * num / (den * u128::from(PPM));
    saturate(alpha).min(1 << 48)
}
