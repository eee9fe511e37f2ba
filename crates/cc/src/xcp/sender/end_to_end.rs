//! Standard congestion control instead of XCP (draft-falk-xcp-spec-03, sections 4.1.3.2 and 5.1).
//! After a loss that means congestion, CUBIC controls the window until a whole round trip has
//! passed in which routers would have left less.

use super::steering::Steering;
use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};

/// A decrease of less than this part of the window is attributed to shuffling, not to congestion
/// feedback.
const TAKEN: u64 = 32;

/// The window that the routers' feedback would give in the current round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndToEnd {
    since: Instant,
    window: u64,
    shadow: Steering,
}

impl EndToEnd {
    pub(crate) fn new(now: Instant, window: u64) -> Self {
        Self {
            since: now,
            window,
            shadow: Steering::new(now, window),
        }
    }

    /// Applies a rate change from routers while a hop without feedback is the bottleneck and
    /// requests ask for nothing. Returns `Some` with the remaining bytes if the routers took more
    /// than a thirty-second of the `window` over a round trip, because then their own hop is
    /// narrower.
    pub(crate) fn on_taken(
        &mut self,
        now: Instant,
        delta: i64,
        srtt: Duration,
        floor: u64,
        window: u64,
    ) -> Option<u64> {
        self.shadow.apply(delta.min(0), srtt, floor);
        if ns_since(now, self.since) < nanos(srtt) {
            return None;
        }
        let left = self.shadow.bytes();
        let before = self.window;
        *self = Self::new(now, window);
        (left < before - before / TAKEN).then_some(left)
    }

    /// Applies a rate change from routers. Returns `Some` with the bytes of their window if they
    /// leave less than the `window` of standard control, so that they control the sender again.
    pub(crate) fn on_feedback(
        &mut self,
        now: Instant,
        delta: i64,
        srtt: Duration,
        floor: u64,
        window: u64,
    ) -> Option<u64> {
        self.shadow.apply(delta, srtt, floor);
        if ns_since(now, self.since) < nanos(srtt) {
            return None;
        }
        let left = self.shadow.bytes();
        *self = Self::new(now, window);
        (left < window).then_some(left)
    }
}
