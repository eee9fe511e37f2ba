//! The sender's half: mode, reaction to losses, and the resulting window.

mod delivered;
mod granted_start;
mod phase;
mod published;
pub(super) mod steering;
pub(super) mod window;

#[cfg(test)]
mod tests;

pub(crate) use published::{PublishedLoss, PublishedVcp};

use super::params::{TYPICAL_RTT, VcpParams};
use crate::base::arith::rate;
use crate::base::window::initial;
use crate::base::{Duration, Instant};
use crate::bottleneck::{Finding, HiddenHop, Step};
use crate::law::{Acked, Controller, LossRule, LossView, Lost, PacketState, Sent, Verdict};
use crate::metrics::{FallbackReason, Metrics, Phase};
use crate::signals::{Feedback, Request};
use crate::supervise::{Change, Fallback, Handover, ModeSelector, RecentRtt};
use delivered::Delivered;
use steering::{FULL_128, Latest, Moment, Steering};

/// What CE in the IP header leaves: β of RFC 9438.
const CE_SHARE_PPM: u64 = 700_000;

/// While CUBIC rules for long, few packets carry requests: where routers answer but are not the
/// bottleneck, one per round trip and one in `ASK_IN_VAIN` at least.
const ASK_IN_VAIN: u64 = 64;

/// A window that does not grow leaves a little faster than once per round trip.
const STEADY_PACE: (u64, u64) = (33, 32);

/// Under LOW windows grow 2.6-fold in a round trip at ε = 10, and what arrives is known a round
/// trip later.
const STEP: Step = Step {
    partly: 8,
    unknown: None,
};

/// A loss that halved the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halving {
    /// Losses up to this packet number belong to the same round trip.
    pub(super) last_sent: u64,
    /// The window before, in bytes, while it may come back; 0 then.
    pub(super) before: u64,
}

/// A VCP sender; `L` is the reaction to losses.
///
/// The window is CUBIC's until a router has marked a packet, while marks stay away, and while a
/// bottleneck shows that no router announces; it is the routers' otherwise.
#[derive(Clone, Debug)]
pub struct VcpSender<L> {
    name: &'static str,
    params: VcpParams,
    loss_rule: L,
    mtu: u64,
    pub(super) steering: Steering,
    pub(super) fallback: Fallback,
    mode: ModeSelector,
    pub(super) hidden: HiddenHop,
    delivered: Delivered,
    srtt: Option<Duration>,
    recent: RecentRtt,
    min_rtt: Option<Duration>,
    last_sent: u64,
    /// Feedback came with the acknowledgement that is being processed.
    fed: bool,
    pub(super) halving: Option<Halving>,
    marked_at: Option<Instant>,
    /// No growth before: codes do not show yet what was granted.
    pub(super) held_until: Option<Instant>,
}

impl<L: LossRule> VcpSender<L> {
    /// A sender whose path begins at `now` and carries datagrams of `mtu` bytes; `name` appears in
    /// reports.
    #[must_use]
    pub fn new(
        name: &'static str,
        now: Instant,
        mtu: u16,
        params: VcpParams,
        loss_rule: L,
    ) -> Self {
        let fallback = Fallback::new(params.fallback, now, mtu, params.initial_window);
        Self {
            name,
            loss_rule,
            mtu: u64::from(mtu.max(1)),
            steering: Steering::new(now, fallback.window(), &params),
            fallback,
            mode: ModeSelector::new(now, params.carrier),
            hidden: HiddenHop::new(now, u64::from(mtu.max(1)), STEP),
            delivered: Delivered::default(),
            srtt: None,
            recent: RecentRtt::new(now),
            min_rtt: None,
            last_sent: 0,
            fed: false,
            halving: None,
            marked_at: None,
            held_until: None,
            params,
        }
    }

    /// The state that another law continues with. `None` while an unannounced bottleneck rules.
    pub(crate) fn leave(&self) -> Option<Handover> {
        (!self.hidden.rules()).then(|| Handover {
            mtu: self.mtu,
            window: self.window(),
            cubic: self.fallback.cubic().clone(),
            mode: self.mode.clone(),
            hidden: self.hidden.clone(),
            srtt: self.srtt,
            recent: self.recent,
            last_sent: self.last_sent,
        })
    }

    /// Continues from the state of another law.
    pub(crate) fn enter(name: &'static str, now: Instant, params: VcpParams, left: Handover) -> Self
    where
        L: Default,
    {
        let mtu = u16::try_from(left.mtu).unwrap_or(u16::MAX);
        let mut law = Self::new(name, now, mtu, params, L::default());
        law.steering.take_over(now, left.window);
        law.fallback = Fallback::of(left.cubic);
        law.mode = left.mode;
        law.hidden = left.hidden;
        law.hidden.set_step(STEP);
        law.srtt = left.srtt;
        law.recent = left.recent;
        law.last_sent = left.last_sent;
        law
    }

    /// Feedback arrived with the next acknowledgement.
    pub(crate) const fn is_fed(&mut self) {
        self.fed = true;
    }

    /// True while codes steer the window.
    #[inline]
    pub(super) fn explicit(&self) -> bool {
        self.mode.routers() && !self.hidden.rules()
    }

    pub(super) fn rtt(&self) -> Duration {
        self.srtt.unwrap_or(TYPICAL_RTT)
    }

    /// Something else has cut the window since it was halved, or another law has it.
    fn keep_halved(&mut self) {
        if let Some(halving) = &mut self.halving {
            halving.before = 0;
        }
    }

    fn obey(&mut self, change: Change, now: Instant) {
        if !matches!(change, Change::Stays) {
            self.keep_halved();
        }
        match change {
            Change::Stays => {}
            Change::ToRouters => {
                self.hidden.restart(now);
                self.steering.take_over(now, self.fallback.window());
            }
            // A hidden bottleneck has given CUBIC the window already.
            Change::ToFallback if self.hidden.rules() => self.hidden.restart(now),
            Change::ToFallback => {
                let srtt = self.rtt();
                let least = self.min_rtt.unwrap_or(srtt);
                self.fallback.take_over(now, self.steered(), least, srtt);
                self.hidden.restart(now);
            }
        }
    }

    /// The window under the routers' rule.
    #[inline]
    fn steered(&self) -> u64 {
        self.steering.bytes().min(self.hidden.cap())
    }

    fn follow(&mut self, now: Instant, finding: Finding) {
        if !matches!(finding, Finding::Clear) {
            self.keep_halved();
        }
        match finding {
            Finding::Clear => {}
            Finding::Appeared(begin) => {
                self.fallback
                    .take_over_below(now, begin.window, begin.proven);
            }
            Finding::Gone => self.steering.take_over(now, self.fallback.window()),
        }
    }
}

impl<L: LossRule> Controller for VcpSender<L> {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.hidden.on_sent(sent.packet_number);
        self.fallback.on_sent(now, sent)
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let Feedback::Vcp(feedback) = feedback else {
            return;
        };
        self.fed = true;
        if acked.srtt > Duration::ZERO {
            self.srtt = Some(self.recent.bound(acked.srtt));
        }
        let srtt = self.rtt();
        self.steering.hear_t_rho(feedback.t_rho);
        let change = self.mode.on_codes(now, srtt, &feedback.packets);
        self.obey(change, now);
        let [_, _, high, over] = feedback.packets;
        if high | over > 0 {
            self.hidden
                .on_raised(now, over > 0 || feedback.load_128 >= FULL_128);
        }
        if over > 0 {
            self.keep_halved();
            self.hidden.on_over(now);
        }
        self.hidden.set_partly(feedback.unmarked_hop, srtt);
        self.hidden.declare(feedback.corruption_ppm.into(), srtt);
        if self.explicit() {
            let moment = Moment {
                now,
                srtt,
                mtu: self.mtu,
                limited: acked.window_limited
                    && self.held_until.is_none()
                    && self.hidden.pace().is_none()
                    && !self.hidden.holds(self.steering.bytes()),
                braked: self.hidden.is_braked(),
            };
            self.steering.apply(&self.params, moment, feedback);
        } else if over > 0 && self.mode.routers() && self.steering.over_elsewhere(now, self.srtt) {
            self.fallback
                .on_congestion_experienced(now, now, self.last_sent);
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if let Some(rtt) = acked.rtt {
            self.recent.on_sample(now, rtt);
        }
        self.srtt = Some(self.recent.bound(acked.srtt));
        self.min_rtt = Some(acked.min_rtt);
        if self.held_until.is_some_and(|until| now >= until) {
            self.held_until = None;
            self.end_start();
        }
        self.delivered.on_ack(now, acked.srtt, acked.bytes);
        // While a hidden bottleneck has given CUBIC the window, most packets carry no request.
        if !core::mem::take(&mut self.fed) && acked.packets > 0 && !self.hidden.rules() {
            let change = self.mode.on_silence(now, acked.srtt, acked.packets);
            self.obey(change, now);
        }
        if self.mode.routers() {
            let (t_rho, window) = (self.steering.t_rho(), self.window());
            let finding = self.hidden.on_ack(now, acked, t_rho, window);
            self.follow(now, finding);
        } else {
            self.hidden.on_first_ack(acked);
        }
        if !self.explicit() {
            self.fallback.on_ack(now, acked);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        if self.mode.routers() && self.loss_rule.doubts() {
            let (t_rho, window) = (self.steering.t_rho(), self.window());
            let finding = self.hidden.on_loss(now, lost, t_rho, window);
            self.follow(now, finding);
            if matches!(finding, Finding::Appeared(_)) {
                return;
            }
        } else if self.loss_rule.doubts() {
            self.hidden.on_first_loss(lost);
        }
        if !self.explicit() {
            self.fallback.on_loss(now, lost);
            return;
        }
        let covered = self
            .halving
            .is_some_and(|halving| lost.largest <= halving.last_sent);
        if covered {
            return;
        }
        self.keep_halved();
        let view = LossView {
            unmarked: self.mode.unmarked(),
        };
        if self.loss_rule.judge(&view) == Verdict::Congestion {
            self.halving = Some(Halving {
                last_sent: lost.last_sent,
                before: self.steering.halve(now, self.mtu),
            });
        }
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        if !self.explicit() {
            self.fallback
                .on_congestion_experienced(now, sent_at, last_sent);
            return;
        }
        self.keep_halved();
        if self.marked_at.is_none_or(|at| sent_at > at) {
            self.marked_at = Some(now);
            self.hidden.on_raised(now, true);
            let srtt = self.rtt();
            self.steering.on_marked(now, CE_SHARE_PPM, srtt, self.mtu);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.halving = None;
        if self.explicit() {
            self.steering.collapse(now, self.mtu);
        } else {
            self.fallback.on_persistent_congestion(now);
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if !self.explicit() {
            self.fallback.on_spurious_loss(now);
        } else if let Some(halving) = self.halving.take() {
            self.steering.floor(halving.before);
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.fallback.on_restart(now, idle);
        self.hidden.on_idle();
        // What other flows left of the path is unknown after more than about a retransmission
        // timeout.
        if self.explicit() && idle > self.rtt().saturating_mul(2) {
            let window = initial(self.mtu, self.params.initial_window);
            let proven = self.delivered.per_round().saturating_mul(2);
            self.steering.cap_after_idle(now, window.max(proven));
        }
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.fallback.on_handshake_rtt(now, srtt);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.fallback.on_mtu(mtu);
        self.mtu = u64::from(mtu.max(1));
        self.hidden.set_mtu(self.mtu);
        self.steering.floor(self.mtu);
    }

    #[inline]
    fn window(&self) -> u64 {
        if self.explicit() {
            self.steered()
        } else {
            self.fallback.window()
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        if !self.explicit() {
            return self.fallback.pacing_rate();
        }
        // Under fast growth the pacer must not hold back what the window has just been given.
        let (num, den) = match self.steering.latest() {
            // Nothing is given: a window that opens late must not leave at once.
            _ if self.held_until.is_some() => STEADY_PACE,
            Latest::LowSteep => (2, 1),
            Latest::Low | Latest::Raised => (5, 4),
        };
        let pace = rate(self.steered(), self.srtt?, num, den);
        Some(self.hidden.pace().map_or(pace, |most| pace.min(most)))
    }

    fn request(&self) -> Request {
        Request {
            bise: self.params.bise_epsilon_ppm.is_some(),
            // Routers size their interval by it: feedback takes this long to show, with queues on
            // the way back and longer routes.
            min_rtt: self
                .min_rtt
                .map(|least| least + self.hidden.behind() + self.hidden.ahead()),
            ..Request::default()
        }
    }

    fn signal_every(&self) -> u32 {
        let round = self.window() / self.mtu.max(1);
        if let Some(every) = self.mode.probe_interval(round) {
            return every;
        }
        if !self.hidden.rules() {
            return 1;
        }
        u32::try_from(ASK_IN_VAIN.min(round)).unwrap_or(u32::MAX)
    }

    fn metrics(&self) -> Metrics {
        if !self.explicit() {
            let reason = match (self.mode.routers(), self.hidden.is_shown()) {
                (false, _) => FallbackReason::NoAnswer,
                (true, true) => FallbackReason::PlainHop,
                (true, false) => FallbackReason::HiddenHop,
            };
            return Metrics {
                fallback: Some(reason),
                ..self.fallback.metrics()
            };
        }
        Metrics {
            ruling: self.name,
            phase: match self.steering.latest() {
                _ if self.steering.is_cut() => Phase::Recovery,
                Latest::LowSteep | Latest::Low => Phase::MultiplicativeIncrease,
                Latest::Raised => Phase::Avoidance,
            },
            window: self.steered(),
            ssthresh: None,
            explicit: true,
            fallback: None,
            quick_start: None,
        }
    }
}
