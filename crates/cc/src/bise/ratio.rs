//! The mixing ratio r (VCP extensions paper, eq. 10 and 11).

use super::params::BiseParams;
use crate::Load;
use crate::arith::saturate;
use crate::vcp::log2_gain;

/// r = 1 in 2^-32.
pub(crate) const ONE_Q32: u64 = 1 << 32;

/// r in 2^-32 at a load of `ppb`·10^-9 (rounded up by the caller), rounded down.
pub(crate) fn ratio_q32(params: &BiseParams, ppb: u64) -> u64 {
    let target = params.target_ppm.saturating_mul(1000);
    let gap = target.saturating_sub(ppb);
    if gap == 0 {
        return 0;
    }
    if ppb == 0 {
        return ONE_Q32;
    }
    let step = u128::from(params.k_ppm) * u128::from(gap);
    if params.x_ref_ppm >= 1_000_000 {
        let per_unit = u128::from(params.epsilon_ppm.max(1)) * u128::from(ppb);
        return saturate((step << 32) / per_unit).min(ONE_Q32);
    }
    shorter_reference(params, step, ppb)
}

/// The exact form for flows whose RTT is `x_ref` intervals: r = (g^x − 1) / ((1 + ε)^x − 1), g =
/// 1 + k (ρ∞ − ρ) / ρ.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "configured numbers of a few digits; the result is clamped before the cast"
)]
fn shorter_reference(params: &BiseParams, step: u128, ppb: u64) -> u64 {
    let x = params.x_ref_ppm as f64 / 1e6;
    let growth = step as f64 / (ppb as f64 * 1e6);
    let wanted = libm::expm1(x * libm::log1p(growth));
    let most = libm::expm1(x * log2_gain(params.epsilon_ppm) * core::f64::consts::LN_2);
    let q32 = libm::floor(wanted / most * ONE_Q32 as f64);
    (q32.clamp(0.0, ONE_Q32 as f64)) as u64
}

/// r for a measured load; 0 from the ceiling on.
pub(crate) fn ratio_at(params: &BiseParams, load: &Load) -> u64 {
    if load.reaches(params.ceiling_ppm, 1_000_000) || load.reaches(1, 1) {
        0
    } else {
        ratio_q32(params, load.ppb_ceil())
    }
}
