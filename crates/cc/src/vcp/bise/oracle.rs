//! BISE in `f64`, straight from eq. 9–12 of the VCP extensions paper.

/// Eq. 11, with ε as the gain over one interval.
pub(crate) fn ratio(epsilon: f64, k: f64, target: f64, rho: f64) -> f64 {
    if rho <= 0.0 {
        return 1.0;
    }
    (k * (target - rho) / (epsilon * rho)).clamp(0.0, 1.0)
}

/// Growth over one interval of a flow whose RTT is `x` intervals, with ratio r.
pub(crate) fn growth(r: f64, x: f64, epsilon: f64) -> f64 {
    (1.0 + r * ((1.0 + epsilon).powf(x) - 1.0)).powf(1.0 / x)
}

/// The ratio with which flows of RTT `x` reach the target exactly.
pub(crate) fn exact_ratio(epsilon: f64, k: f64, target: f64, rho: f64, x: f64) -> f64 {
    if rho <= 0.0 {
        return 1.0;
    }
    let wanted = 1.0 + k * (target - rho).max(0.0) / rho;
    ((wanted.powf(x) - 1.0) / ((1.0 + epsilon).powf(x) - 1.0)).clamp(0.0, 1.0)
}

/// Eq. 12.
pub(crate) fn ideal_track(k: f64, target: f64, n: u32) -> f64 {
    target * (1.0 - (1.0 - k).powi(n as i32 - 1))
}
