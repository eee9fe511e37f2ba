//! CUBIC (RFC 9438): the window is a cubic function of the time since the last cut, so that it
//! remains near the size at which the last loss occurred for a while, and then grows ever faster.
//!
//! The window rule is [`Cubic`]. Slow start and its early end are implemented by
//! [HyStart++](super::slow_start::HyStart), recovery periods and undoing spurious losses by
//! [`LossBased`]. All values are integers in bytes and microseconds.

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use super::loss_based::{Avoidance, Cause, LossBased};
use super::slow_start::HyStart;
use crate::base::Instant;
use crate::base::arith::{Carry, MAX_BYTES, cbrt, micros, mul_div, saturate};
use crate::law::Acked;

/// The controller `cubic`.
pub type CubicController = LossBased<Cubic, HyStart>;

impl CubicController {
    /// CUBIC with HyStart++ for datagrams of `mtu` bytes, with an initial window of `initial`
    /// packets.
    pub fn cubic(mtu: u16, initial: Option<u32>) -> Self {
        Self::new(mtu, initial, Cubic::default(), HyStart::default())
    }
}

// CUBIC's constants (RFC 9438 §4.1, §4.3, §4.6, §4.7).

/// β of RFC 9438 (§4.6), in 10^-6: the share of the window that a cut leaves.
pub(crate) const BETA_PPM: u64 = 700_000;

/// The share that a cut leaves in the CUBIC of Ha, Rhee and Xu ("CUBIC: a new TCP-friendly
/// high-speed TCP variant", 2008), which later papers simulate.
pub(crate) const BETA_2008_PPM: u64 = 800_000;

/// C = 0.4 packets/s³ as 4 / 10, with the 10^18 µs³ of a cubic second: C·mtu·(µs)³ = 4·mtu·x³ /
/// `C_DIVISOR` bytes.
pub(crate) const C_NUMERATOR: u64 = 4;
pub(crate) const C_DIVISOR: u64 = 10_000_000_000_000_000_000;

/// The window may grow by at most half per round trip (RFC 9438 §4.2: target ≤ 1.5 cwnd).
pub(crate) const MAX_GROWTH: (u64, u64) = (3, 2);

/// The curve is evaluated within this time on either side of K: 2^36 µs, about 19 hours.
pub(crate) const MAX_OFFSET_US: u64 = 1 << 36;

// The cubic function W(t) = C (t − K)³ + W_max in bytes and microseconds (RFC 9438 §4.2).

/// A cubic curve, with its plateau and the time when it is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Curve {
    /// W_max in bytes.
    pub(crate) w_max: u64,
    /// K in µs, rounded down.
    pub(crate) k_us: u64,
}

impl Curve {
    /// The curve from `window` to `w_max`. It starts on its plateau if `window` is not below
    /// `w_max`.
    pub(crate) fn new(w_max: u64, window: u64, mtu: u64) -> Self {
        let w_max = w_max.min(MAX_BYTES);
        let gap = u128::from(w_max.saturating_sub(window));
        let cube = gap * u128::from(C_DIVISOR) / (u128::from(C_NUMERATOR) * u128::from(mtu.max(1)));
        Self {
            w_max: w_max.max(window.min(MAX_BYTES)),
            k_us: cbrt(cube),
        }
    }

    /// W(t) in bytes, with the cubic part rounded toward zero.
    pub(crate) fn at(&self, t_us: u64, mtu: u64) -> u64 {
        let (offset, rising) = if t_us >= self.k_us {
            (t_us - self.k_us, true)
        } else {
            (self.k_us - t_us, false)
        };
        let part = cubic_part(offset.min(MAX_OFFSET_US), mtu);
        if rising {
            self.w_max.saturating_add(part).min(MAX_BYTES)
        } else {
            self.w_max.saturating_sub(part)
        }
    }
}

/// C·mtu·x³ in bytes, rounded down.
fn cubic_part(x_us: u64, mtu: u64) -> u64 {
    let x = u128::from(x_us);
    let scaled = x * x * x * u128::from(C_NUMERATOR * mtu);
    saturate(scaled / u128::from(C_DIVISOR))
}

// CUBIC's window rule (RFC 9438 §4.2–4.7).

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
