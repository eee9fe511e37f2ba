//! The window in 2^-16 bytes, and the three operations of VCP on it (VCP extensions paper, eq.
//! 2–4).

use crate::base::arith::{Carry, PPM, saturate};

const MAX_Q16: u64 = (1 << 62) - 1;

/// A congestion window with a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    q16: u64,
    ai: Carry,
}

impl Window {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            q16: bytes.saturating_mul(1 << 16).min(MAX_Q16),
            ai: Carry::default(),
        }
    }

    /// The window in whole bytes, rounded down.
    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.q16 >> 16
    }

    #[cfg(test)]
    pub(crate) const fn q16(&self) -> u64 {
        self.q16
    }

    /// Lowers the window to `bytes` if it is larger.
    pub(crate) fn cap(&mut self, bytes: u64) {
        self.q16 = self.q16.min(bytes.saturating_mul(1 << 16));
    }

    /// Raises the window to `bytes` if it is smaller.
    pub(crate) fn floor(&mut self, bytes: u64) {
        self.q16 = self.q16.max(bytes.saturating_mul(1 << 16).min(MAX_Q16));
    }

    /// The MI increment for `acked` bytes: acked · ε_s, in 2^-16 bytes, rounded down.
    /// [VCP-ext eq. 4].
    #[inline]
    pub(crate) fn mi(acked: u64, epsilon_q32: u64) -> u64 {
        saturate((u128::from(acked) * u128::from(epsilon_q32)) >> 16)
    }

    /// The AI increment for `acked` bytes: α_s · mtu · acked / window, in 2^-16 bytes; the
    /// remainder is kept. [VCP-ext eq. 3].
    #[inline]
    pub(crate) fn ai(&mut self, acked: u64, alpha_q16: u64, mtu: u64) -> u64 {
        let share = (u128::from(alpha_q16) * u128::from(mtu)).saturating_mul(u128::from(acked));
        self.ai.add(share, u128::from(self.bytes().max(mtu)))
    }

    #[inline]
    pub(crate) fn add(&mut self, q16: u64) {
        self.q16 = self.q16.saturating_add(q16).min(MAX_Q16);
    }

    /// MD, [VCP-ext eq. 2]: leaves `share_ppm` of the window, but not less than `floor` bytes.
    pub(crate) fn md(&mut self, share_ppm: u64, floor: u64) {
        let cut = u128::from(self.q16) * u128::from(share_ppm.min(PPM)) / u128::from(PPM);
        self.q16 = saturate(cut);
        self.floor(floor);
    }
}
