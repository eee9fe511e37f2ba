//! The mixing ratio r.

use super::params::BiseParams;
use crate::base::arith::{PPM, saturate};
use crate::base::power::{expm1, ln1p};
use crate::vcp::load::Load;
use crate::vcp::scale::ln_gain;

/// r = 1 in 2^-32.
pub(crate) const ONE_Q32: u64 = 1 << 32;

/// [VCP-ext eq. 11]: r in 2^-32, rounded down, for a load of `ppb`·10^-9 (rounded up by the
/// caller).
///
/// Per interval, the load should close the share k of the gap to its target ([VCP-ext eq. 10]),
/// while an interval multiplies it by 1 + ε·r: [VCP-ext eq. 9], with the ε of one interval for ε_s.
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

/// The exact form for flows whose RTT is `x_ref` intervals: r = (g^x − 1) / ((1 + ε)^x − 1) with g
/// = 1 + k (ρ∞ − ρ) / ρ. `step` is k (ρ∞ − ρ) in 10^-15, and `ppb` is ρ in 10^-9.
fn shorter_reference(params: &BiseParams, step: u128, ppb: u64) -> u64 {
    let unit = u128::from(PPM) * u128::from(ppb);
    if step * u128::from(PPM) >= unit * u128::from(params.epsilon_ppm) {
        return ONE_Q32;
    }
    let scaled = |ln: u128| expm1(ln * u128::from(params.x_ref_ppm) / u128::from(PPM));
    let (wanted, most) = (
        scaled(ln1p(step, unit)),
        scaled(ln_gain(params.epsilon_ppm).into()),
    );
    saturate((wanted << 32) / most.max(1)).min(ONE_Q32)
}

/// r for a measured load; 0 at and above the ceiling.
pub(crate) fn ratio_at(params: &BiseParams, load: &Load) -> u64 {
    if load.reaches(params.ceiling_ppm, 1_000_000) || load.reaches(1, 1) {
        0
    } else {
        ratio_q32(params, load.ppb_ceil())
    }
}
