//! Standard congestion control in place of XCP (draft-falk-xcp-spec-03, sections 4.1.3.2 and 5.1): after a loss that means congestion
//! CUBIC has the window, until routers would have left less of it over a whole round trip.

use super::steering::Steering;
use crate::arith::{nanos, ns_since};
use crate::{Duration, Instant};

/// What routers would have made of the window in the running round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndToEnd {
    since: Instant,
    shadow: Steering,
}

impl EndToEnd {
    pub(crate) fn new(now: Instant, window: u64) -> Self {
        Self {
            since: now,
            shadow: Steering::new(now, window),
        }
    }

    /// Routers changed the rate. `Some`: they leave less than the `window` that standard control has made of it, so they
    /// rule again, with so many bytes.
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
