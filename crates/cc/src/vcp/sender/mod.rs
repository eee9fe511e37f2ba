//! The sender: its reaction to codes and losses, and the resulting window.

mod published;
pub(super) mod steering;

#[cfg(test)]
mod tests;

use super::params::VcpParams;
use crate::base::arith::{Carry, PPM, initial, nanos, ns_since, saturate};
use crate::base::{Duration, Instant};
use crate::bottleneck::Step;
use crate::law::{Acked, LossRule, LossView, Lost, Verdict};
use crate::metrics::{FallbackReason, Metrics, Phase};
use crate::signals::{Feedback, Request};
use crate::supervise::{End, ExplicitLaw, Path, Search, Supervised};
pub(crate) use published::{PublishedLoss, PublishedVcp};
use steering::{Latest, Moment, Steering};

/// The share of the window that CE in the IP header leaves: β of RFC 9438.
const CE_SHARE_PPM: u64 = 700_000;

/// While CUBIC rules for a long time, few packets carry requests. If routers answer but are not the
/// bottleneck, one packet per round trip and at least one in `ASK_IN_VAIN` carries a request.
const ASK_IN_VAIN: u64 = 64;

/// A window that does not grow leaves slightly faster than once per round trip.
const STEADY_PACE: (u64, u64) = (33, 32);

/// Under LOW, windows grow 2.6-fold per round trip at ε = 10, and arrivals become known a round
/// trip later.
const STEP: Step = Step {
    partly: 8,
    unknown: None,
};

/// A loss that halved the window.
#[derive(Clone, Copy, Debug)]
struct Halving {
    /// Losses up to this packet number belong to the same round trip.
    last_sent: u64,
    /// The window before the loss, in bytes, while it can be restored; otherwise 0.
    before: u64,
}

pub(crate) type VcpSender<L> = Supervised<VcpLaw<L>>;

/// VCP's law; `L` is the reaction to losses.
#[derive(Clone, Debug)]
pub(crate) struct VcpLaw<L> {
    name: &'static str,
    params: VcpParams,
    loss_rule: L,
    steering: Steering,
    delivered: Delivered,
    halving: Option<Halving>,
    marked_at: Option<Instant>,
    /// The window does not grow until then, because codes do not reflect the grant yet.
    held_until: Option<Instant>,
}

impl<L: LossRule> Supervised<VcpLaw<L>> {
    /// Creates a sender for a path that begins at `now` and carries datagrams of `mtu` bytes;
    /// `name` appears in reports.
    pub(crate) fn new(
        name: &'static str,
        now: Instant,
        mtu: u16,
        params: VcpParams,
        loss_rule: L,
    ) -> Self {
        let (first, fallback, carrier) = (params.initial_window, params.fallback, params.carrier);
        let path = Path::new(now, mtu, first, fallback, carrier, STEP);
        let window = initial(path.mtu, first);
        Self::on(path, VcpLaw::new(name, now, window, params, loss_rule))
    }
}

impl<L: LossRule> VcpLaw<L> {
    fn new(name: &'static str, now: Instant, window: u64, params: VcpParams, loss_rule: L) -> Self {
        Self {
            name,
            loss_rule,
            steering: Steering::new(now, window, &params),
            delivered: Delivered::default(),
            halving: None,
            marked_at: None,
            held_until: None,
            params,
        }
    }

    /// Continues with `window` bytes after another law.
    pub(crate) fn enter(
        name: &'static str,
        now: Instant,
        path: &mut Path,
        window: u64,
        params: VcpParams,
    ) -> Self
    where
        L: Default,
    {
        path.exchange(STEP);
        Self::new(name, now, window, params, L::default())
    }

    /// Makes a halved window permanent, because it was cut for another reason since then, or
    /// another law controls it.
    fn keep_halved(&mut self) {
        if let Some(halving) = &mut self.halving {
            halving.before = 0;
        }
    }

    /// Ends a granted start when codes reflect the grant: limits the window to the used part.
    fn end_start(&mut self, path: &mut Path) {
        let srtt = path.rtt();
        let granted = path.hidden.granted_window(srtt);
        if granted > 0 {
            self.steering.cap(granted);
            path.hidden.allow(0, srtt);
        }
    }
}

impl<L: LossRule> ExplicitLaw for VcpLaw<L> {
    fn begin(&mut self, now: Instant, window: u64) {
        self.keep_halved();
        self.steering.take_over(now, window);
    }

    fn end(&mut self, _now: Instant, _end: End) {
        self.keep_halved();
    }

    fn steered(&self, path: &Path) -> u64 {
        self.steering.bytes().min(path.hidden.cap())
    }

    fn pace(&self) -> Option<(u64, u64)> {
        // During fast growth, the pacer must not hold back bytes that have just been added to the
        // window.
        Some(match self.steering.latest() {
            // The window does not grow, so a window that opens late must not leave immediately.
            _ if self.held_until.is_some() => STEADY_PACE,
            Latest::LowSteep => (2, 1),
            Latest::Low | Latest::Raised => (5, 4),
        })
    }

    fn cap(&mut self, bytes: u64) {
        self.steering.cap(bytes);
    }

    fn floor(&mut self, bytes: u64) {
        self.steering.floor(bytes);
    }

    fn search(&self) -> Search {
        let losses = self.loss_rule.doubts();
        Search {
            acks: true,
            losses,
            first_losses: losses,
        }
    }

    fn patience(&self, _srtt: Duration) -> Duration {
        self.steering.t_rho()
    }

    fn answers(&self, feedback: &Feedback) -> Option<[u64; 4]> {
        match feedback {
            Feedback::Vcp(feedback) => Some(feedback.packets),
            _ => None,
        }
    }

    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked) {
        let Feedback::Vcp(feedback) = feedback else {
            return;
        };
        let srtt = path.rtt();
        self.steering.hear_t_rho(feedback.t_rho);
        let [.., over] = feedback.packets;
        if over > 0 {
            self.keep_halved();
            path.hidden.on_over(now);
        }
        path.hidden.set_partly(feedback.unmarked_hop, srtt);
        path.hidden.declare(feedback.corruption_ppm.into(), srtt);
        if self.rules(path) {
            let moment = Moment {
                now,
                srtt,
                mtu: path.mtu,
                limited: acked.window_limited
                    && self.held_until.is_none()
                    && path.hidden.pace().is_none()
                    && !path.hidden.holds(self.steering.bytes()),
                braked: path.hidden.is_braked(),
            };
            self.steering.apply(&self.params, moment, feedback);
        } else if over > 0 && path.mode.routers() && self.steering.over_elsewhere(now, srtt) {
            path.fallback
                .law_mut()
                .on_congestion_experienced(now, now, path.last_sent);
        }
    }

    /// While CUBIC controls the window because of a bottleneck without feedback, most packets carry
    /// no request.
    fn misses_feedback(&self, path: &Path) -> bool {
        !path.hidden.rules()
    }

    fn on_ack(&mut self, now: Instant, path: &mut Path, acked: &Acked) {
        if self.held_until.is_some_and(|until| now >= until) {
            self.held_until = None;
            self.end_start(path);
        }
        self.delivered.on_ack(now, acked.srtt, acked.bytes);
    }

    fn on_loss(&mut self, now: Instant, path: &mut Path, lost: &Lost) {
        let covered = self
            .halving
            .is_some_and(|halving| lost.largest <= halving.last_sent);
        if covered {
            return;
        }
        self.keep_halved();
        let view = LossView {
            unmarked: path.mode.unmarked(),
        };
        if self.loss_rule.judge(&view) == Verdict::Congestion {
            self.halving = Some(Halving {
                last_sent: lost.last_sent,
                before: self.steering.halve(now, path.mtu),
            });
        }
    }

    fn on_marked(&mut self, now: Instant, path: &mut Path, sent_at: Instant) {
        self.keep_halved();
        if self.marked_at.is_none_or(|at| sent_at > at) {
            self.marked_at = Some(now);
            self.steering
                .on_marked(now, CE_SHARE_PPM, path.rtt(), path.mtu);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant, path: &Path) {
        self.halving = None;
        self.steering.collapse(now, path.mtu);
    }

    fn on_spurious_loss(&mut self) {
        if let Some(halving) = self.halving.take() {
            self.steering.floor(halving.before);
        }
    }

    fn on_restart(&mut self, now: Instant, path: &Path, idle: Duration) {
        // After about a retransmission timeout, it is unknown how much other flows left of the
        // path.
        if idle > path.rtt().saturating_mul(2) {
            let window = initial(path.mtu, self.params.initial_window);
            let proven = self.delivered.per_round().saturating_mul(2);
            self.steering.cap_after_idle(now, window.max(proven));
        }
    }

    fn request(&self, path: &Path) -> Request {
        Request {
            bise: self.params.bise_epsilon_ppm.is_some(),
            // Routers derive their interval from this RTT. Feedback takes this long to have an
            // effect, including queues on the way back and longer routes.
            min_rtt: path.min_rtt.map(|least| least + path.hidden.behind()),
            ..Request::default()
        }
    }

    fn signal_every(&self, path: &Path, round: u64) -> u32 {
        if path.hidden.rules() {
            u32::try_from(ASK_IN_VAIN.min(round)).unwrap_or(u32::MAX)
        } else {
            1
        }
    }

    fn begin_granted(&mut self, now: Instant, path: &Path, window: u64) {
        self.steering.take_over(now, window);
        self.wait_for_measure(now, path, 2);
    }

    fn wait_for_measure(&mut self, now: Instant, path: &Path, rounds: u32) {
        let rounds = path.rtt().saturating_mul(rounds);
        self.held_until = Some(now + self.steering.t_rho() + rounds);
    }

    fn give_back(&mut self, now: Instant, path: &mut Path, window: u64, rules: bool) {
        if rules {
            self.steering.cap(window);
            self.wait_for_measure(now, path, 1);
        } else {
            path.hidden.allow(window, path.rtt());
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, last_sent: u64) {
        self.steering.take_over(now, window);
        // This was the cut for everything lost until then.
        self.halving = Some(Halving {
            last_sent,
            before: window,
        });
    }

    fn metrics(&self, path: &Path) -> Metrics {
        let phase = match self.steering.latest() {
            _ if self.steering.is_cut() => Phase::Recovery,
            Latest::LowSteep | Latest::Low => Phase::MultiplicativeIncrease,
            Latest::Raised => Phase::Avoidance,
        };
        Metrics {
            explicit: true,
            ..Metrics::new(self.name, phase, self.steered(path))
        }
    }

    fn reason(&self, path: &Path) -> FallbackReason {
        match (path.mode.routers(), path.hidden.is_shown()) {
            (false, _) => FallbackReason::NoAnswer,
            (true, true) => FallbackReason::PlainHop,
            (true, false) => FallbackReason::HiddenHop,
        }
    }
}

// Bytes acknowledged per round trip, which the path has shown it can carry.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    since: Instant,
    current: u64,
    last_round: u64,
}

impl Delivered {
    pub(crate) fn on_ack(&mut self, now: Instant, srtt: Duration, bytes: u64) {
        if ns_since(now, self.since) >= nanos(srtt) {
            self.last_round = self.current;
            self.current = 0;
            self.since = now;
        }
        self.current = self.current.saturating_add(bytes);
    }

    /// The larger number of bytes of the last round trip with acknowledgements and of the current
    /// one.
    pub(crate) fn per_round(&self) -> u64 {
        self.last_round.max(self.current)
    }
}

// The window in 2^-16 bytes, and the three operations of VCP on it (VCP extensions paper, eq.
// 2–4).

const MAX_Q16: u64 = (1 << 62) - 1;

/// A congestion window with a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    q16: u64,
    ai: Carry,
}

impl Window {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            q16: bytes.saturating_mul(1 << 16).min(MAX_Q16),
            ai: Carry::default(),
        }
    }

    /// The window in whole bytes, rounded down.
    pub(crate) const fn bytes(&self) -> u64 {
        self.q16 >> 16
    }

    #[cfg(test)]
    pub(crate) const fn q16(&self) -> u64 {
        self.q16
    }

    /// Lowers the window to `bytes` if it is larger.
    pub(crate) fn cap(&mut self, bytes: u64) {
        self.q16 = self.q16.min(bytes.saturating_mul(1 << 16));
    }

    /// Raises the window to `bytes` if it is smaller.
    pub(crate) fn floor(&mut self, bytes: u64) {
        self.q16 = self.q16.max(bytes.saturating_mul(1 << 16).min(MAX_Q16));
    }

    /// The MI increment for `acked` bytes: acked · ε_s, in 2^-16 bytes, rounded down.
    /// [VCP-ext eq. 4].
    pub(crate) fn mi(acked: u64, epsilon_q32: u64) -> u64 {
        saturate((u128::from(acked) * u128::from(epsilon_q32)) >> 16)
    }

    /// The AI increment for `acked` bytes: α_s · mtu · acked / window, in 2^-16 bytes; the
    /// remainder is kept. [VCP-ext eq. 3].
    pub(crate) fn ai(&mut self, acked: u64, alpha_q16: u64, mtu: u64) -> u64 {
        let share = (u128::from(alpha_q16) * u128::from(mtu)).saturating_mul(u128::from(acked));
        self.ai.add(share, u128::from(self.bytes().max(mtu)))
    }

    pub(crate) fn add(&mut self, q16: u64) {
        self.q16 = self.q16.saturating_add(q16).min(MAX_Q16);
    }

    /// MD, [VCP-ext eq. 2]: leaves `share_ppm` of the window, but not less than `floor` bytes.
    pub(crate) fn md(&mut self, share_ppm: u64, floor: u64) {
        let cut = u128::from(self.q16) * u128::from(share_ppm.min(PPM)) / u128::from(PPM);
        self.q16 = saturate(cut);
        self.floor(floor);
    }
}
