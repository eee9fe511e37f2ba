//! While CUBIC rules for a hidden hop: until when.

use super::look::{Look, Outcome};
use super::losses::LossRecord;
use super::losses::SLACK_PPM;
use super::self_cut::SelfCutTest;
use super::tolerance::packets_for;
use crate::base::Instant;
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::mul_div;

/// CUBIC hands back after this many round trips with `LEAVE_SHARE` of the largest window at which a
/// loss came; each relapse doubles the time, `MOST_DOUBLINGS` times at most.
const LEAVE_ROUNDS: u32 = 20;
const LEAVE_SHARE: (u64, u64) = (5, 4);
const MOST_DOUBLINGS: u32 = 5;
/// … or at a router's OVER, after this many round trips without a loss.
const LOSSLESS_ROUNDS: u32 = 8;
/// CUBIC's own cuts go on testing: if the window is below `CUT_SHARE` of the one before, and
/// `STILL_SHARE` of the loss before is still there, the loss is random.
const CUT_SHARE: (u64, u64) = (6, 10);
const STILL_SHARE: (u64, u64) = (7, 10);
/// … and this many packets show it; each time twice as many.
const STILL_PACKETS: u64 = 240;
/// The loss before is that of few packets, and of those with the worst loss. If less is left, but
/// this many losses, and more than trials overlook, further cuts are compared with that.
const AGAIN_LOSSES: u64 = 32;

/// CUBIC rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// It rules because TTLs show a hop, and has done so from the start.
    doubt: Option<SelfCutTest>,
    since: Instant,
    /// The window before, in bytes. 0: too small for information about the rate.
    before: u64,
    /// The loss at that window, in 10^-6. 0: CUBIC took over because of delay.
    ppm: u64,
    /// The largest window at which a loss came, in bytes. `None`: none came yet.
    largest: Option<u64>,
    /// Since when the window is well above that.
    above: Option<Instant>,
    /// Since when it is well below the window before.
    cut_since: Option<Instant>,
    last_loss: Option<Instant>,
}

impl Ruled {
    /// CUBIC took over at up to `largest` bytes, after a window of `before` bytes and a loss of
    /// `ppm`.
    pub(super) const fn new(now: Instant, before: u64, ppm: u64, largest: u64) -> Self {
        Self {
            doubt: None,
            since: now,
            before,
            ppm,
            largest: Some(largest),
            above: None,
            cut_since: None,
            last_loss: Some(now),
        }
    }

    /// CUBIC has ruled from the start: TTLs show a hop that writes no feedback, and no router has
    /// reported yet that its own hop is full.
    pub(super) const fn from_start(now: Instant) -> Self {
        Self {
            doubt: Some(SelfCutTest::NEW),
            since: now,
            before: 0,
            ppm: 0,
            largest: None,
            above: None,
            cut_since: None,
            last_loss: None,
        }
    }

    /// True if TTLs are the only evidence of a hop without feedback.
    pub(super) const fn is_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Packets were lost at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        if let Some(doubt) = &mut self.doubt {
            doubt.on_loss(window);
        }
        self.last_loss = Some(now);
        self.largest = self.largest.max(Some(window));
        self.above = None;
    }

    /// A round trip, or some packets, later.
    pub(super) fn look(&mut self, look: &Look, record: &mut LossRecord) -> Outcome {
        let Look { now, srtt, .. } = *look;
        let above = |largest| look.window > mul_div(largest, LEAVE_SHARE.0, LEAVE_SHARE.1);
        if self.largest.is_some_and(above) {
            self.above.get_or_insert(now);
        } else {
            self.above = None;
        }
        let relapses = look.relapses.min(MOST_DOUBLINGS);
        let patience = srtt.saturating_mul(LEAVE_ROUNDS << relapses);
        let lossless = srtt.saturating_mul(LOSSLESS_ROUNDS << relapses);
        let room = self.above.is_some_and(|since| now - since >= patience);
        // Before the first loss the first feedback is enough.
        let calm = self
            .last_loss
            .is_none_or(|at| now - at.max(self.since) >= lossless);
        let bounded = look.over.is_some_and(|at| now - at <= srtt) && calm;
        if (look.calm && room) || bounded {
            return Outcome::Gone;
        }
        if without(Mechanism::SelfCut) {
            return Outcome::Stays;
        }
        match &mut self.doubt {
            Some(doubt) => doubt.attest(look, record),
            None => self.attest(look, record),
        }
    }

    /// What CUBIC's own cuts show.
    fn attest(&mut self, look: &Look, record: &mut LossRecord) -> Outcome {
        let Look { now, srtt, .. } = *look;
        let cut = look.window < mul_div(self.before, CUT_SHARE.0, CUT_SHARE.1);
        if !cut || self.ppm == 0 || look.overflows {
            self.cut_since = None;
            return Outcome::Stays;
        }
        let since = *self.cut_since.get_or_insert(now);
        if now - since < srtt + srtt {
            record.clear();
            return Outcome::Stays;
        }
        if record.packets() < STILL_PACKETS << look.attested.min(MOST_DOUBLINGS) {
            return Outcome::Stays;
        }
        let still = mul_div(self.ppm, STILL_SHARE.0, STILL_SHARE.1);
        let Some(seen) = record.all() else {
            return Outcome::Stays;
        };
        let random = still..=look.most_ppm;
        if random.contains(&seen.ppm()) && seen.packets >= packets_for(seen.ppm()) {
            return Outcome::Random(seen.ppm());
        }
        let less = (SLACK_PPM..still).contains(&seen.ppm());
        if less && look.calm && seen.lost >= AGAIN_LOSSES {
            self.before = look.window;
            self.ppm = seen.ppm();
            self.cut_since = None;
        }
        Outcome::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    const MTU: u64 = 1500;

    /// Round trips until losses count as random, if they ever do. CUBIC took over at `packets`
    /// packets where 11.7 % had been lost, and shrinks by three tenths per round trip. `lost` gives
    /// the losses per 1000 packets, by the percentage left of that window.
    fn attested(packets: u64, calm: bool, lost: fn(u64) -> u64) -> Option<(u64, u64)> {
        let srtt = ms(400);
        let mut ruled = Ruled::new(Instant::ZERO, packets * MTU, 117_187, packets * MTU);
        let mut record = LossRecord::default();
        let (mut window, mut lack) = (packets * 7 / 10, 0);
        for round in 1..150u64 {
            let now = Instant::ZERO + srtt * u32::try_from(round).unwrap();
            for _ in 0..window {
                lack += lost(window * 100 / packets);
                if lack >= 1000 {
                    lack -= 1000;
                    record.on_lost(1);
                    ruled.on_loss(now, window * MTU);
                } else {
                    record.on_acked(1);
                }
            }
            let look = Look::quiet(now, srtt, window * MTU, calm);
            match ruled.look(&look, &mut record) {
                Outcome::Stays => {}
                Outcome::Gone => return None,
                Outcome::Random(ppm) => return Some((round, ppm)),
            }
            window = (window * 7 / 10).max(5);
        }
        None
    }

    #[test]
    fn an_alarm_that_saw_too_much_random_loss_costs_a_dozen_round_trips() {
        let (rounds, ppm) = attested(5000, true, |_| 50).unwrap();
        assert!(rounds <= 12, "{rounds}");
        assert!(ppm.abs_diff(50_000) < 5_000, "{ppm}");
    }

    #[test]
    fn loss_that_goes_on_going_with_the_rate_or_stands_beside_a_queue_is_not_random() {
        assert_eq!(attested(5000, true, |left| left), None);
        assert_eq!(attested(5000, true, |_| 10), None, "too little to tell");
        assert_eq!(attested(5000, false, |_| 50), None);
    }
}
