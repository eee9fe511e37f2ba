//! While CUBIC rules for a hidden hop: until when.

use crate::base::arith::mul_div;
use crate::base::{Duration, Instant};

/// CUBIC hands back after this many round trips with `LEAVE_SHARE` of the largest window at which a
/// loss came; each relapse doubles the time, `MOST_DOUBLINGS` times at most.
const LEAVE_ROUNDS: u32 = 20;
const LEAVE_SHARE: (u64, u64) = (5, 4);
const MOST_DOUBLINGS: u32 = 5;
/// … or at a router's OVER, after this many round trips without a loss.
const LOSSLESS_ROUNDS: u32 = 8;

/// What the path shows at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) now: Instant,
    pub(super) srtt: Duration,
    /// CUBIC's window in bytes.
    pub(super) window: u64,
    /// The last time that a router reported that its own hop is full.
    pub(super) over: Option<Instant>,
    /// No queue stands.
    pub(super) calm: bool,
    /// How often CUBIC has ruled before.
    pub(super) relapses: u32,
}

/// CUBIC rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// It rules because TTLs show a hop, and has done so from the start.
    doubt: bool,
    since: Instant,
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
            doubt: false,
            since: now,
            largest: Some(largest),
            above: None,
            last_loss: Some(now),
        }
    }

    /// CUBIC has ruled from the start: TTLs show a hop that writes no feedback, and no router has
    /// reported yet that its own hop is full.
    pub(super) const fn from_start(now: Instant) -> Self {
        Self {
            doubt: true,
            since: now,
            largest: None,
            above: None,
            last_loss: None,
        }
    }

    /// True if TTLs are the only evidence of a hop without feedback.
    pub(super) const fn is_doubt(&self) -> bool {
        self.doubt
    }

    /// Packets were lost at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        self.last_loss = Some(now);
        self.largest = self.largest.max(Some(window));
        self.above = None;
    }

    /// A round trip, or some packets, later: true if the hop is gone, or no longer the narrow one.
    pub(super) fn is_over(&mut self, look: &Look) -> bool {
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
        (look.calm && room) || bounded
    }
}
