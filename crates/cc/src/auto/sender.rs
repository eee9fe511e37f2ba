//! The sender: one law at a time, and the choice between them.

use super::judge::Judge;
use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, Limits, Lost, PacketState, Sent};
use crate::metrics::Metrics;
use crate::quick_start::Startable;
use crate::signals::{Carrier, Explicit, Feedback, KnownPath, QuickStartRequest, Request, XcpForm};
use crate::vcp::{VcpParams, VcpSender, Wlte};
use crate::xcp::{XcpParams, XcpSender};

/// What the law is called while VCP's codes rule.
const VCP: &str = "vcp+bise+wlte";

/// With a smaller window, in packets, each of them has a header, in the compact form, …
const SMALL_WINDOW: u64 = 12;
/// … unless the round trip is shorter: that form states it in whole milliseconds.
const SHORT_RTT: Duration = Duration::from_millis(16);
/// That form has no room for the declared loss either, which has to be known where losses are
/// judged: one header in `FULL_EVERY` is full for `LOSSY_ROUNDS` round trips after each loss.
const FULL_EVERY: u8 = 4;
const LOSSY_ROUNDS: u32 = 4;
/// Otherwise every n-th packet has one in the full form: a dozen per round trip, n within these
/// bounds. 36 bytes on every third are 12 per packet, less than VCP's 16.
const EVERY: (u64, u64) = (3, 8);

/// Round trips after which a granted start is settled.
const SETTLED_ROUNDS: u32 = 3;

/// Round trips without growth after a new port appears: its first answers are not based on a whole
/// interval …
const STRANGE_ROUNDS: u32 = 3;
/// … and after which such a pause may recur.
const FAMILIAR_ROUNDS: u32 = 32;

/// Feedback of the other protocol for this many round trips means that the peer knows no other.
const PATIENCE_ROUNDS: u32 = 3;

/// The law in charge.
#[derive(Clone, Debug)]
enum Law {
    Xcp(XcpSender),
    Vcp(VcpSender<Wlte>),
}

impl Law {
    fn controller(&self) -> &(dyn Startable + 'static) {
        match self {
            Self::Xcp(law) => law,
            Self::Vcp(law) => law,
        }
    }

    fn controller_mut(&mut self) -> &mut (dyn Startable + 'static) {
        match self {
            Self::Xcp(law) => law,
            Self::Vcp(law) => law,
        }
    }
}

/// A sender that follows the law of the port that bounds it.
#[derive(Clone, Debug)]
pub(crate) struct AutoSender {
    law: Law,
    initial_window: Option<u32>,
    mtu: u64,
    judge: Judge,
    srtt: Option<Duration>,
    limits: Limits,
    /// Headers sent, modulo [`FULL_EVERY`].
    headers: u8,
    /// The time until which a recent loss counts.
    lossy_until: Option<Instant>,
    /// Feedback of the law's own protocol has come since the last change.
    native: bool,
    /// When the first answer came that was no longer in it.
    strange: Option<Instant>,
    /// No feedback yet since a change on a path that was in use.
    fresh: bool,
    /// Until then a granted start is under way.
    starting_until: Option<Instant>,
    /// Since then all feedback is of the other protocol.
    misunderstood: Option<Instant>,
    /// The peer knows one protocol only.
    fixed: bool,
}

impl AutoSender {
    /// A sender whose path begins at `now` and carries datagrams of `mtu` bytes.
    pub(crate) fn new(now: Instant, mtu: u16, initial_window: Option<u32>) -> Self {
        Self {
            law: Law::Xcp(XcpSender::new(now, mtu, xcp_params(initial_window))),
            initial_window,
            mtu: u64::from(mtu.max(1)),
            judge: Judge::new(),
            srtt: None,
            limits: Limits::NONE,
            headers: 0,
            lossy_until: None,
            native: false,
            strange: None,
            fresh: false,
            starting_until: None,
            misunderstood: None,
            fixed: false,
        }
    }

    /// Changes to the other law, unless standard control rules because of a hop without feedback.
    fn change(&mut self, now: Instant) {
        let starting = self.starting_until.filter(|&until| now < until);
        let next = match &mut self.law {
            Law::Xcp(law) => law.leave(now).map(|left| {
                let mut law = VcpSender::enter(VCP, now, vcp_params(self.initial_window), left);
                if starting.is_some() {
                    law.wait_for_measure(now, 2);
                }
                Law::Vcp(law)
            }),
            Law::Vcp(law) => law.leave().map(|left| {
                let mut law = XcpSender::enter(now, xcp_params(self.initial_window), left);
                if let Some(until) = starting {
                    law.keep_until(until);
                }
                law.on_limits(now, &self.limits);
                Law::Xcp(law)
            }),
        };
        if let Some(next) = next {
            self.law = next;
            self.judge.on_change(now, self.srtt.unwrap_or_default());
            self.misunderstood = None;
            self.fresh = self.native;
            self.native = false;
            self.strange = None;
        }
    }

    /// Notes whether an answer was of the law's own protocol. True if it was not, and its port has
    /// just appeared: the port's measurement is incomplete before an interval is over.
    fn is_strange(&mut self, now: Instant, srtt: Duration, translated: bool) -> bool {
        if !translated {
            self.native = true;
            let long = srtt.saturating_mul(FAMILIAR_ROUNDS);
            self.strange = self.strange.filter(|&since| now < since + long);
            return false;
        }
        let while_new = srtt.saturating_mul(STRANGE_ROUNDS);
        self.native && now < *self.strange.get_or_insert(now) + while_new
    }

    /// Feedback of the other protocol came: of packets from before a change, or the peer knows no
    /// other.
    fn on_other(&mut self, now: Instant) {
        match &mut self.law {
            Law::Xcp(law) => law.is_fed(),
            Law::Vcp(law) => law.is_fed(),
        }
        let since = *self.misunderstood.get_or_insert(now);
        let patience = self
            .srtt
            .unwrap_or_default()
            .saturating_mul(PATIENCE_ROUNDS);
        if !self.fixed && now >= since + patience && self.judge.is_settled(now, patience) {
            self.change(now);
            self.fixed = true;
        }
    }

    /// A granted start begins, if it is `steered`.
    fn note_start(&mut self, now: Instant, steered: bool) -> bool {
        if steered {
            let rounds = self.srtt.unwrap_or_default().saturating_mul(SETTLED_ROUNDS);
            self.starting_until = Some(now + rounds);
        }
        steered
    }

    /// Packets per window.
    fn packets(&self) -> u64 {
        self.law.controller().window() / self.mtu
    }

    /// The form of XCP's header, and every how many packets it comes.
    fn form(&self) -> (XcpForm, u32) {
        let packets = self.packets();
        let short = self.srtt.is_some_and(|srtt| srtt < SHORT_RTT);
        if packets < SMALL_WINDOW && !short {
            let form = if self.lossy_until.is_some() && self.headers == 0 {
                XcpForm::Full
            } else {
                XcpForm::Compact
            };
            return (form, 1);
        }
        let every = (packets / SMALL_WINDOW).clamp(EVERY.0, EVERY.1);
        (XcpForm::Full, u32::try_from(every).unwrap_or(1))
    }
}

fn xcp_params(initial_window: Option<u32>) -> XcpParams {
    XcpParams {
        initial_window,
        ..XcpParams::default()
    }
}

fn vcp_params(initial_window: Option<u32>) -> VcpParams {
    VcpParams {
        initial_window,
        ..VcpParams::with_bise()
    }
}

// A method that is not passed on would silently be the trait's own.
#[deny(clippy::missing_trait_methods)]
impl Controller for AutoSender {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        if sent.signal {
            self.headers = (self.headers + 1) % FULL_EVERY;
        }
        match &mut self.law {
            Law::Xcp(law) => law.on_sent(now, sent),
            Law::Vcp(law) => law.on_sent(now, sent),
        }
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        if acked.srtt > Duration::ZERO {
            self.srtt = Some(acked.srtt);
        }
        let srtt = self.srtt.unwrap_or_default();
        let (answered, translated) = match (&self.law, feedback) {
            (Law::Xcp(_), Feedback::Xcp(xcp)) => (xcp.stamped, xcp.translated),
            (Law::Vcp(_), Feedback::Vcp(vcp)) => {
                let [_, low, high, over] = vcp.packets;
                let answered = low.saturating_add(high).saturating_add(over);
                (answered, vcp.translated)
            }
            (Law::Xcp(_), Feedback::Vcp(_)) | (Law::Vcp(_), Feedback::Xcp(_)) => {
                self.on_other(now);
                return;
            }
            (_, Feedback::QuickStart(_) | Feedback::Own(_)) => return,
        };
        let strange = answered > 0 && self.is_strange(now, srtt, translated);
        match (&mut self.law, *feedback) {
            (Law::Xcp(law), Feedback::Xcp(mut xcp)) if strange => {
                xcp.delta = xcp.delta.min(0);
                law.on_feedback(now, &Feedback::Xcp(xcp), acked);
            }
            (Law::Vcp(law), _) => {
                if strange {
                    law.wait_for_measure(now, 1);
                }
                law.on_feedback(now, feedback, acked);
                // Now that it is known how long the port measures.
                if answered > 0 && core::mem::take(&mut self.fresh) {
                    law.wait_for_measure(now, 1);
                }
            }
            (Law::Xcp(law), _) => law.on_feedback(now, feedback, acked),
        }
        self.misunderstood = None;
        if !self.fixed && self.judge.hear(now, srtt, answered, translated) {
            self.change(now);
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        self.lossy_until = self.lossy_until.filter(|&until| now < until);
        match &mut self.law {
            Law::Xcp(law) => law.on_ack(now, acked),
            Law::Vcp(law) => law.on_ack(now, acked),
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.lossy_until = Some(now + lost.srtt.saturating_mul(LOSSY_ROUNDS));
        self.law.controller_mut().on_loss(now, lost);
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        let law = self.law.controller_mut();
        law.on_congestion_experienced(now, sent_at, last_sent);
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        self.law.controller_mut().on_probe_timeout(now);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.law.controller_mut().on_persistent_congestion(now);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.law.controller_mut().on_spurious_loss(now);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.law.controller_mut().on_restart(now, idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.law.controller_mut().on_mtu(mtu);
    }

    #[inline]
    fn window(&self) -> u64 {
        match &self.law {
            Law::Xcp(law) => law.window(),
            Law::Vcp(law) => law.window(),
        }
    }

    #[inline]
    fn pacing_rate(&self) -> Option<u64> {
        match &self.law {
            Law::Xcp(law) => law.pacing_rate(),
            Law::Vcp(law) => law.pacing_rate(),
        }
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.srtt.get_or_insert(srtt);
        self.law.controller_mut().on_handshake_rtt(now, srtt);
    }

    fn on_limits(&mut self, now: Instant, limits: &Limits) {
        self.limits = *limits;
        self.law.controller_mut().on_limits(now, limits);
    }

    #[inline]
    fn request(&self) -> Request {
        match &self.law {
            Law::Xcp(law) => Request {
                signal: Some(Explicit::Xcp(self.form().0)),
                // For a peer that knows nothing but VCP.
                bise: true,
                ..law.request()
            },
            Law::Vcp(law) => Request {
                signal: Some(Explicit::Vcp(Carrier::Shim)),
                ..law.request()
            },
        }
    }

    #[inline]
    fn asks(&self) -> bool {
        self.law.controller().asks()
    }

    fn ask(&mut self, now: Instant, random: u64, limits: &Limits) -> Option<QuickStartRequest> {
        self.law.controller_mut().ask(now, random, limits)
    }

    fn ask_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        self.law.controller_mut().ask_ahead(now, random, known)
    }

    fn on_question_lost(&mut self, now: Instant, number: u64) {
        self.law.controller_mut().on_question_lost(now, number);
    }

    #[inline]
    fn signal_every(&self) -> u32 {
        match &self.law {
            Law::Xcp(law) => law.signal_every().max(self.form().1),
            Law::Vcp(law) => law.signal_every(),
        }
    }

    fn metrics(&self) -> Metrics {
        self.law.controller().metrics()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Startable for AutoSender {
    fn may_start(&self) -> bool {
        self.law.controller().may_start()
    }

    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        let steered = self.law.controller_mut().begin_with(now, window);
        self.note_start(now, steered)
    }

    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        let steered = self.law.controller_mut().begin_again_with(now, window);
        self.note_start(now, steered)
    }

    fn verified_grant(&self) -> u64 {
        self.law.controller().verified_grant()
    }

    fn measured_window(&self) -> Option<u64> {
        self.law.controller().measured_window()
    }

    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        self.law.controller_mut().start_with(now, window, threshold);
    }

    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        self.law.controller_mut().wait_for_measure(now, rounds);
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        self.law.controller_mut().give_back(now, window);
    }

    fn not_begun(&mut self) {
        self.law.controller_mut().not_begun();
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        let law = self.law.controller_mut();
        law.give_up(now, window, threshold, last_sent);
    }

    fn expected_loss_ppm(&self) -> u64 {
        self.law.controller().expected_loss_ppm()
    }

    fn usable(&self, limits: &Limits) -> u64 {
        self.law.controller().usable(limits)
    }

    fn raise_threshold(&mut self, threshold: u64) {
        self.law.controller_mut().raise_threshold(threshold);
    }
}
