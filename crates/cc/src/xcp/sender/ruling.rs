//! Standard control that replaces the routers' control although they answer.

use super::XcpLaw;
use super::end_to_end::EndToEnd;
use crate::base::Instant;
use crate::metrics::FallbackReason;
use crate::signals::XcpFeedback;
use crate::supervise::{ExplicitLaw, Path};
use crate::xcp::params::XcpLoss;

/// The sign by which a hop without feedback was found.
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

impl XcpLaw {
    /// Hands control to CUBIC because of `reason`.
    pub(super) fn go_end_to_end(&mut self, now: Instant, path: &mut Path, reason: FallbackReason) {
        let window = self.steered(path);
        self.reason = reason;
        path.fallback.take_over_as_cubic(window);
        self.end_to_end = Some(EndToEnd::new(now, window));
    }

    pub(super) fn means_congestion(&self, path: &Path) -> bool {
        match self.params.loss {
            XcpLoss::Ignore => false,
            XcpLoss::Fallback => true,
            XcpLoss::Hybrid => path.mode.unmarked(),
        }
    }

    /// Handles the routers' answers while a hop without feedback is the bottleneck.
    pub(super) fn hear_while_hidden(&mut self, now: Instant, path: &mut Path, delta: i64) {
        let (floor, window) = (path.mtu, path.fallback.window());
        let srtt = path.rtt();
        let taken = self
            .end_to_end
            .as_mut()
            .and_then(|state| state.on_taken(now, delta, srtt, floor, window));
        if let Some(left) = taken {
            path.hidden.on_over(now);
            if left < window {
                path.fallback.take_over_as_cubic(left);
            }
        }
    }
}
