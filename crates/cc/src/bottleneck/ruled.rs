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
    /// The largest window at which a loss came, in bytes.
    largest: u64,
    /// Since when the window is well above that.
    above: Option<Instant>,
    last_loss: Instant,
}

impl Ruled {
    /// CUBIC took over at up to `largest` bytes.
    pub(super) const fn new(now: Instant, largest: u64) -> Self {
        Self {
            largest,
            above: None,
            last_loss: now,
        }
    }

    /// Packets were lost at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        self.last_loss = now;
        self.largest = self.largest.max(window);
        self.above = None;
    }

    /// A round trip, or some packets, later: true if the hop is gone, or no longer the narrow one.
    pub(super) fn is_gone(&mut self, look: &Look) -> bool {
        let Look { now, srtt, .. } = *look;
        if look.window > mul_div(self.largest, LEAVE_SHARE.0, LEAVE_SHARE.1) {
            self.above.get_or_insert(now);
        } else {
            self.above = None;
        }
        let relapses = look.relapses.min(MOST_DOUBLINGS);
        let patience = srtt.saturating_mul(LEAVE_ROUNDS << relapses);
        let lossless = srtt.saturating_mul(LOSSLESS_ROUNDS << relapses);
        let room = self.above.is_some_and(|since| now - since >= patience);
        let bounded =
            look.over.is_some_and(|at| now - at <= srtt) && now - self.last_loss >= lossless;
        (look.calm && room) || bounded
    }
}
