//! CUBIC in `f64` and packets, straight from RFC 9438 §4.

pub(crate) const C: f64 = 0.4;

pub(crate) fn k(w_max: f64, window: f64) -> f64 {
    if window >= w_max {
        0.0
    } else {
        ((w_max - window) / C).cbrt()
    }
}

pub(crate) fn w(t: f64, k: f64, w_max: f64) -> f64 {
    C * (t - k).powi(3) + w_max
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) window: f64,
    /// Growth since the start, stored separately so that tiny increments are not lost in a huge
    /// window.
    pub(crate) grown: f64,
    w_max: f64,
    k: f64,
    w_est: f64,
    prior: f64,
    alpha: f64,
}

impl Stage {
    pub(crate) fn new(beta: f64, window: f64, w_max: f64, prior: f64) -> Self {
        Self {
            window,
            grown: 0.0,
            w_max: w_max.max(window),
            k: k(w_max, window),
            w_est: window,
            prior,
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
        }
    }

    pub(crate) fn on_ack(&mut self, t: f64, srtt: f64, packets: f64) {
        let now = self.window + self.grown;
        let beyond = self.w_est >= self.prior;
        let alpha = if beyond { 1.0 } else { self.alpha };
        self.w_est += alpha * packets / now;
        if w(t, self.k, self.w_max) < self.w_est {
            self.grown += (self.w_est - now).max(0.0);
        } else {
            let target = w(t + srtt, self.k, self.w_max).clamp(now, 1.5 * now);
            self.grown += (target - now) / now * packets;
        }
    }
}
