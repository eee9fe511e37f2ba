//! CUBIC's window rule (RFC 9438 §4.2–4.7).

use super::curve::Curve;
use super::params::{BETA_PPM, MAX_GROWTH};
use crate::base::Instant;
use crate::base::arith::{Carry, MAX_BYTES, micros, mul_div};
use crate::law::Acked;
use crate::standard::loss_based::{Avoidance, Cause};

/// A stage of congestion avoidance: from a cut, or from the end of slow start, to the next cut.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    started: Instant,
    curve: Curve,
    /// The window that Reno would have now, in bytes (RFC 9438 §4.3).
    w_est: u64,
    /// When the window was last used, and since when it is unused. Unused time does not count.
    used_at: Instant,
    unused_since: Option<Instant>,
}

/// β and the values that follow from it, as reduced fractions.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// β: the share of the window that a cut leaves.
    beta: (u64, u64),
    /// (1 + β) / 2: fast convergence remembers this share of a window that was cut before it
    /// regained its maximum (RFC 9438 §4.7).
    fast_convergence: (u64, u64),
    /// α = 3 (1 − β) / (1 + β): the additive increase that makes the Reno-friendly estimate as
    /// aggressive as Reno (RFC 9438 §4.3).
    alpha: (u64, u64),
}

impl Cut {
    const fn new(beta_ppm: u64) -> Self {
        let whole = 1_000_000;
        let beta = if beta_ppm < whole { beta_ppm } else { whole };
        Self {
            beta: reduced(beta, whole),
            fast_convergence: reduced(whole + beta, 2 * whole),
            alpha: reduced(3 * (whole - beta), whole + beta),
        }
    }
}

/// The fraction `num / den` without common factors.
const fn reduced(num: u64, den: u64) -> (u64, u64) {
    let (mut a, mut b) = (num, den);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (num / a, den / a)
}

/// CUBIC's window rule.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    cut: Cut,
    epoch: Option<Epoch>,
    /// W_max of the next epoch, in bytes. 0: the next epoch starts on its plateau.
    w_max: u64,
    /// The window before the last cut (`cwnd_prior`).
    prior: u64,
    growth: Carry,
    friendly: Carry,
}

impl Default for Cubic {
    fn default() -> Self {
        Self::with_beta(BETA_PPM)
    }
}

impl Cubic {
    /// Uses a cut that leaves `beta_ppm`·10^-6 of the window, instead of RFC 9438's 0.7. Values
    /// above 1 count as 1.
    pub const fn with_beta(beta_ppm: u64) -> Self {
        Self {
            cut: Cut::new(beta_ppm),
            epoch: None,
            w_max: 0,
            prior: 0,
            growth: Carry::NONE,
            friendly: Carry::NONE,
        }
    }

    fn begin(&mut self, now: Instant, window: u64, mtu: u64) -> Epoch {
        if self.w_max == 0 {
            self.prior = window;
        }
        self.growth.clear();
        self.friendly.clear();
        Epoch {
            started: now,
            curve: Curve::new(self.w_max, window, mtu),
            w_est: window,
            used_at: now,
            unused_since: None,
        }
    }

    /// How much Reno's estimate grows for `acked` bytes.
    fn friendly_growth(&mut self, acked: u64, w_est: u64, window: u64, mtu: u64) -> u64 {
        // After reaching the window before the cut, Reno's own slope of one datagram per round
        // applies (RFC 9438 §4.3).
        let (num, den) = if w_est >= self.prior {
            (1, 1)
        } else {
            self.cut.alpha
        };
        let share = u128::from(num * mtu) * u128::from(acked);
        self.friendly
            .add(share, u128::from(den) * u128::from(window))
    }
}

impl Avoidance for Cubic {
    const NAME: &'static str = "cubic";

    fn on_ack(&mut self, now: Instant, acked: &Acked, window: u64, mtu: u64) -> u64 {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(now, window, mtu),
        };
        if let Some(since) = epoch.unused_since.take() {
            epoch.started += now - since;
        }
        epoch.used_at = now;
        let added = self.friendly_growth(acked.bytes, epoch.w_est, window, mtu);
        epoch.w_est = epoch.w_est.saturating_add(added).min(MAX_BYTES);
        self.epoch = Some(epoch);

        let t = micros(now - epoch.started);
        // Reno-friendly region (RFC 9438 §4.3): the window is never smaller than Reno's.
        if epoch.curve.at(t, mtu) < epoch.w_est {
            return epoch.w_est.saturating_sub(window);
        }
        let ceiling = mul_div(window, MAX_GROWTH.0, MAX_GROWTH.1);
        let target = epoch
            .curve
            .at(t.saturating_add(micros(acked.srtt)), mtu)
            .clamp(window, ceiling);
        let share = u128::from(target - window) * u128::from(acked.bytes);
        self.growth.add(share, u128::from(window))
    }

    fn on_congestion(&mut self, _now: Instant, window: u64, _mtu: u64, _cause: Cause) -> u64 {
        // Fast convergence (RFC 9438 §4.7): a window that did not regain its maximum leaves room
        // for new flows.
        self.w_max = if window < self.w_max {
            mul_div(
                window,
                self.cut.fast_convergence.0,
                self.cut.fast_convergence.1,
            )
        } else {
            window
        };
        self.prior = window;
        self.epoch = None;
        mul_div(window, self.cut.beta.0, self.cut.beta.1)
    }

    fn on_collapse(&mut self) {
        self.w_max = 0;
        self.epoch = None;
    }

    fn on_unused(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            let since = now.max(epoch.used_at);
            epoch.unused_since.get_or_insert(since);
        }
    }
}
