//! While CUBIC rules for a hidden hop: until when.

use super::look::{Look, Outcome};
use super::losses::LossRecord;
use super::self_cut::SelfCutTest;
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

/// CUBIC rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// It rules because TTLs show a hop, and has done so from the start.
    doubt: Option<SelfCutTest>,
    /// The largest window at which a loss came, in bytes. `None`: none came yet.
    largest: Option<u64>,
    /// Since when the window is well above that.
    above: Option<Instant>,
    last_loss: Option<Instant>,
}

impl Ruled {
    /// CUBIC took over at up to `largest` bytes.
    pub(super) const fn new(now: Instant, largest: u64) -> Self {
        Self {
            doubt: None,
            largest: Some(largest),
            above: None,
            last_loss: Some(now),
        }
    }

    /// CUBIC has ruled from the start: TTLs show a hop that writes no feedback, and no router has
    /// reported yet that its own hop is full.
    pub(super) const fn from_start() -> Self {
        Self {
            doubt: Some(SelfCutTest::NEW),
            largest: None,
            above: None,
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
        let calm = self.last_loss.is_none_or(|at| now - at >= lossless);
        let bounded = look.over.is_some_and(|at| now - at <= srtt) && calm;
        if (look.calm && room) || bounded {
            return Outcome::Gone;
        }
        match &mut self.doubt {
            Some(doubt) if !without(Mechanism::SelfCut) => doubt.attest(look, record),
            _ => Outcome::Stays,
        }
    }
}
