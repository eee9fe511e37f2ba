//! The sender's half.

use super::ai::AiClock;
use super::delivered::Delivered;
use super::hidden::{Finding, HiddenBottleneck, is_delayed};
use super::params::{TYPICAL_RTT, VcpParams};
use super::phase::{Cut, Stage};
use super::ruler::{Change, Ruler};
use super::scale::{Gains, Scaling};
use super::window::Window;
use crate::arith::{mul_div, rate};
use crate::loss_ratio::LossRatio;
use crate::{
    Acked, Controller, CubicController, Duration, Feedback, Instant, LossRule, LossView, Lost,
    Metrics, PacketState, Phase, Request, Sent, VcpFeedback, Verdict, window,
};

/// Intervals that a router may claim; beyond them its word is not taken.
const LEAST_T_RHO: Duration = Duration::from_millis(1);
const LONGEST_T_RHO: Duration = Duration::from_millis(65_535);

/// What an OVER in CE's clothes, or a loss that counts as one on CUBIC's terms, leaves: β of RFC 9438.
const CE_SHARE_PPM: u64 = 700_000;
/// A loss halves (VCP's fallback to Reno).
const LOSS_SHARE_PPM: u64 = 500_000;

/// What routers last said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Latest {
    /// LOW, with BISE's large ε.
    LowSteep,
    Low,
    #[default]
    Raised,
}

/// A VCP sender; `L` says what losses mean.
#[derive(Clone, Debug)]
pub struct VcpSender<L> {
    name: &'static str,
    params: VcpParams,
    loss_rule: L,
    mtu: u64,
    window: Window,
    fallback: CubicController,
    ruler: Ruler,
    hidden: HiddenBottleneck,
    scaling: Scaling,
    cut: Cut,
    ai: AiClock,
    losses: LossRatio,
    delivered: Delivered,
    srtt: Option<Duration>,
    min_rtt: Option<Duration>,
    t_rho: Duration,
    latest: Latest,
    last_feedback: Option<Instant>,
    last_over: Option<Instant>,
    fed: bool,
    last_sent: u64,
    /// Losses up to this packet number belong to a round trip that was cut already.
    halved_until: Option<u64>,
    /// The window before that cut.
    before_halving: Option<Window>,
    marked_at: Option<Instant>,
}

impl<L: LossRule> VcpSender<L> {
    /// A sender whose path begins at `now` and carries datagrams of `mtu` bytes; `name` is what reports call it.
    #[must_use]
    pub fn new(
        name: &'static str,
        now: Instant,
        mtu: u16,
        params: VcpParams,
        loss_rule: L,
    ) -> Self {
        let fallback = CubicController::cubic(mtu, params.initial_window);
        let mtu = u64::from(mtu.max(1));
        Self {
            name,
            loss_rule,
            mtu,
            window: Window::new(window::initial(mtu, params.initial_window)),
            fallback,
            ruler: Ruler::new(now, params.carrier),
            hidden: HiddenBottleneck::new(now),
            scaling: Scaling::new(&params),
            cut: Cut::default(),
            ai: AiClock::new(now),
            losses: LossRatio::default(),
            delivered: Delivered::default(),
            srtt: None,
            min_rtt: None,
            t_rho: params.t_rho,
            latest: Latest::default(),
            last_feedback: None,
            last_over: None,
            fed: false,
            last_sent: 0,
            halved_until: None,
            before_halving: None,
            marked_at: None,
            params,
        }
    }

    /// True while codes steer the window.
    #[inline]
    fn explicit(&self) -> bool {
        self.ruler.routers() && !self.hidden.rules()
    }

    fn rtt(&self) -> Duration {
        self.srtt.unwrap_or(TYPICAL_RTT)
    }

    fn to_routers(&mut self, now: Instant) {
        self.window = Window::new(self.fallback.window());
        self.window.floor(self.mtu);
        self.hidden = HiddenBottleneck::new(now);
        self.cut.clear();
        self.ai.restart(now);
    }

    fn to_fallback(&mut self) {
        self.fallback.take_over(self.window.bytes());
    }

    fn obey(&mut self, change: Change, now: Instant) {
        match change {
            Change::Stays => {}
            // While a hidden bottleneck rules, CUBIC has the window already and keeps it.
            Change::ToRouters => self.to_routers(now),
            Change::ToFallback if self.hidden.rules() => self.hidden = HiddenBottleneck::new(now),
            Change::ToFallback => self.to_fallback(),
        }
    }

    /// Applies a batch of codes: MI, then AI, then MD, the order that leaves the smallest window.
    fn apply(&mut self, now: Instant, feedback: &VcpFeedback, acked: &Acked) {
        let [_, low_packets, high_packets, over_packets] = feedback.packets;
        let [_, low, high, over] = feedback.bytes;
        let srtt = self.rtt();
        let late = self
            .last_feedback
            .replace(now)
            .is_some_and(|last| now - last > srtt.saturating_mul(2));
        let steep = self.params.bise_epsilon_ppm.is_some() && feedback.bise;
        if low_packets > 0 {
            self.latest = if steep { Latest::LowSteep } else { Latest::Low };
        }
        if high_packets | over_packets > 0 {
            self.latest = Latest::Raised;
            self.hidden.on_raised(now);
        }

        let stage = self.cut.stage(now);
        if stage == Stage::Freeze && self.params.freeze_all {
            return;
        }
        if acked.window_limited {
            let gains = self.scaling.gains(&self.params, srtt, self.t_rho);
            let over = if stage == Stage::Grace { over } else { 0 };
            // Feedback that was away for long says little about now: one round trip's worth at most.
            let worth = if late { self.window.bytes() } else { u64::MAX };
            let low = low.min(worth);
            let raised = high.saturating_add(over).min(worth);
            self.grow(now, feedback, low, raised, gains);
        }
        if over_packets > 0 {
            self.on_over(now, stage, srtt);
        }
    }

    fn grow(&mut self, now: Instant, feedback: &VcpFeedback, low: u64, raised: u64, gains: Gains) {
        // Mean r over the LOW packets in 2^-16; 1 where no BISE router wrote one.
        let r_q16 = match feedback.packets {
            [_, 0, _, _] => 1 << 16,
            [_, count, _, _] => (feedback.sum_r / count).min(1 << 16),
        };
        let steep = self.params.bise_epsilon_ppm.is_some();
        let r_epsilon = mul_div(gains.steep_q32, r_q16, 1 << 16);
        let (epsilon_q32, as_ai) = match (steep, feedback.bise) {
            (true, true) => (r_epsilon, low - mul_div(low, r_q16, 1 << 16)),
            // BISE somewhere but not everywhere: neither router's limit is passed.
            (true, false) => (r_epsilon.min(gains.mild_q32), 0),
            (false, _) => (gains.mild_q32, 0),
        };
        let mi = if self.hidden.is_queueing() {
            0
        } else {
            Window::mi(low, epsilon_q32)
        };
        let alpha = self
            .ai
            .alpha_q16(now, self.t_rho, self.params.ai_growth, gains.alpha_q16);
        let ai = self
            .window
            .ai(as_ai.saturating_add(raised), alpha, self.mtu);
        // At most twice the window from one acknowledgement.
        self.window.add(mi.saturating_add(ai), self.window.bytes());
    }

    fn on_over(&mut self, now: Instant, stage: Stage, srtt: Duration) {
        self.last_over = Some(now);
        self.ai.restart(now);
        if stage == Stage::Normal {
            self.window.md(self.params.beta_ppm, self.mtu);
            self.cut.made(now, self.t_rho, srtt);
            self.before_halving = None;
        }
    }

    /// OVER while CUBIC rules because of a hidden bottleneck: a cut all the same.
    fn over_on_fallback(&mut self, now: Instant) {
        let srtt = self.rtt();
        if self.cut.stage(now) == Stage::Normal {
            self.fallback
                .on_congestion_experienced(now, now, self.last_sent);
            self.cut.made(now, self.t_rho, srtt);
        }
    }

    fn view(&self, now: Instant, lost: &Lost) -> LossView {
        LossView {
            recent_over: self
                .last_over
                .is_some_and(|at| now - at <= lost.srtt + self.t_rho),
            unmarked: self.ruler.unmarked(),
            delayed: is_delayed(lost.srtt, lost.min_rtt),
            loss_ppm: self.losses.recent_ppm(),
            loss_before_ppm: self.losses.before_ppm(),
        }
    }
}

impl<L: LossRule> Controller for VcpSender<L> {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.fallback.on_sent(now, sent)
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let Feedback::Vcp(feedback) = feedback;
        self.fed = true;
        if acked.srtt > Duration::ZERO {
            self.srtt = Some(acked.srtt);
        }
        if feedback.t_rho > Duration::ZERO {
            self.t_rho = feedback.t_rho.clamp(LEAST_T_RHO, LONGEST_T_RHO);
        }
        let change = self.ruler.on_codes(now, self.rtt(), &feedback.packets);
        self.obey(change, now);
        if self.explicit() {
            self.apply(now, feedback, acked);
        } else if self.hidden.rules() && matches!(feedback.packets, [.., over] if over > 0) {
            self.over_on_fallback(now);
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        self.min_rtt = Some(acked.min_rtt);
        self.losses.on_ack(now, acked.srtt, acked.packets);
        self.delivered.on_ack(now, acked.srtt, acked.bytes);
        if self.halved_until.is_some_and(|end| acked.largest > end) {
            self.halved_until = None;
        }
        if !core::mem::take(&mut self.fed) {
            let change = self.ruler.on_silence(now, acked.srtt);
            self.obey(change, now);
        }
        if self.ruler.routers() {
            let losses = &self.losses;
            match self.hidden.on_ack(
                now,
                acked.rtt,
                acked.srtt,
                acked.min_rtt,
                self.t_rho,
                || losses.recent_ppm(),
            ) {
                Finding::Clear => {}
                Finding::Appeared => self.to_fallback(),
                Finding::Gone => {
                    self.window = Window::new(self.fallback.window());
                    self.ai.restart(now);
                }
            }
        }
        if !self.explicit() {
            self.fallback.on_ack(now, acked);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.losses.on_loss(now, lost.srtt, lost.packets);
        if !self.explicit() {
            self.hidden.on_loss(now);
            self.fallback.on_loss(now, lost);
            return;
        }
        let covered = self.halved_until.is_some_and(|end| lost.largest <= end);
        if !covered && self.loss_rule.judge(&self.view(now, lost)) == Verdict::Congestion {
            self.before_halving = Some(self.window);
            self.window.md(LOSS_SHARE_PPM, self.mtu);
            self.halved_until = Some(lost.last_sent);
            self.ai.restart(now);
        }
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        if !self.explicit() {
            self.fallback
                .on_congestion_experienced(now, sent_at, last_sent);
            return;
        }
        // A queue that is no VCP router's marks instead of dropping: an OVER, cut as deep as CUBIC would.
        if self.marked_at.is_none_or(|at| sent_at > at) {
            self.marked_at = Some(now);
            self.window.md(CE_SHARE_PPM, self.mtu);
            self.cut.made(now, self.t_rho, self.rtt());
            self.ai.restart(now);
            self.hidden.on_raised(now);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        if self.explicit() {
            self.window.cap(self.mtu);
            self.window.floor(self.mtu);
            self.cut.clear();
            self.before_halving = None;
            self.halved_until = None;
            self.ai.restart(now);
        } else {
            self.fallback.on_persistent_congestion(now);
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if !self.explicit() {
            self.fallback.on_spurious_loss(now);
        } else if let Some(before) = self.before_halving.take() {
            self.window.floor(before.bytes());
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.fallback.on_restart(now, idle);
        // What other flows left of the path is unknown after more than about a retransmission timeout.
        if self.explicit() && idle > self.rtt().saturating_mul(2) {
            let initial = window::initial(self.mtu, self.params.initial_window);
            let proven = self.delivered.per_round().saturating_mul(2);
            self.window.cap(initial.max(proven));
        }
        self.last_feedback = None;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.fallback.on_mtu(mtu);
        self.mtu = u64::from(mtu.max(1));
        self.window.floor(self.mtu);
    }

    #[inline]
    fn window(&self) -> u64 {
        if self.explicit() {
            self.window.bytes()
        } else {
            self.fallback.window()
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        if !self.explicit() {
            return self.fallback.pacing_rate();
        }
        let (num, den) = match self.latest {
            Latest::LowSteep => (2, 1),
            Latest::Low | Latest::Raised => (5, 4),
        };
        Some(rate(self.window.bytes(), self.srtt?, num, den))
    }

    fn request(&self) -> Request {
        Request {
            bise: self.params.bise_epsilon_ppm.is_some(),
            min_rtt: self.min_rtt,
        }
    }

    fn metrics(&self) -> Metrics {
        if !self.explicit() {
            return self.fallback.metrics();
        }
        Metrics {
            ruling: self.name,
            phase: match self.latest {
                _ if self.cut.is_recent() || self.halved_until.is_some() => Phase::Recovery,
                Latest::LowSteep | Latest::Low => Phase::MultiplicativeIncrease,
                Latest::Raised => Phase::Avoidance,
            },
            window: self.window.bytes(),
            ssthresh: None,
            explicit: true,
        }
    }
}
