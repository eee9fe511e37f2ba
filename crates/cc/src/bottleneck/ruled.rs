//! Control by CUBIC because of a hidden hop, and its end.

use crate::base::arith::mul_div;
use crate::base::{Duration, Instant};

/// CUBIC returns control after its window has exceeded `LEAVE_SHARE` of the largest one at which a
/// packet was lost for this many round trips. Each relapse doubles this time, up to
/// `MOST_DOUBLINGS` times.
const LEAVE_ROUNDS: u32 = 20;
const LEAVE_SHARE: (u64, u64) = (5, 4);
const MOST_DOUBLINGS: u32 = 5;
/// It also returns control when a router sends OVER after this many round trips without loss.
const LOSSLESS_ROUNDS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) now: Instant,
    pub(super) srtt: Duration,
    /// CUBIC's window in bytes.
    pub(super) window: u64,
    /// The last time at which a router reported that its own hop is full.
    pub(super) over: Option<Instant>,
    pub(super) calm: bool,
    pub(super) relapses: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// The largest window at which a packet was lost, in bytes.
    largest: u64,
    /// Time since which the window has been well above this.
    above: Option<Instant>,
    last_loss: Instant,
}

impl Ruled {
    /// Starts with a largest window of `largest` bytes.
    pub(super) const fn new(now: Instant, largest: u64) -> Self {
        Self {
            largest,
            above: None,
            last_loss: now,
        }
    }

    /// Handles losses at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        self.last_loss = now;
        self.largest = self.largest.max(window);
        self.above = None;
    }

    /// Returns true if the hop has disappeared, or is no longer the bottleneck. Called at least
    /// once per round trip.
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
