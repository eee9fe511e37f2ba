//! Standard congestion control in place of XCP (draft-falk-xcp-spec-03, sections 4.1.3.2 and 5.1):
//! after a loss that means congestion CUBIC has the window, until routers would have left less of
//! it over a whole round trip.

use super::steering::Steering;
use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};

/// A decrease of less than this part of the window is attributed to shuffling, not to congestion
/// feedback.
const TAKEN: u64 = 32;

/// The window by the routers' feedback in the running round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndToEnd {
    since: Instant,
    /// The window when it began.
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

    /// While a hidden hop is the narrow one and requests ask for nothing: routers changed the rate.
    /// `Some`: over a round trip they took more than a thirty-second of the `window`, so their own
    /// hop is narrower, and this many bytes are left.
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

    /// Routers changed the rate. `Some`: they leave less than the `window` of standard control, so
    /// they rule again, with this many bytes.
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
