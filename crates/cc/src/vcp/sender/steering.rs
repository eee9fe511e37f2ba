//! Computes the window from codes: MI under LOW, AI under HIGH, MD under OVER.

use super::Window;
use crate::base::arith::{PPM, micros, mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::signals::VcpFeedback;
use crate::vcp::params::VcpParams;
use crate::vcp::scale::{AiClock, Gains, Scaling};

/// Bounds of a router's interval; values outside are clamped.
const LEAST_T_RHO: Duration = Duration::from_millis(1);
const LONGEST_T_RHO: Duration = Duration::from_millis(65_535);

/// Up to this r, LOW is dominated by AI, so α may grow.
const AI_RULES_R_Q16: u64 = (1 << 16) / 100;

/// However far α has grown, AI adds at most the window divided by this per interval.
const AI_PER_INTERVAL: u64 = 4;

/// AI must not undo the cuts of other flows meanwhile, so it adds at most the window divided by
/// this per interval, whatever α is.
const AI_WHILE_SPARED: u64 = 16;

/// If growth gives back at least half of a cut (1/16 of the window), the cut does not end the
/// overload.
const GIVEN_BACK: u64 = 16;

/// Load in 1/128 at which a port starts to send OVER.
const FULL_128: u8 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Latest {
    /// LOW, with BISE's large ε.
    LowSteep,
    Low,
    /// HIGH or OVER.
    #[default]
    Raised,
}

/// The sender's state when feedback arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    pub(crate) srtt: Duration,
    pub(crate) mtu: u64,
    /// The window limited the sender.
    pub(crate) limited: bool,
    /// A queue persists at a hop that codes do not cover, so MI is suspended.
    pub(crate) braked: bool,
}

/// The window while routers control it.
#[derive(Clone, Debug)]
pub(crate) struct Steering {
    window: Window,
    scaling: Scaling,
    cut: Cut,
    ai: AiClock,
    t_rho: Duration,
    latest: Latest,
    last_feedback: Option<Instant>,
    last_over: Option<Instant>,
    /// The window before the last cut for OVER, in bytes.
    cut_from: u64,
}

impl Steering {
    pub(crate) fn new(now: Instant, window: u64, params: &VcpParams) -> Self {
        Self {
            window: Window::new(window),
            scaling: Scaling::new(params),
            cut: Cut::default(),
            ai: AiClock::new(now),
            t_rho: params.t_rho,
            latest: Latest::default(),
            last_feedback: None,
            last_over: None,
            cut_from: 0,
        }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.window.bytes()
    }

    pub(crate) const fn t_rho(&self) -> Duration {
        self.t_rho
    }

    pub(crate) const fn latest(&self) -> Latest {
        self.latest
    }

    /// True during FREEZE and GRACE after a cut.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut.is_recent()
    }

    pub(crate) fn take_over(&mut self, now: Instant, window: u64) {
        self.window = Window::new(window);
        self.cut.clear();
        self.ai.reset(now);
        self.last_feedback = None;
    }

    /// Records a router's interval, which is 0 if the carrier has no field for it.
    pub(crate) fn hear_t_rho(&mut self, t_rho: Duration) {
        if t_rho > Duration::ZERO {
            self.t_rho = t_rho.clamp(LEAST_T_RHO, LONGEST_T_RHO);
        }
    }

    /// Applies a batch of codes in the order MI, AI, MD, which results in the smallest window.
    pub(crate) fn apply(&mut self, params: &VcpParams, moment: Moment, feedback: &VcpFeedback) {
        let Moment { now, srtt, .. } = moment;
        let [_, low_packets, high_packets, over_packets] = feedback.packets;
        let late = self
            .last_feedback
            .replace(now)
            .is_some_and(|last| ns_since(now, last) / 2 > nanos(srtt));
        if low_packets > 0 {
            let steep = params.bise_epsilon_ppm.is_some() && feedback.bise;
            self.latest = if steep { Latest::LowSteep } else { Latest::Low };
        }
        if high_packets | over_packets > 0 {
            self.latest = Latest::Raised;
        }
        if late {
            // An OVER in the meantime may have been missed.
            self.ai.hold(now);
        }
        let stage = self.cut.stage(now);
        if is_spared(feedback) {
            // α restarts together with that of the flows that are cut.
            self.ai.on_over(now, self.t_rho.max(srtt), params.ai_growth);
        }
        if moment.limited {
            self.grow(params, moment, feedback, stage, late);
        } else {
            self.ai.hold(now);
        }
        if over_packets > 0 {
            self.on_over(params, moment, stage);
        }
    }

    fn grow(
        &mut self,
        params: &VcpParams,
        moment: Moment,
        feedback: &VcpFeedback,
        stage: Stage,
        late: bool,
    ) {
        let [_, low, high, over] = feedback.bytes;
        let over = if stage == Stage::Grace { over } else { 0 };
        // Late feedback is out of date, so it counts for at most one round trip.
        let worth = if late { self.window.bytes() } else { u64::MAX };
        let low = low.min(worth);
        let raised = high.saturating_add(over).min(worth);

        let gains = self.scaling.gains(params, moment.srtt, self.t_rho);
        let r_q16 = mean_r_q16(feedback);
        let r_epsilon = mul_div(gains.steep_q32, r_q16, 1 << 16);
        let (epsilon_q32, low_ai) = match (params.bise_epsilon_ppm, feedback.bise) {
            // One round leaves w·(1 + ε_s·r) + (1 − r)·α_s: [VCP-ext eq. 8].
            (Some(_), true) => (r_epsilon, low - mul_div(low, r_q16, 1 << 16)),
            // Some routers run BISE and some do not: stay within the limits of both.
            (Some(_), false) => (r_epsilon.min(gains.mild_q32), 0),
            (None, _) => (gains.mild_q32, 0),
        };
        if low > 0 && (low_ai == 0 || r_q16 > AI_RULES_R_Q16) {
            self.ai.hold(moment.now);
        }
        let mi = if moment.braked {
            0
        } else {
            Window::mi(low, epsilon_q32)
        };
        // One acknowledgement can at most double the window.
        let most = self.window.bytes().saturating_mul(2);
        self.window.add(mi);
        let acked = low_ai.saturating_add(raised);
        let ai = self.additive(params, moment, acked, gains, is_spared(feedback));
        self.window.add(ai);
        self.window.cap(most);
    }

    /// The AI increment for `acked` bytes, in 2^-16 bytes. `spared`: a port is OVER and other flows
    /// make room.
    fn additive(
        &mut self,
        params: &VcpParams,
        moment: Moment,
        acked: u64,
        gains: Gains,
        spared: bool,
    ) -> u64 {
        let Moment { now, srtt, mtu, .. } = moment;
        let cycle = self.t_rho.max(srtt);
        let alpha_q16 = self
            .ai
            .alpha_q16(now, cycle, params.ai_growth, gains.alpha_q16);
        let limit = if spared {
            self.share_of_window(AI_WHILE_SPARED, srtt, mtu)
        } else if alpha_q16 == gains.alpha_q16 {
            alpha_q16
        } else {
            // At least α itself.
            self.share_of_window(AI_PER_INTERVAL, srtt, mtu)
                .max(gains.alpha_q16)
        };
        self.window.ai(acked, alpha_q16.min(limit), mtu)
    }

    /// A share of the window per interval in the unit of AI, 2^-16 packets per window: w/mtu ·
    /// rtt/t_ρ / part.
    fn share_of_window(&self, part: u64, srtt: Duration, mtu: u64) -> u64 {
        let share = mul_div(self.window.bytes(), 1 << 16, part * mtu);
        mul_div(
            share,
            micros(srtt.min(self.t_rho)).max(1),
            micros(self.t_rho),
        )
    }

    fn on_over(&mut self, params: &VcpParams, moment: Moment, stage: Stage) {
        let Moment { now, srtt, mtu, .. } = moment;
        self.last_over = Some(now);
        let cycle = self.t_rho.max(srtt);
        self.ai.on_over(now, cycle, params.ai_growth);
        if stage == Stage::Normal {
            let before = self.window.bytes();
            let share = if self.cut.goes_on(now, srtt) {
                if before > self.cut_from - self.cut_from / GIVEN_BACK {
                    self.ai.halve();
                }
                params.beta_again_ppm
            } else {
                params.beta_ppm
            };
            self.window.md(share, mtu);
            self.cut_from = before;
            self.cut.made(now, self.t_rho, srtt);
        }
    }

    /// Handles an OVER while another law controls the window. True if it requires a cut now.
    pub(crate) fn over_elsewhere(&mut self, now: Instant, srtt: Duration) -> bool {
        self.last_over = Some(now);
        let due = self.cut.stage(now) == Stage::Normal;
        if due {
            self.cut.made(now, self.t_rho, srtt);
        }
        due
    }

    /// Handles a mark from a queue that is not in a VCP router like an OVER, but cuts as another
    /// law would.
    pub(crate) fn on_marked(&mut self, now: Instant, share_ppm: u64, srtt: Duration, mtu: u64) {
        self.window.md(share_ppm, mtu);
        self.cut.made(now, self.t_rho, srtt);
        self.ai.reset(now);
    }

    /// Halves the window after a loss that counts. Returns the bytes before.
    pub(crate) fn halve(&mut self, now: Instant, mtu: u64) -> u64 {
        let before = self.window.bytes();
        self.window.md(PPM / 2, mtu);
        self.ai.reset(now);
        before
    }

    /// Handles persistent congestion: the window becomes one packet, and nothing is pending.
    pub(crate) fn collapse(&mut self, now: Instant, mtu: u64) {
        self.window = Window::new(mtu);
        self.cut.clear();
        self.ai.reset(now);
    }

    pub(crate) fn cap(&mut self, bytes: u64) {
        self.window.cap(bytes);
        self.last_feedback = None;
    }

    /// Limits the window to `bytes` after an idle time, during which α did not grow because an OVER
    /// would have been missed.
    pub(crate) fn cap_after_idle(&mut self, now: Instant, bytes: u64) {
        self.cap(bytes);
        self.ai.hold(now);
    }

    pub(crate) fn floor(&mut self, bytes: u64) {
        self.window.floor(bytes);
    }
}

/// True if a port is OVER, but other flows must make room.
const fn is_spared(feedback: &VcpFeedback) -> bool {
    let [_, _, high, over] = feedback.packets;
    high > 0 && over == 0 && feedback.load_128 >= FULL_128
}

/// Mean r over the LOW packets in 2^-16; 1 if there are no LOW packets.
fn mean_r_q16(feedback: &VcpFeedback) -> u64 {
    match feedback.packets {
        [_, 0, _, _] => 1 << 16,
        [_, count, _, _] => (feedback.sum_r / count).min(1 << 16),
    }
}

// The time after a cut in which further OVERs are ignored.
//
// A cut needs one round trip to reach the router, one interval to be measured, and one round trip
// to return. The sender ignores OVER for an interval (FREEZE) and treats it as HIGH for another
// round trip (GRACE).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Normal,
    Freeze,
    Grace,
}

/// The time of the last cut, while it is relevant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    freeze_until: Option<(Instant, Instant)>,
    /// End of the last GRACE.
    ended: Option<Instant>,
}

impl Cut {
    /// Records a cut: FREEZE for `t_rho`, followed by GRACE for `srtt`.
    pub(crate) fn made(&mut self, now: Instant, t_rho: Duration, srtt: Duration) {
        let thaw = now + t_rho;
        self.freeze_until = Some((thaw, thaw + srtt));
    }

    pub(crate) fn stage(&mut self, now: Instant) -> Stage {
        match self.freeze_until {
            Some((thaw, _)) if now < thaw => Stage::Freeze,
            Some((_, end)) if now < end => Stage::Grace,
            Some((_, end)) => {
                self.freeze_until = None;
                self.ended = Some(end);
                Stage::Normal
            }
            None => Stage::Normal,
        }
    }

    /// True if OVER has continued since the last cut, whose GRACE ended less than `srtt` ago.
    pub(crate) fn goes_on(&self, now: Instant, srtt: Duration) -> bool {
        self.ended.is_some_and(|end| now - end < srtt)
    }

    /// For reports: whether the stage at the last call of [`stage`](Self::stage) was FREEZE or
    /// GRACE.
    pub(crate) const fn is_recent(&self) -> bool {
        self.freeze_until.is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
