//! Random loss, which is either declared by routers or attested by a trial.

use super::losses::SLACK_PPM;
use crate::base::arith::nanos;
use crate::base::{Duration, Instant};

/// Undeclared loss above this share, in 10^-6, isn't random. A declaration without attestation
/// covers at most this share.
pub(crate) const MOST_PPM: u64 = 100_000;
/// Above this share, in 10^-6, `MANY_PACKETS` packets are needed to attest loss. If many senders
/// with few packets each overload one hop, the trial of a single sender reduces the load too little
/// to change the loss, which is often about a tenth.
const MODERATE_PPM: u64 = 60_000;
const MANY_PACKETS: u64 = 1200;

/// Returns the number of packets required to attest a loss of `ppm`, in 10^-6.
pub(super) const fn packets_for(ppm: u64) -> u64 {
    if ppm > MODERATE_PPM { MANY_PACKETS } else { 0 }
}

/// Round trips for which an attestation is valid, plus or minus a quarter.
const HOLDS_ROUNDS: u64 = 300;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tolerance {
    declared_ppm: u64,
    attested_ppm: u64,
    until: Option<Instant>,
}

impl Tolerance {
    /// Sets the loss in 10^-6 that routers declare as corruption on the links behind them.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64) {
        self.declared_ppm = ppm.min(1_000_000);
    }

    /// Returns the random loss in 10^-6.
    pub(crate) fn ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm.min(MOST_PPM))
    }

    /// Returns the expected loss in 10^-6. It includes declared loss beyond the maximum tolerated
    /// without attestation, because a trial must examine this loss first.
    pub(crate) fn expected_ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm)
    }

    #[cfg(test)]
    pub(crate) const fn attested_ppm(&self) -> u64 {
        self.attested_ppm
    }

    pub(super) const fn declared_ppm(&self) -> u64 {
        self.declared_ppm
    }

    /// Returns the attested loss in 10^-6 if it exceeds the declared loss, or 0.
    pub(super) const fn undeclared_ppm(&self) -> u64 {
        if self.attested_ppm > self.declared_ppm.saturating_add(SLACK_PPM) {
            self.attested_ppm
        } else {
            0
        }
    }

    /// Returns the maximum loss in 10^-6 that a trial may attest. A forged declaration has no
    /// effect without a trial.
    pub(crate) fn most_ppm(&self) -> u64 {
        MOST_PPM.max(self.declared_ppm)
    }

    /// Attests a loss of `ppm`, because a trial found it to be independent of the rate. `salt`
    /// spreads the times at which the attestations of different flows end.
    pub(crate) fn attest(&mut self, now: Instant, ppm: u64, srtt: Duration, salt: u64) {
        self.attested_ppm = ppm.min(self.most_ppm());
        let spread = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let rounds = HOLDS_ROUNDS * 3 / 4 + ((HOLDS_ROUNDS / 2 * spread) >> 32);
        self.until = Some(now + Duration::from_nanos(nanos(srtt).saturating_mul(rounds)));
    }

    /// Lowers the attested loss to at most `ppm`.
    pub(crate) fn lower(&mut self, ppm: u64) {
        self.attested_ppm = self.attested_ppm.min(ppm);
    }

    pub(crate) fn age(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
            self.attested_ppm = 0;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.until = None;
        self.attested_ppm = 0;
    }
}
