//! How much loss is random: what routers declare, and what a trial has attested.

use super::losses::SLACK_PPM;
use crate::base::arith::nanos;
use crate::base::{Duration, Instant};

/// Undeclared loss above this share, in 10^-6, is not random. A declaration alone covers at most
/// this share.
pub(crate) const MOST_PPM: u64 = 100_000;
/// Above this share, `MANY_PACKETS` packets are needed to attest loss. Where many senders with few
/// packets each overload one hop, the trial of each one takes away too little to show in the loss,
/// which is often a tenth.
const MODERATE_PPM: u64 = 60_000;
const MANY_PACKETS: u64 = 1200;

/// Packets that it takes to attest a loss of `ppm`, in 10^-6.
pub(super) const fn packets_for(ppm: u64) -> u64 {
    if ppm > MODERATE_PPM { MANY_PACKETS } else { 0 }
}

/// Round trips for which an attestation holds, give or take a quarter.
const HOLDS_ROUNDS: u64 = 300;

/// The share of losses that does not change the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tolerance {
    declared_ppm: u64,
    attested_ppm: u64,
    until: Option<Instant>,
}

impl Tolerance {
    /// Routers declare a loss of `ppm` to corruption on the links behind them.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64) {
        self.declared_ppm = ppm.min(1_000_000);
    }

    /// Random loss in 10^-6.
    pub(crate) fn ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm.min(MOST_PPM))
    }

    /// Expected loss, in 10^-6: also more than what the routers' declaration alone covers, as a
    /// trial has to look at it first.
    pub(crate) fn expected_ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm)
    }

    /// What a trial has attested, in 10^-6.
    #[cfg(test)]
    pub(crate) const fn attested_ppm(&self) -> u64 {
        self.attested_ppm
    }

    /// What routers declare, in 10^-6.
    pub(super) const fn declared_ppm(&self) -> u64 {
        self.declared_ppm
    }

    /// What is attested and beyond what routers declare, in 10^-6; 0: nothing is.
    pub(super) const fn undeclared_ppm(&self) -> u64 {
        if self.attested_ppm > self.declared_ppm.saturating_add(SLACK_PPM) {
            self.attested_ppm
        } else {
            0
        }
    }

    /// The most that a trial may attest: a forged declaration buys nothing by itself.
    pub(crate) fn most_ppm(&self) -> u64 {
        MOST_PPM.max(self.declared_ppm)
    }

    /// A trial found that `ppm` are lost at any rate. `salt` spreads the ends of flows'
    /// attestations.
    pub(crate) fn attest(&mut self, now: Instant, ppm: u64, srtt: Duration, salt: u64) {
        self.attested_ppm = ppm.min(self.most_ppm());
        let spread = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let rounds = HOLDS_ROUNDS * 3 / 4 + ((HOLDS_ROUNDS / 2 * spread) >> 32);
        self.until = Some(now + Duration::from_nanos(nanos(srtt).saturating_mul(rounds)));
    }

    /// The loss has fallen below `ppm`.
    pub(crate) fn lower(&mut self, ppm: u64) {
        self.attested_ppm = self.attested_ppm.min(ppm);
    }

    /// Ends what is too old to be believed.
    pub(crate) fn age(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
            self.attested_ppm = 0;
        }
    }

    /// Nothing is attested any more.
    pub(crate) fn forget(&mut self) {
        self.until = None;
        self.attested_ppm = 0;
    }
}
