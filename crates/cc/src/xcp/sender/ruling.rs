//! The law that rules the window: routers, or standard control in their place.

use super::XcpSender;
use super::end_to_end::EndToEnd;
use super::steering::Steering;
use crate::base::{Duration, Instant};
use crate::bottleneck::Finding;
use crate::law::Controller;
use crate::metrics::FallbackReason;
use crate::signals::XcpFeedback;
use crate::supervise::Change;
use crate::xcp::params::XcpLoss;

/// How a hop that does not answer shows, if there is one.
pub(super) fn hop_shown_by(feedback: &XcpFeedback) -> FallbackReason {
    if feedback.uncounted {
        FallbackReason::NoEstimate
    } else if feedback.unmarked_hop == Some(true) {
        FallbackReason::PlainHop
    } else if feedback.ttl_rewritten {
        FallbackReason::TtlRewritten
    } else {
        FallbackReason::HiddenHop
    }
}

impl XcpSender {
    pub(super) fn obey(&mut self, now: Instant, change: Change) {
        match change {
            Change::Stays => {}
            Change::ToRouters => {
                self.end_to_end = None;
                self.stated = 0;
                self.hidden.restart(now);
                self.steering = Steering::new(now, self.fallback.window());
            }
            Change::ToFallback => {
                if self.end_to_end.take().is_none() {
                    self.fallback.take_over(self.steered());
                }
                self.hidden.restart(now);
            }
        }
    }

    /// Standard control takes over, at `window` bytes, because of `reason`.
    pub(super) fn go_end_to_end(&mut self, now: Instant, window: u64, reason: FallbackReason) {
        self.reason = reason;
        self.fallback.take_over(window);
        self.end_to_end = Some(EndToEnd::new(now, window));
    }

    /// Why standard control rules, in place of routers.
    pub(super) const fn fallback_reason(&self) -> FallbackReason {
        match self.reason {
            _ if !self.mode.routers() => FallbackReason::NoAnswer,
            FallbackReason::HiddenHop => self.hop,
            reason => reason,
        }
    }

    pub(super) fn means_congestion(&self) -> bool {
        match self.params.loss {
            XcpLoss::Ignore => false,
            XcpLoss::Fallback => true,
            XcpLoss::Hybrid => self.mode.unmarked(),
        }
    }

    /// True while the sender looks for hops without feedback. A sender with `loss=ignore` does not,
    /// and then no bound applies that only the search would lift.
    pub(super) fn watches(&self) -> bool {
        self.params.loss != XcpLoss::Ignore
    }

    pub(super) fn follow(&mut self, now: Instant, finding: Finding) {
        match finding {
            Finding::Clear => {}
            Finding::Appeared(begin) => {
                self.go_end_to_end(now, begin.window, FallbackReason::HiddenHop);
                self.fallback
                    .take_over_below(now, begin.window, begin.proven);
            }
            Finding::Gone => {
                self.end_to_end = None;
                self.steering = Steering::new(now, self.fallback.window());
            }
        }
    }

    /// Routers answered while a hidden hop is the narrow one.
    pub(super) fn hear_while_hidden(&mut self, now: Instant, delta: i64, srtt: Duration) {
        let (floor, window) = (self.floor(), self.fallback.window());
        let taken = self
            .end_to_end
            .as_mut()
            .and_then(|state| state.on_taken(now, delta, srtt, floor, window));
        if let Some(left) = taken {
            self.hidden.on_over(now);
            if left < window {
                self.fallback.take_over(left);
            }
        }
    }
}
