//! A law that follows the protocol of the path's routers.
//!
//! ```text
//!   XCP's grants  ◄─the bottleneck port runs the other law─►  VCP's codes
//!        └──────── CUBIC while no router answers ────────────────┘
//! ```
//!
//! Every port with a control law answers both kinds of packets: its own protocol's as measured, and
//! the other protocol's by translation. It marks this next to the identity of the router that
//! limits the flow (`docs/wire.md`, sections 3 and 6). The sender begins with XCP's header, asks
//! for a starting rate, and changes to the law of the port that limits it. It passes on the window,
//! RTTs, and the record of losses, so that the flow neither stalls nor bursts.

#[cfg(test)]
mod tests;

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant, arith};
use crate::law::{Acked, Lost, Sent};
use crate::signals::{Carrier, Explicit, Feedback, Request, XcpForm};
use crate::supervise::{ExplicitLaw, FallbackLaw, LawSet, Path, Supervised, feed};
use crate::vcp::{VcpLaw, VcpParams, Wlte};
use crate::xcp;
use crate::xcp::{XcpLaw, XcpParams};

// Decides whether the bottleneck port runs the other law.

/// Share of a round trip's answered packets (numerator and denominator) that must return translated
/// …
const SHARE: (u64, u64) = (3, 4);
/// … for this many consecutive round trips.
const ROUNDS: u32 = 2;
/// Minimum number of round trips between two changes …
const LEAST_STAY: u32 = 8;
/// … which doubles with each change that follows soon after another, up to this many.
const MOST_STAY: u32 = 512;
/// A change is soon if it happens within this multiple of the current stay.
const LONG: u32 = 4;

/// Counts a round trip's packets by the law of the port that limits them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    /// Beginning of the current round trip.
    since: Option<Instant>,
    /// Packets that returned with a router's answer in the current round trip.
    answered: u64,
    /// Answered packets that were limited by a port with another law.
    translated: u64,
    /// Consecutive round trips in favor of a change.
    rounds: u32,
    changed: Option<Instant>,
    /// Minimum number of round trips before the next change.
    stay: u32,
}

impl Judge {
    pub(crate) const fn new() -> Self {
        Self {
            since: None,
            answered: 0,
            translated: 0,
            rounds: 0,
            changed: None,
            stay: LEAST_STAY,
        }
    }

    /// Handles the return of `packets` with an answer that was or wasn't `translated`. Returns true
    /// if the law must change, which happens immediately at the path's first answer, and only after
    /// several round trips later.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        srtt: Duration,
        packets: u64,
        translated: bool,
    ) -> bool {
        if packets == 0 {
            return false;
        }
        let Some(since) = self.since else {
            self.since = Some(now);
            // Nothing is in flight that a change could disturb.
            return translated && self.changed.is_none();
        };
        self.answered = self.answered.saturating_add(packets);
        if translated {
            self.translated = self.translated.saturating_add(packets);
        }
        if ns_since(now, since) < nanos(srtt) {
            return false;
        }
        let most = self.answered.saturating_mul(SHARE.0) <= self.translated.saturating_mul(SHARE.1);
        self.since = Some(now);
        self.answered = 0;
        self.translated = 0;
        self.rounds = if most {
            self.rounds.saturating_add(1)
        } else {
            0
        };
        let stayed = self
            .changed
            .is_none_or(|at| now >= at + srtt.saturating_mul(self.stay));
        self.rounds >= ROUNDS && stayed
    }

    /// Returns true if there was no change within `patience`.
    pub(crate) fn is_settled(&self, now: Instant, patience: Duration) -> bool {
        self.changed.is_none_or(|at| now >= at + patience)
    }

    pub(crate) fn on_change(&mut self, now: Instant, srtt: Duration) {
        let soon = self
            .changed
            .is_some_and(|at| now < at + srtt.saturating_mul(self.stay.saturating_mul(LONG)));
        *self = Self {
            // Answers to earlier packets don't count.
            since: Some(now),
            changed: Some(now),
            stay: if soon {
                self.stay.saturating_mul(2).min(MOST_STAY)
            } else {
                LEAST_STAY
            },
            ..Self::new()
        };
    }
}

#[cfg(test)]
mod judge_tests {
    use super::*;
    use crate::testing::{at, ms};

    const RTT: Duration = Duration::from_millis(100);

    /// Returns how many round trips pass before a change is due, reporting ten packets at a time.
    fn rounds_until(judge: &mut Judge, from: Instant, translated: impl Fn(u64) -> bool) -> u64 {
        for tenth in 1..100_000 {
            let now = from + ms(10 * tenth);
            if judge.hear(now, RTT, 10, translated(tenth)) {
                return tenth / 10;
            }
        }
        u64::MAX
    }

    #[test]
    fn the_first_answer_decides_at_once_and_later_ones_over_two_round_trips() {
        let mut judge = Judge::new();
        // Nothing came back.
        assert!(!judge.hear(Instant::ZERO, RTT, 0, true));
        assert!(judge.hear(Instant::ZERO, RTT, 1, true));
        let mut judge = Judge::new();
        assert!(!judge.hear(Instant::ZERO, RTT, 1, false));
        assert_eq!(rounds_until(&mut judge, Instant::ZERO, |_| true), 2);
        // Two ports limit the flow in turn.
        let in_turn = rounds_until(&mut judge, Instant::ZERO, |n| n % 2 == 0);
        assert_eq!(in_turn, u64::MAX);
    }

    #[test]
    fn who_goes_to_and_fro_does_so_more_and_more_seldom() {
        let mut judge = Judge::new();
        let mut now = at(1);
        judge.on_change(now, RTT);
        let mut stays = Vec::new();
        for _ in 0..9 {
            let rounds = rounds_until(&mut judge, now, |_| true);
            now += ms(100 * rounds);
            judge.on_change(now, RTT);
            stays.push(rounds);
        }
        assert_eq!(stays, [8, 16, 32, 64, 128, 256, 512, 512, 512]);
        // After a long time, the stay starts from its minimum again.
        now += ms(100 * 5000);
        judge.on_change(now, RTT);
        assert_eq!(rounds_until(&mut judge, now, |_| true), 8);
    }
}

// The sender, which uses one law at a time and selects it.

/// Name of the law while VCP controls the window.
const VCP: &str = "vcp+bise+wlte";

/// If the window has fewer packets than this, each packet has a header in compact form …
const SMALL_WINDOW: u64 = 12;
/// … unless the RTT is below this, because that form states it in whole milliseconds.
const SHORT_RTT: Duration = Duration::from_millis(16);
/// The compact form doesn't have room for declared loss, which is necessary for judging losses.
/// Therefore one header in `FULL_EVERY` is full for `LOSSY_ROUNDS` round trips after each loss.
const FULL_EVERY: u8 = 4;
const LOSSY_ROUNDS: u32 = 4;
/// Otherwise every n-th packet has a header in full form, so that there are about a dozen per round
/// trip, with n within these bounds. 36 bytes on every third packet are 12 per packet, which is
/// less than VCP's 16.
const EVERY: (u64, u64) = (3, 8);

/// Round trips after which a granted start has settled.
const SETTLED_ROUNDS: u32 = 3;

/// Round trips without growth after a new port appears, because its first answers aren't based on a
/// whole interval …
const STRANGE_ROUNDS: u32 = 3;
/// … and after which such a pause may recur.
const FAMILIAR_ROUNDS: u32 = 32;

/// If all feedback uses the other protocol for this many round trips, the peer doesn't know this
/// one.
const PATIENCE_ROUNDS: u32 = 3;

#[derive(Clone, Debug)]
enum Law {
    Xcp(XcpLaw),
    Vcp(VcpLaw<Wlte>),
}

/// Sender that uses the law of the port that limits it.
pub(crate) type AutoSender = Supervised<AutoLaw>;

/// State of the law selection.
#[derive(Clone, Debug)]
pub(crate) struct AutoLaw {
    law: Law,
    initial_window: Option<u32>,
    judge: Judge,
    /// Headers sent, modulo [`FULL_EVERY`].
    headers: u8,
    /// Time until which a recent loss counts.
    lossy_until: Option<Instant>,
    /// True if feedback of the law's own protocol has arrived since the last change.
    native: bool,
    /// Time of the first answer after that which was translated.
    strange: Option<Instant>,
    /// True before the first feedback after a change on a path that was in use.
    fresh: bool,
    /// Time until which a granted start is in progress.
    starting_until: Option<Instant>,
    /// Time since which all feedback has used the other protocol.
    misunderstood: Option<Instant>,
    /// True if the peer knows only one protocol.
    fixed: bool,
}

impl Supervised<AutoLaw> {
    /// Creates a sender for a path that begins at `now` with datagrams of `mtu` bytes. While no
    /// router answers, `fallback` controls the window.
    pub(crate) fn new(
        now: Instant,
        mtu: u16,
        initial_window: Option<u32>,
        fallback: FallbackLaw,
    ) -> Self {
        let params = XcpParams {
            fallback,
            ..xcp_params(initial_window)
        };
        let path = xcp::path(now, mtu, &params);
        let window = arith::initial(path.mtu, initial_window);
        let laws = AutoLaw {
            law: Law::Xcp(XcpLaw::new(now, window, params)),
            initial_window,
            judge: Judge::new(),
            headers: 0,
            lossy_until: None,
            native: false,
            strange: None,
            fresh: false,
            starting_until: None,
            misunderstood: None,
            fixed: false,
        };
        Self::on(path, laws)
    }
}

impl AutoLaw {
    /// Changes to the other law, and passes on the window and the evidence. If CUBIC controls the
    /// window because of a hidden hop, it remains in control.
    fn change(&mut self, now: Instant, path: &mut Path) {
        let starting = self.starting_until.filter(|&until| now < until);
        let window = self.law().own_window(path);
        self.law = match &self.law {
            Law::Xcp(_) => {
                let params = vcp_params(self.initial_window);
                let mut law = VcpLaw::enter(VCP, now, path, window, params);
                if starting.is_some() {
                    law.wait_for_measure(now, path, 2);
                }
                Law::Vcp(law)
            }
            Law::Vcp(_) => {
                let params = xcp_params(self.initial_window);
                let mut law = XcpLaw::enter(now, path, window, params);
                if let Some(until) = starting {
                    law.keep_until(until);
                }
                Law::Xcp(law)
            }
        };
        self.judge.on_change(now, path.smoothed.unwrap_or_default());
        self.misunderstood = None;
        self.fresh = self.native;
        self.native = false;
        self.strange = None;
    }

    /// Notes whether an answer was translated. Returns true if it was, and its port has just
    /// appeared, because a port's measurement is incomplete before the end of an interval.
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

    /// Handles feedback of the other protocol. Either its packets were sent before a change, or the
    /// peer doesn't know this protocol.
    fn on_other(&mut self, now: Instant, path: &mut Path) {
        path.note_feedback();
        let since = *self.misunderstood.get_or_insert(now);
        let srtt = path.smoothed.unwrap_or_default();
        let patience = srtt.saturating_mul(PATIENCE_ROUNDS);
        if !self.fixed && now >= since + patience && self.judge.is_settled(now, patience) {
            self.change(now, path);
            self.fixed = true;
        }
    }

    /// Returns the form of XCP's header, and n if every n-th packet carries it.
    fn form(&self, path: &Path) -> (XcpForm, u32) {
        let packets = self.law().in_flight(path) / path.mtu;
        let short = path.smoothed.is_some_and(|srtt| srtt < SHORT_RTT);
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

impl LawSet for AutoLaw {
    #[inline]
    fn law(&self) -> &dyn ExplicitLaw {
        match &self.law {
            Law::Xcp(law) => law,
            Law::Vcp(law) => law,
        }
    }

    #[inline]
    fn law_mut(&mut self) -> &mut dyn ExplicitLaw {
        match &mut self.law {
            Law::Xcp(law) => law,
            Law::Vcp(law) => law,
        }
    }

    #[inline]
    fn on_sent(&mut self, sent: &Sent) {
        if sent.signal {
            self.headers = (self.headers + 1) % FULL_EVERY;
        }
    }

    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked) {
        if acked.srtt > Duration::ZERO {
            path.smoothed = Some(acked.srtt);
        }
        let srtt = path.smoothed.unwrap_or_default();
        let (answered, translated) = match (&self.law, feedback) {
            (Law::Xcp(_), Feedback::Xcp(xcp)) => (xcp.stamped, xcp.translated),
            (Law::Vcp(_), Feedback::Vcp(vcp)) => {
                let [_, low, high, over] = vcp.packets;
                let answered = low.saturating_add(high).saturating_add(over);
                (answered, vcp.translated)
            }
            (Law::Xcp(_), Feedback::Vcp(_)) | (Law::Vcp(_), Feedback::Xcp(_)) => {
                self.on_other(now, path);
                return;
            }
            (_, Feedback::QuickStart(_) | Feedback::Own(_)) => return,
        };
        let strange = answered > 0 && self.is_strange(now, srtt, translated);
        let mut heard = *feedback;
        if strange {
            if let Feedback::Xcp(xcp) = &mut heard {
                xcp.delta = xcp.delta.min(0);
            }
            self.law_mut().wait_for_measure(now, path, 1);
        }
        feed(self.law_mut(), now, path, &heard, acked);
        // By now, it is known for how long the port measures.
        let measures = matches!(self.law, Law::Vcp(_)) && answered > 0;
        if measures && core::mem::take(&mut self.fresh) {
            self.law_mut().wait_for_measure(now, path, 1);
        }
        self.misunderstood = None;
        if !self.fixed && self.judge.hear(now, srtt, answered, translated) {
            self.change(now, path);
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Instant) {
        self.lossy_until = self.lossy_until.filter(|&until| now < until);
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.lossy_until = Some(now + lost.srtt.saturating_mul(LOSSY_ROUNDS));
    }

    fn on_start(&mut self, now: Instant, path: &Path) {
        let srtt = path.smoothed.unwrap_or_default();
        self.starting_until = Some(now + srtt.saturating_mul(SETTLED_ROUNDS));
    }

    #[inline]
    fn request(&self, path: &Path) -> Request {
        let request = self.law().request(path);
        match &self.law {
            Law::Xcp(_) => Request {
                signal: Some(Explicit::Xcp(self.form(path).0)),
                // For a peer that only knows VCP.
                bise: true,
                ..request
            },
            Law::Vcp(_) => Request {
                signal: Some(Explicit::Vcp(Carrier::Shim)),
                ..request
            },
        }
    }

    #[inline]
    fn signal_every(&self, path: &Path, round: u64) -> u32 {
        let every = self.law().signal_every(path, round);
        match &self.law {
            Law::Xcp(_) => every.max(self.form(path).1),
            Law::Vcp(_) => every,
        }
    }
}
