//! Switches from the law to standard control and back.

use super::law::{End, ExplicitLaw};
use super::mode::Change;
use super::path::Path;
use crate::base::{Duration, Instant};
use crate::bottleneck::Finding;
use crate::law::Acked;
use crate::signals::Feedback;

/// Passes feedback to `law`, after deciding whether routers answer.
pub(crate) fn feed(
    law: &mut dyn ExplicitLaw,
    now: Instant,
    path: &mut Path,
    feedback: &Feedback,
    acked: &Acked,
) {
    let Some(answers) = law.answers(feedback) else {
        return;
    };
    path.note_feedback();
    if law.samples_first() {
        // The packets that carry this feedback show the current RTT.
        path.on_rtt(now, acked.rtt);
    }
    if acked.srtt > Duration::ZERO {
        path.set_srtt(acked.srtt);
    }
    let change = path.mode.on_codes(now, path.rtt(), &answers);
    obey(law, now, path, change);
    law.on_feedback(now, path, feedback, acked);
}

/// Follows routers that begin or cease to answer.
pub(super) fn obey(law: &mut dyn ExplicitLaw, now: Instant, path: &mut Path, change: Change) {
    match change {
        Change::Stays => {}
        Change::ToRouters => {
            path.hidden.restart(now);
            law.begin(now, path.fallback.window());
        }
        Change::ToFallback => {
            let srtt = path.rtt();
            let least = path.min_rtt.unwrap_or(srtt);
            // CUBIC may already control the window.
            if path.hidden.rules() || law.yields() {
                path.fallback.enter_model(now, least, srtt);
            } else {
                let window = law.steered(path);
                path.fallback.take_over(now, window, least, srtt);
            }
            law.end(now, End::NoAnswer);
            path.hidden.restart(now);
        }
    }
}

/// Follows the appearance or disappearance of a hop without feedback that is the bottleneck.
pub(super) fn follow(law: &mut dyn ExplicitLaw, now: Instant, path: &mut Path, finding: Finding) {
    match finding {
        Finding::Clear => {}
        Finding::Appeared(begin) => {
            law.end(now, End::HiddenHop(begin.window));
            path.fallback
                .take_over_below(now, begin.window, begin.proven);
        }
        Finding::Gone => law.begin(now, path.fallback.window()),
    }
}
