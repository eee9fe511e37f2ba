//! The cubic function W(t) = C (t − K)³ + W_max in bytes and microseconds (RFC 9438 §4.2).

use super::params::{C_DIVISOR, C_NUMERATOR, MAX_OFFSET_US};
use crate::base::arith::{MAX_BYTES, cbrt, saturate};

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
    #[inline]
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
#[inline]
fn cubic_part(x_us: u64, mtu: u64) -> u64 {
    let x = u128::from(x_us);
    let scaled = x * x * x * u128::from(C_NUMERATOR * mtu);
    saturate(scaled / u128::from(C_DIVISOR))
}
