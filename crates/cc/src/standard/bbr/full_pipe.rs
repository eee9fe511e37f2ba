//! Detects when the rate stops growing (draft-ietf-ccwg-bbr, "Exiting Acceleration Based on
//! Bandwidth Plateau").

use super::params::{FULL_GROWTH, FULL_ROUNDS, UNIT};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw_reached`: the pipe was full once.
    pub(super) reached: bool,
    /// `BBR.full_bw_now`: the pipe is full, since the estimator was last reset.
    pub(super) now: bool,
    baseline: u64,
    rounds: u32,
}

impl FullPipe {
    /// Starts a new search for a plateau, from a rate of `baseline`.
    pub(super) const fn reset(&mut self, baseline: u64) {
        self.now = false;
        self.baseline = baseline;
        self.rounds = 0;
    }

    /// True if the rate did not grow in the last round trip, and is about `rate`.
    pub(super) const fn stands_at(&self, rate: u64) -> bool {
        self.rounds > 0 && self.baseline >= rate / 4 * 3
    }

    /// Records the end of a round trip in which the application was not the limit.
    pub(super) fn on_round(&mut self, rate: u64) {
        if self.now {
            return;
        }
        let grown = u128::from(rate) * u128::from(UNIT)
            >= u128::from(self.baseline) * u128::from(FULL_GROWTH);
        if grown {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_ROUNDS;
        self.reached |= self.now;
    }
}
