//! The share of packets lost over the last four round trips, and before.

use crate::arith::{mul_div, nanos, ns_since};
use crate::{Duration, Instant};

const ROUNDS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    acked: u64,
    lost: u64,
}

/// Packets acknowledged and lost, round trip by round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossRatio {
    rounds: [Round; ROUNDS],
    current: usize,
    current_since: Option<Instant>,
    /// What the older rounds held, each counting 7/8 of the one after it.
    before: Round,
}

impl LossRatio {
    fn turn(&mut self, now: Instant, srtt: Duration) {
        let since = *self.current_since.get_or_insert(now);
        if ns_since(now, since) < nanos(srtt) {
            return;
        }
        self.current_since = Some(now);
        self.current = (self.current + 1) % ROUNDS;
        if let Some(slot) = self.rounds.get_mut(self.current) {
            let old = core::mem::take(slot);
            // Scaled by 8 so that single losses survive the decay for a while.
            self.before.acked = self.before.acked - self.before.acked / 8 + 8 * old.acked;
            self.before.lost = self.before.lost - self.before.lost / 8 + 8 * old.lost;
        }
    }

    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, srtt: Duration, packets: u64) {
        self.turn(now, srtt);
        if let Some(round) = self.rounds.get_mut(self.current) {
            round.acked = round.acked.saturating_add(packets).min(1 << 40);
        }
    }

    pub(crate) fn on_loss(&mut self, now: Instant, srtt: Duration, packets: u64) {
        self.turn(now, srtt);
        if let Some(round) = self.rounds.get_mut(self.current) {
            round.lost = round.lost.saturating_add(packets).min(1 << 40);
        }
    }

    /// Share lost over the last four round trips, in 10^-6.
    pub(crate) fn recent_ppm(&self) -> u64 {
        let sum = self
            .rounds
            .iter()
            .fold(Round::default(), |sum, round| Round {
                acked: sum.acked + round.acked,
                lost: sum.lost + round.lost,
            });
        share_ppm(sum)
    }

    /// Share lost before them, in 10^-6.
    pub(crate) fn before_ppm(&self) -> u64 {
        share_ppm(self.before)
    }
}

fn share_ppm(round: Round) -> u64 {
    mul_div(round.lost, 1_000_000, round.acked + round.lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    #[test]
    fn recent_rounds_move_into_the_past() {
        let mut ratio = LossRatio::default();
        for round in 0..20u64 {
            let now = Instant::from_millis(100 * round);
            ratio.on_ack(now, ms(100), 90);
            ratio.on_loss(now, ms(100), if round < 10 { 10 } else { 0 });
        }
        assert_eq!(ratio.recent_ppm(), 0);
        assert!((20_000..100_000).contains(&ratio.before_ppm()), "{ratio:?}");
        assert_eq!(LossRatio::default().recent_ppm(), 0);
    }
}
