//! The sender: requests, grants, and the resulting window.

mod published;
mod request;
mod steering;

#[cfg(test)]
mod tests;

use super::params::{XcpLoss, XcpParams};
use crate::base::{Duration, Instant, arith};
use crate::bottleneck::Step;
use crate::law::{Acked, Limit, Limits, Lost, Sent};
use crate::metrics::{FallbackReason, Metrics, Phase};
use crate::signals::{Carrier, Feedback, Request};
use crate::supervise::{End, ExplicitLaw, Path, Search, Supervised};
pub(crate) use published::PublishedXcp;
use request::{Asked, Room};
use steering::EndToEnd;
use steering::Steering;

/// Losses up to this number of round trips after a large decrease by a router count as announced.
const PATIENCE_ROUNDS: u32 = 4;
/// Multiple of the proven arrivals that may be sent at once, because the first grant may cover all
/// of a fast link in front of a slow link.
const STEP: u64 = 4;
/// The same multiple if packets that were sent together do not spread out.
const UNKNOWN_STEP: u64 = 8;
/// In a window of fewer packets, the fraction of a packet matters.
const FEW_PACKETS: u64 = 8;
/// Number of round trips for which an unused grant is kept, because the peer's flow control may
/// have to grow first.
const KEPT_ROUNDS: u32 = 3;
/// Packets leave slightly faster than one window per round trip, so that the window and not the
/// pacer limits the rate.
const PACE: (u64, u64) = (33, 32);

pub(crate) type XcpSender = Supervised<XcpLaw>;

/// XCP's law. Its window follows the routers' grants (`steering`), unless standard control has
/// taken over although routers answer (`end_to_end`).
#[derive(Clone, Debug)]
pub(crate) struct XcpLaw {
    params: XcpParams,
    steering: Steering,
    /// Set while standard control rules although routers stamp packets.
    end_to_end: Option<EndToEnd>,
    /// `reason` says why. `hop` is the sign by which a hop without feedback was found.
    reason: FallbackReason,
    hop: FallbackReason,
    asked: Asked,
    room: Room,
    /// Positive feedback for packets up to this number does not count.
    void_until: Option<u64>,
    /// Feedback for packets up to this number does not count, because it also covers the part of a
    /// granted start that was given back.
    shared_until: Option<u64>,
    /// Bytes sent since the last header, including its packet, and packets sent after it.
    headed_bytes: u64,
    headed_packets: u16,
    /// The application had no more data to send.
    at_an_end: bool,
    /// Negative feedback has arrived.
    settled: bool,
    /// The window of a granted flight that leaves before any feedback from routers; 0: no such
    /// flight.
    stated: u64,
}

impl Supervised<XcpLaw> {
    /// Creates a sender for a path that begins at `now` and carries datagrams of `mtu` bytes.
    pub(crate) fn new(now: Instant, mtu: u16, params: XcpParams) -> Self {
        let path = path(now, mtu, &params);
        let window = arith::initial(path.mtu, params.initial_window);
        Self::on(path, XcpLaw::new(now, window, params))
    }
}

/// The state of a path at the start of an XCP sender.
pub(crate) fn path(now: Instant, mtu: u16, params: &XcpParams) -> Path {
    let (initial, fallback) = (params.initial_window, params.fallback);
    let step = XcpLaw::step(params);
    Path::new(now, mtu, initial, fallback, Carrier::Shim, step)
}

impl XcpLaw {
    pub(crate) fn new(now: Instant, window: u64, params: XcpParams) -> Self {
        Self {
            steering: Steering::new(now, window),
            end_to_end: None,
            reason: FallbackReason::HiddenHop,
            hop: FallbackReason::HiddenHop,
            asked: Asked::default(),
            room: Room::new(),
            void_until: None,
            shared_until: None,
            headed_bytes: 0,
            headed_packets: 0,
            at_an_end: false,
            settled: false,
            stated: 0,
            params,
        }
    }

    /// Continues with `window` bytes after another law; packets sent so far had no header. If CUBIC
    /// controls the window because of a hop without feedback, it keeps control.
    pub(crate) fn enter(now: Instant, path: &mut Path, window: u64, params: XcpParams) -> Self {
        path.exchange(Self::step(&params));
        let mut law = Self::new(now, window, params);
        if path.hidden.rules() {
            law.end(now, End::HiddenHop(window));
        }
        law.void_until = Some(path.last_sent);
        law.room.set(&path.limits);
        law
    }

    /// Multiples of the proven arrivals that may be sent at once.
    fn step(params: &XcpParams) -> Step {
        Step {
            partly: STEP,
            unknown: (!params.naive).then_some(UNKNOWN_STEP),
        }
    }

    pub(crate) const fn keep_until(&mut self, until: Instant) {
        self.steering.keep_until(until);
    }

    fn initial(&self, path: &Path) -> u64 {
        arith::initial(path.mtu, self.params.initial_window)
    }
}

impl ExplicitLaw for XcpLaw {
    fn begin(&mut self, now: Instant, window: u64) {
        self.end_to_end = None;
        self.stated = 0;
        self.steering = Steering::new(now, window);
    }

    fn end(&mut self, now: Instant, end: End) {
        self.end_to_end = match end {
            End::NoAnswer => None,
            End::HiddenHop(window) => {
                self.reason = FallbackReason::HiddenHop;
                Some(EndToEnd::new(now, window))
            }
        };
    }

    fn yields(&self) -> bool {
        self.end_to_end.is_some()
    }

    /// Limits the window to the room that flow control, buffer and application leave.
    fn steered(&self, path: &Path) -> u64 {
        let own = self.steering.bytes().min(path.hidden.cap());
        if self.params.naive {
            return own;
        }
        let largest = self.room.largest();
        if own <= largest {
            own
        } else {
            largest.max(self.initial(path)).min(own)
        }
    }

    /// Rounds a small window up to whole packets, and to at least two, because pacing keeps the
    /// rate. Otherwise a window of 1.9 packets would send only one packet, whose acknowledgement
    /// would be delayed for a second.
    fn sendable(&self, path: &Path) -> u64 {
        let own = self.steered(path);
        if self.params.naive || own >= FEW_PACKETS * path.mtu {
            own
        } else {
            (own + path.mtu - 1).max(2 * path.mtu)
        }
    }

    fn pace(&self) -> Option<(u64, u64)> {
        self.params.paced.then_some(PACE)
    }

    fn cap(&mut self, bytes: u64) {
        self.steering.cap(bytes);
    }

    fn floor(&mut self, bytes: u64) {
        self.steering.floor(bytes);
    }

    /// A sender with `loss=ignore` does not search, so that bounds which only the search could lift
    /// do not apply.
    fn search(&self) -> Search {
        let searches = self.params.loss != XcpLoss::Ignore;
        Search {
            acks: searches,
            losses: self.params.loss == XcpLoss::Hybrid,
            first_losses: searches,
        }
    }

    fn patience(&self, srtt: Duration) -> Duration {
        srtt.saturating_mul(PATIENCE_ROUNDS)
    }

    fn on_sent(&mut self, path: &Path, sent: &Sent) -> u64 {
        if sent.signal {
            self.asked.on_sent(self.next_header(path).delta);
            self.headed_bytes = 0;
            self.headed_packets = 0;
        } else {
            self.headed_packets = self.headed_packets.saturating_add(1);
        }
        self.headed_bytes = self.headed_bytes.saturating_add(sent.bytes);
        self.at_an_end = sent.limit == Limit::Application;
        self.asked.state()
    }

    fn answers(&self, feedback: &Feedback) -> Option<[u64; 4]> {
        let Feedback::Xcp(feedback) = feedback else {
            return None;
        };
        let unstamped = feedback.packets.saturating_sub(feedback.stamped);
        Some([unstamped, feedback.stamped, 0, 0])
    }

    fn samples_first(&self) -> bool {
        true
    }

    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked) {
        let Feedback::Xcp(feedback) = feedback else {
            return;
        };
        let srtt = path.rtt();
        self.hop = steering::hop_shown_by(feedback);
        if self.search().acks {
            path.hidden.set_partly(feedback.unmarked_hop, srtt);
            path.hidden.declare(feedback.corruption_ppm.into(), srtt);
        }
        let delta = self.granted(feedback, acked);
        if !path.mode.routers() || feedback.stamped == 0 {
            return;
        }
        if delta < 0 {
            self.settled = true;
        }
        if path.hidden.rules() {
            self.hear_while_hidden(now, path, delta);
            return;
        }
        // During a trial, the sender sends less than routers allow, so it accepts no increase. The
        // same applies behind a hop with heavy loss, of which routers do not know.
        let held = path.hidden.pace().is_some() || path.hidden.holds(self.steering.bytes());
        let delta = if held { delta.min(0) } else { delta };
        let (floor, fallback) = (path.mtu, path.fallback.window());
        match &mut self.end_to_end {
            None => self.steering.apply(delta, srtt, floor),
            Some(end_to_end) => {
                if let Some(window) = end_to_end.on_feedback(now, delta, srtt, floor, fallback) {
                    path.hidden.restart(now);
                    self.begin(now, window);
                }
            }
        }
    }

    /// Ages the window after a round trip in which it was not used.
    fn on_ruled_ack(&mut self, now: Instant, path: &Path, acked: &Acked) {
        if self.params.naive {
            return;
        }
        let floor = self.initial(path);
        let limited = acked.window_limited;
        let over = self
            .steering
            .age(now, acked.srtt, acked.bytes, limited, floor);
        if over && let Some(most) = self.room.turn() {
            self.steering.cap(most.max(floor));
        }
    }

    fn on_loss(&mut self, now: Instant, path: &mut Path, _lost: &Lost) {
        if self.means_congestion(path) {
            self.go_end_to_end(now, path, FallbackReason::Loss);
        }
    }

    /// A mark can only be set by a queue that is not in an XCP router, so the sender responds to it
    /// as RFC 3168 requires.
    fn on_marked(&mut self, now: Instant, path: &mut Path, _sent_at: Instant) {
        if self.params.loss != XcpLoss::Ignore {
            self.go_end_to_end(now, path, FallbackReason::EcnMark);
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant, path: &Path) {
        self.steering = Steering::new(now, path.mtu);
        self.void_until = Some(path.last_sent);
    }

    fn on_restart(&mut self, now: Instant, path: &Path, idle: Duration) {
        if !self.params.naive {
            let floor = self.initial(path);
            self.steering
                .idle(now, idle, path.srtt.unwrap_or(idle), floor);
        }
    }

    fn on_limits(&mut self, limits: &Limits) {
        self.room.set(limits);
    }

    fn request(&self, path: &Path) -> Request {
        Request {
            xcp: Some(self.next_header(path)),
            ..Request::default()
        }
    }

    fn signal_every(&self, _path: &Path, _round: u64) -> u32 {
        u32::from(self.params.every)
    }

    fn granted_before(&self, path: &Path) -> u64 {
        self.steering.bytes().saturating_sub(self.initial(path))
    }

    fn begin_granted(&mut self, now: Instant, path: &Path, window: u64) {
        self.steering.floor(window);
        let rounds = path.rtt().saturating_mul(KEPT_ROUNDS);
        self.steering.keep_until(now + rounds);
    }

    fn state_flight(&mut self, window: u64) {
        self.stated = window;
    }

    fn give_back(&mut self, now: Instant, path: &mut Path, window: u64, rules: bool) {
        if rules {
            self.steering.cap(window);
            self.steering.keep_until(now);
            self.shared_until = Some(path.last_sent);
            path.hidden.allow(window, path.rtt());
        } else {
            self.stated = self.stated.min(window);
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, last_sent: u64) {
        self.steering = Steering::new(now, window);
        self.void_until = Some(self.void_until.unwrap_or(0).max(last_sent));
    }

    fn usable(&self, limits: &Limits) -> u64 {
        if self.params.naive {
            u64::MAX
        } else {
            limits.application
        }
    }

    fn metrics(&self, path: &Path) -> Metrics {
        let phase = if self.settled {
            Phase::Avoidance
        } else {
            Phase::Startup
        };
        Metrics {
            explicit: true,
            ..Metrics::new("xcp", phase, self.steered(path))
        }
    }

    fn reason(&self, path: &Path) -> FallbackReason {
        match self.reason {
            _ if !path.mode.routers() => FallbackReason::NoAnswer,
            FallbackReason::HiddenHop => self.hop,
            reason => reason,
        }
    }
}
