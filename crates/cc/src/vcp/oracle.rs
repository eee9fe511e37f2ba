//! VCP's sender in `f64` and packets, straight from eq. 2–6 of the VCP extensions paper, one
//! acknowledged packet at a time.

pub(crate) fn epsilon_s(epsilon: f64, rtt: f64, t_rho: f64, cap: f64) -> f64 {
    (1.0 + epsilon).powf((rtt / t_rho).min(cap)) - 1.0
}

pub(crate) fn alpha_s(alpha: f64, rtt: f64, t_rho: f64) -> f64 {
    alpha * (rtt / t_rho).powi(2)
}

/// A window whose growth is stored separately, so that tiny increments are not lost in a huge
/// window.
#[derive(Debug)]
pub(crate) struct Window {
    start: f64,
    grown: f64,
}

impl Window {
    pub(crate) fn new(packets: f64) -> Self {
        Self {
            start: packets,
            grown: 0.0,
        }
    }

    pub(crate) fn packets(&self) -> f64 {
        self.start + self.grown
    }

    pub(crate) fn grown(&self) -> f64 {
        self.grown
    }

    pub(crate) fn low(&mut self, epsilon_s: f64) {
        self.grown += epsilon_s;
    }

    pub(crate) fn high(&mut self, alpha_s: f64) {
        self.grown += alpha_s / self.packets();
    }
}
