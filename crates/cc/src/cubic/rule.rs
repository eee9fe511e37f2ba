//! CUBIC's window rule (RFC 9438 §4.2–4.7).

use super::curve::Curve;
use super::params::{ALPHA, BETA, FAST_CONVERGENCE, MAX_GROWTH};
use crate::arith::{Carry, MAX_BYTES, micros, mul_div};
use crate::loss_based::{Avoidance, Cause};
use crate::{Acked, Instant};

/// A stage of congestion avoidance: from a cut, or from the end of slow start, to the next cut.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    started: Instant,
    curve: Curve,
    /// The window that Reno would have by now, in bytes (RFC 9438 §4.3).
    w_est: u64,
    /// When the window was last used, and since when it is not: that time does not count.
    used_at: Instant,
    unused_since: Option<Instant>,
}

/// CUBIC's window rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    epoch: Option<Epoch>,
    /// W_max for the next epoch, in bytes; 0: none, the next epoch starts on its plateau.
    w_max: u64,
    /// The window before the last cut (`cwnd_prior`).
    prior: u64,
    growth: Carry,
    friendly: Carry,
}

impl Cubic {
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

    /// What Reno's estimate grows by for `acked` bytes.
    fn friendly_growth(&mut self, acked: u64, w_est: u64, window: u64, mtu: u64) -> u64 {
        // Once level with the window before the cut, Reno's own slope of one datagram per round
        // (RFC 9438 §4.3).
        let (num, den) = if w_est >= self.prior { (1, 1) } else { ALPHA };
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
        // Reno-friendly region (RFC 9438 §4.3): where Reno would have more, have as much.
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
        // for newcomers.
        self.w_max = if window < self.w_max {
            mul_div(window, FAST_CONVERGENCE.0, FAST_CONVERGENCE.1)
        } else {
            window
        };
        self.prior = window;
        self.epoch = None;
        mul_div(window, BETA.0, BETA.1)
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
