//! Switches from the law to standard control and back.

use super::Supervised;
use super::law::{End, ExplicitLaw, LawSet};
use super::mode::Change;
use super::path::Path;
use crate::base::{Duration, Instant};
use crate::bottleneck::Finding;
use crate::law::{Acked, Controller, Limits, PacketState, Sent};
use crate::quick_start::Startable;
use crate::signals::Feedback;
use crate::standard::CubicController;
use crate::standard::bbr::Bbr;

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

// Standard congestion control, used instead of routers' answers.
//
// While no router answers, the window is controlled by CUBIC or, if configured, BBR. If routers
// answer but a hop without feedback is the bottleneck, it's always controlled by CUBIC, because
// CUBIC's cuts show when such a hop has disappeared (`bottleneck`).

/// Law that controls the window on a path without answering routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FallbackLaw {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// Standard laws that can replace the routers' law.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    cubic: CubicController,
    bbr: Option<Box<Bbr>>,
    /// True if BBR is in control instead of CUBIC.
    modelled: bool,
}

impl Fallback {
    pub(super) fn new(law: FallbackLaw, now: Instant, mtu: u16, initial: Option<u32>) -> Self {
        let bbr = match law {
            FallbackLaw::Cubic => None,
            FallbackLaw::Bbr => Some(Box::new(Bbr::new(now, mtu, initial))),
        };
        Self {
            cubic: CubicController::cubic(mtu, initial),
            modelled: bbr.is_some(),
            bbr,
        }
    }

    /// Takes over because routers no longer answer, and continues with `window` bytes, which they
    /// have allowed. The path's minimum and smoothed RTT are `least` and `srtt`.
    pub(super) fn take_over(&mut self, now: Instant, window: u64, least: Duration, srtt: Duration) {
        self.cubic.take_over(window);
        self.enter_model(now, least, srtt);
    }

    /// Continues with CUBIC's window, using BBR if configured.
    pub(super) fn enter_model(&mut self, now: Instant, least: Duration, srtt: Duration) {
        if let Some(bbr) = &mut self.bbr {
            self.modelled = true;
            bbr.take_over(now, self.cubic.window(), least, srtt);
        }
    }

    /// Takes over because a hop without feedback is the bottleneck. CUBIC continues with `window`
    /// bytes, in slow start up to `ssthresh`.
    pub(super) fn take_over_below(&mut self, now: Instant, window: u64, ssthresh: u64) {
        self.modelled = false;
        self.cubic.take_over_below(now, window, ssthresh);
    }

    /// Takes over because of a loss or mark that indicates congestion, although routers answer.
    /// CUBIC continues with `window` bytes.
    pub(crate) fn take_over_as_cubic(&mut self, window: u64) {
        self.modelled = false;
        self.cubic.take_over(window);
    }

    pub(crate) fn law(&self) -> &(dyn Startable + 'static) {
        match &self.bbr {
            Some(bbr) if self.modelled => &**bbr,
            _ => &self.cubic,
        }
    }

    /// Returns the law in control for its events. Sent packets and MTU changes go to both laws
    /// instead.
    pub(crate) fn law_mut(&mut self) -> &mut (dyn Startable + 'static) {
        match &mut self.bbr {
            Some(bbr) if self.modelled => &mut **bbr,
            _ => &mut self.cubic,
        }
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let state = self.cubic.on_sent(now, sent);
        self.bbr
            .as_mut()
            .map_or(state, |bbr| bbr.on_sent(now, sent))
    }

    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if self.modelled {
            self.law_mut().on_ack(now, acked);
        } else {
            self.cubic.on_ack(now, acked);
        }
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.cubic.on_mtu(mtu);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_mtu(mtu);
        }
    }

    #[inline]
    pub(crate) fn window(&self) -> u64 {
        if self.modelled {
            self.law().window()
        } else {
            self.cubic.window()
        }
    }
}

// Starts with a rate granted by routers. If routers answer, their law continues from there, and
// otherwise the fallback does.

impl<L: LawSet> Startable for Supervised<L> {
    fn may_start(&self) -> bool {
        !self.path.hidden.rules()
    }

    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        // Rates granted in earlier headers are added, because routers deducted them.
        let given = if self.explicit() {
            self.laws.law().granted_before(&self.path)
        } else {
            0
        };
        self.begin_again_with(now, window.saturating_add(given))
    }

    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        let srtt = self.path.rtt();
        self.path.hidden.allow(window, srtt);
        if !self.explicit() {
            self.laws.law_mut().state_flight(window);
            return false;
        }
        self.laws.law_mut().begin_granted(now, &self.path, window);
        self.laws.on_start(now, &self.path);
        true
    }

    fn verified_grant(&self) -> u64 {
        self.path.hidden.granted_window(self.path.rtt())
    }

    fn measured_window(&self) -> Option<u64> {
        self.path.hidden.shown_window(self.path.rtt())
    }

    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        self.laws.law_mut().state_flight(0);
        self.path.hidden.allow(0, self.path.rtt());
        if self.explicit() {
            self.laws.law_mut().cap(window);
        } else {
            self.path
                .fallback
                .law_mut()
                .start_with(now, window, threshold);
        }
    }

    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let law = self.laws.law_mut();
        law.wait_for_measure(now, &self.path, rounds);
    }

    fn confirm(&mut self, window: u64) {
        if self.explicit() {
            self.path.hidden.confirm(window, self.path.rtt());
            // The port has already counted the full grant, so its answers won't provide the rest.
            self.laws.law_mut().floor(window);
        }
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        let rules = self.explicit();
        let law = self.laws.law_mut();
        law.give_back(now, &mut self.path, window, rules);
        if !rules {
            self.path.fallback.law_mut().give_back(now, window);
        }
    }

    fn not_begun(&mut self) {
        self.laws.law_mut().state_flight(0);
        if !self.explicit() {
            self.path.hidden.allow(0, self.path.rtt());
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.laws.law_mut().state_flight(0);
        self.path.hidden.allow(0, self.path.rtt());
        if self.explicit() {
            let window = window.max(threshold);
            self.laws.law_mut().give_up(now, window, last_sent);
        } else {
            let fallback = self.path.fallback.law_mut();
            fallback.give_up(now, window, threshold, last_sent);
        }
    }

    fn expected_loss_ppm(&self) -> u64 {
        self.path.hidden.expected_loss_ppm()
    }

    fn usable(&self, limits: &Limits) -> u64 {
        self.laws.law().usable(limits)
    }

    fn raise_threshold(&mut self, threshold: u64) {
        if self.explicit() {
            self.laws.law_mut().floor(threshold);
        } else {
            self.path.fallback.law_mut().raise_threshold(threshold);
        }
    }
}
