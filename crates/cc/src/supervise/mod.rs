//! Decides whether the window is controlled by the law that follows routers, or by a standard law.
//!
//! [`Supervised`] is the frame of every sender that follows routers. It contains everything that
//! doesn't depend on their protocol (`path.rs`): whether they answer (`mode.rs`), standard control
//! that can replace them (`fallback.rs`), the search for hops without feedback
//! ([`bottleneck`](crate::bottleneck)), RTTs, and packet numbers. A law ([`ExplicitLaw`]) turns
//! feedback into a window and a request.

mod fallback;
mod granted_start;
mod law;
mod law_set;
mod mode;
mod path;
mod retransmission;
mod takeover;

use crate::base::arith::rate;
use crate::base::{Duration, Instant};
use crate::bottleneck::Finding;
use crate::law::{Acked, Controller, Limits, Lost, PacketState, Sent, UNPACED};
use crate::metrics::Metrics;
use crate::signals::{Feedback, Request};
pub use fallback::FallbackLaw;
pub(crate) use law::{End, ExplicitLaw, Search};
pub(crate) use law_set::LawSet;
pub(crate) use path::{Path, TYPICAL_RTT};
pub(crate) use retransmission::RetransmissionTimeout;
pub(crate) use takeover::feed;
use takeover::{follow, obey};

// Frame of every law that follows routers. It decides whose window counts, and passes events to
// the laws.

/// Sender with a law that follows routers.
///
/// The fallback controls the window until a router has answered, while routers don't answer, and
/// while a hop without feedback is the bottleneck. Otherwise, the law does.
#[derive(Clone, Debug)]
pub(crate) struct Supervised<L> {
    path: Path,
    laws: L,
}

impl<L: LawSet> Supervised<L> {
    /// Creates a sender with `laws` on a path in state `path`.
    pub(crate) const fn on(path: Path, laws: L) -> Self {
        Self { path, laws }
    }

    /// Returns true while the routers' feedback controls the window.
    #[inline]
    fn explicit(&self) -> bool {
        self.laws.law().rules(&self.path)
    }
}

impl<L: LawSet> Controller for Supervised<L> {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let standard = self.path.on_sent(now, sent);
        self.laws.on_sent(sent);
        let explicit = self.laws.law_mut().on_sent(&self.path, sent);
        PacketState {
            explicit,
            ..standard
        }
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        self.laws.on_feedback(now, &mut self.path, feedback, acked);
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.laws.on_ack(now);
        let (path, law) = (&mut self.path, self.laws.law_mut());
        path.on_ack(now, acked);
        law.on_ack(now, path, acked);
        let fed = core::mem::take(&mut path.fed);
        if !fed && acked.packets > 0 && law.misses_feedback(path) {
            let change = path.mode.on_silence(now, acked.srtt, acked.packets);
            obey(law, now, path, change);
        }
        if law.search().acks {
            if path.mode.routers() {
                let patience = law.patience(acked.srtt);
                let window = law.own_window(path);
                let finding = path.hidden.on_ack(now, acked, patience, window);
                follow(law, now, path, finding);
            } else {
                path.hidden.on_first_ack(acked);
            }
        }
        if law.rules(path) {
            law.on_ruled_ack(now, path, acked);
        } else {
            path.fallback.on_ack(now, acked);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.laws.on_loss(now, lost);
        let (path, law) = (&mut self.path, self.laws.law_mut());
        let search = law.search();
        if path.mode.routers() && search.losses {
            let patience = law.patience(lost.srtt);
            let window = law.own_window(path);
            let finding = path.hidden.on_loss(now, lost, patience, window);
            follow(law, now, path, finding);
            if matches!(finding, Finding::Appeared(_)) {
                return;
            }
        } else if search.first_losses {
            path.hidden.on_first_loss(lost);
        }
        if law.rules(path) {
            law.on_loss(now, path, lost);
        }
        if !law.rules(path) {
            path.fallback.law_mut().on_loss(now, lost);
        }
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        let (path, law) = (&mut self.path, self.laws.law_mut());
        if law.rules(path) {
            law.on_marked(now, path, sent_at);
        }
        if !law.rules(path) {
            path.fallback
                .law_mut()
                .on_congestion_experienced(now, sent_at, last_sent);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        if self.explicit() {
            self.laws
                .law_mut()
                .on_persistent_congestion(now, &self.path);
        } else {
            self.path.fallback.law_mut().on_persistent_congestion(now);
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if self.explicit() {
            self.laws.law_mut().on_spurious_loss();
        } else {
            self.path.fallback.law_mut().on_spurious_loss(now);
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.path.fallback.law_mut().on_restart(now, idle);
        self.path.hidden.on_idle();
        if self.explicit() {
            self.laws.law_mut().on_restart(now, &self.path, idle);
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.path.on_mtu(mtu);
        self.laws.law_mut().floor(self.path.mtu);
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.path.on_handshake_rtt(now, srtt);
    }

    fn on_limits(&mut self, _now: Instant, limits: &Limits) {
        self.path.limits = *limits;
        self.laws.law_mut().on_limits(limits);
    }

    #[inline]
    fn window(&self) -> u64 {
        self.laws.law().in_flight(&self.path)
    }

    fn pacing_rate(&self) -> Option<u64> {
        let (path, law) = (&self.path, self.laws.law());
        let Some((num, den)) = law.pace() else {
            return Some(UNPACED);
        };
        if !law.rules(path) {
            return path.fallback.law().pacing_rate();
        }
        let pace = rate(law.steered(path), path.srtt?, num, den);
        Some(path.hidden.pace().map_or(pace, |most| pace.min(most)))
    }

    fn request(&self) -> Request {
        self.laws.request(&self.path)
    }

    fn signal_every(&self) -> u32 {
        let round = self.laws.law().own_window(&self.path) / self.path.mtu;
        let every = self.laws.signal_every(&self.path, round);
        let probing = self.path.mode.probe_interval(round);
        probing.map_or(every, |probing| probing.max(every))
    }

    fn metrics(&self) -> Metrics {
        let (path, law) = (&self.path, self.laws.law());
        if law.rules(path) {
            return law.metrics(path);
        }
        Metrics {
            fallback: Some(law.reason(path)),
            ..path.fallback.law().metrics()
        }
    }
}
