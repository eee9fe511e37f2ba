//! The sender's half: mode, requests, reaction to losses, and the resulting window.

mod asked;
mod asking;
mod end_to_end;
mod granted_start;
mod handover;
mod published;
mod request;
mod room;
mod ruling;
mod steering;

#[cfg(test)]
mod tests;

pub(crate) use published::PublishedXcp;

use super::params::{XcpLoss, XcpParams};
use crate::base::arith::rate;
use crate::base::{Duration, Instant, window};
use crate::bottleneck::{Finding, HiddenHop, Step};
use crate::law::{Acked, Controller, Limit, Limits, Lost, PacketState, Sent, UNPACED};
use crate::metrics::{FallbackReason, Metrics, Phase};
use crate::signals::{Carrier, Feedback, Request};
use crate::standard::CubicController;
use crate::supervise::{ModeSelector, RecentRtt};
use asked::Asked;
use end_to_end::EndToEnd;
use room::Room;
use steering::Steering;

/// A queue that stands for this many round trips without negative feedback is not the routers'.
const PATIENCE_ROUNDS: u32 = 4;
/// The first grant may be all of a fast link, with a slow one behind it.
const STEP: u64 = 4;
/// … and it may be twice that where packets sent at once do not spread.
const UNKNOWN_STEP: u64 = 8;
/// In a window of fewer packets, the part of a packet counts.
const FEW_PACKETS: u64 = 8;
/// Packets leave a little faster than the window per round trip, so that the window and not the
/// pacer bounds the rate.
const PACE: (u64, u64) = (33, 32);

/// An XCP sender.
///
/// The window is CUBIC's until a router has stamped a packet, while stamps stay away, and while a
/// hop that stamps nothing is the narrow one; it is the routers' otherwise.
#[derive(Clone, Debug)]
pub struct XcpSender {
    pub(super) params: XcpParams,
    mtu: u64,
    pub(super) steering: Steering,
    pub(super) fallback: CubicController,
    mode: ModeSelector,
    /// Standard control rules although routers stamp.
    end_to_end: Option<EndToEnd>,
    /// … for this reason. For a hop that does not answer: the sign of it.
    reason: FallbackReason,
    hop: FallbackReason,
    pub(super) hidden: HiddenHop,
    asked: Asked,
    room: Room,
    pub(super) srtt: Option<Duration>,
    recent: RecentRtt,
    pub(super) last_sent: u64,
    /// Grants to packets up to here do not count.
    pub(super) void_until: Option<u64>,
    /// Feedback for packets up to here covers more than what remained of a granted start.
    pub(super) shared_until: Option<u64>,
    /// Bytes and packets sent since the last header, itself included.
    headed_bytes: u64,
    headed_packets: u16,
    /// The application had nothing more to send.
    at_an_end: bool,
    /// Feedback came with the acknowledgement that is being processed.
    fed: bool,
    /// Negative feedback has arrived.
    settled: bool,
    /// The window of a granted flight that leaves before any router's feedback; 0: none does.
    pub(super) stated: u64,
}

impl XcpSender {
    /// A sender whose path begins at `now` and carries datagrams of `mtu` bytes.
    #[must_use]
    pub fn new(now: Instant, mtu: u16, params: XcpParams) -> Self {
        let fallback = CubicController::cubic(mtu, params.initial_window);
        let step = step(&params);
        Self {
            mtu: u64::from(mtu.max(1)),
            steering: Steering::new(now, fallback.window()),
            fallback,
            mode: ModeSelector::new(now, Carrier::Shim),
            end_to_end: None,
            reason: FallbackReason::HiddenHop,
            hop: FallbackReason::HiddenHop,
            hidden: HiddenHop::new(now, u64::from(mtu.max(1)), step),
            asked: Asked::default(),
            room: Room::new(),
            srtt: None,
            recent: RecentRtt::new(now),
            last_sent: 0,
            void_until: None,
            shared_until: None,
            headed_bytes: 0,
            headed_packets: 0,
            at_an_end: false,
            fed: false,
            settled: false,
            stated: 0,
            params,
        }
    }

    /// The window does not age before.
    pub(crate) const fn keep_until(&mut self, until: Instant) {
        self.steering.keep_until(until);
    }

    /// Feedback arrived with the next acknowledgement.
    pub(crate) const fn is_fed(&mut self) {
        self.fed = true;
    }

    /// True while routers steer the window.
    #[inline]
    pub(super) fn explicit(&self) -> bool {
        self.mode.routers() && self.end_to_end.is_none()
    }

    /// The window under the routers' rule: no more of it than there is room for.
    #[inline]
    fn steered(&self) -> u64 {
        let own = self.steering.bytes().min(self.hidden.cap());
        if self.params.naive {
            return own;
        }
        let largest = self.room.largest();
        if own <= largest {
            own
        } else {
            largest.max(self.initial()).min(own)
        }
    }

    /// The window of the law that rules.
    #[inline]
    fn own_window(&self) -> u64 {
        if self.explicit() {
            self.steered()
        } else {
            self.fallback.window()
        }
    }

    /// A small window with room for the packet that it holds a part of, and for two at least:
    /// pacing keeps the rate. Otherwise a window of 1.9 packets sends one, whose acknowledgement
    /// waits for a second.
    #[inline]
    fn with_room_for_parts(&self, own: u64) -> u64 {
        if own < FEW_PACKETS * self.mtu {
            (own + self.mtu - 1).max(2 * self.mtu)
        } else {
            own
        }
    }

    fn floor(&self) -> u64 {
        self.mtu
    }

    pub(super) fn initial(&self) -> u64 {
        window::initial(self.mtu, self.params.initial_window)
    }
}

/// Multiples of the proven arrivals that may be sent at once.
fn step(params: &XcpParams) -> Step {
    Step {
        partly: STEP,
        unknown: (!params.naive).then_some(UNKNOWN_STEP),
    }
}

impl Controller for XcpSender {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.hidden.on_sent(sent.packet_number);
        let _ = self.fallback.on_sent(now, sent);
        if sent.signal {
            self.asked.on_sent(self.next_header().delta);
            self.headed_bytes = 0;
            self.headed_packets = 0;
        } else {
            self.headed_packets = self.headed_packets.saturating_add(1);
        }
        self.headed_bytes = self.headed_bytes.saturating_add(sent.bytes);
        self.at_an_end = sent.limit == Limit::Application;
        self.asked.state()
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let Feedback::Xcp(feedback) = feedback else {
            return;
        };
        self.fed = true;
        // The packets that bring this show how long the path is now.
        if let Some(rtt) = acked.rtt {
            self.recent.on_sample(now, rtt);
        }
        if acked.srtt > Duration::ZERO {
            self.srtt = Some(self.recent.bound(acked.srtt));
        }
        let srtt = self.srtt.unwrap_or(acked.srtt);
        let unstamped = feedback.packets.saturating_sub(feedback.stamped);
        let change = self
            .mode
            .on_codes(now, srtt, &[unstamped, feedback.stamped, 0, 0]);
        self.obey(now, change);
        self.hop = ruling::hop_shown_by(feedback);
        if self.watches() {
            self.hidden.set_partly(feedback.unmarked_hop, srtt);
            if self.mode.routers() && self.hidden.doubts(now) {
                // The window is CUBIC's still.
                self.reason = FallbackReason::HiddenHop;
                self.end_to_end = Some(EndToEnd::new(now, self.fallback.window()));
            }
            self.hidden.declare(feedback.corruption_ppm.into(), srtt);
        }
        let delta = self.granted(feedback, acked);
        if !self.mode.routers() || feedback.stamped == 0 {
            return;
        }
        if delta < 0 {
            self.hidden.on_raised(now, true);
            self.settled = true;
        }
        if self.hidden.rules() {
            self.hear_while_hidden(now, delta, srtt);
            return;
        }
        // A trial sends less than routers allow, to see the effect: requests ask for no more.
        // Routers do not know of a hop with heavy loss either.
        let held = self.hidden.pace().is_some() || self.hidden.holds(self.steering.bytes());
        let delta = if held { delta.min(0) } else { delta };
        let (floor, fallback) = (self.floor(), self.fallback.window());
        match &mut self.end_to_end {
            None => self.steering.apply(delta, srtt, floor),
            Some(end_to_end) => {
                if let Some(window) = end_to_end.on_feedback(now, delta, srtt, floor, fallback) {
                    self.end_to_end = None;
                    self.hidden.restart(now);
                    self.steering = Steering::new(now, window);
                }
            }
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if let Some(rtt) = acked.rtt {
            self.recent.on_sample(now, rtt);
        }
        self.srtt = Some(self.recent.bound(acked.srtt));
        if !core::mem::take(&mut self.fed) && acked.packets > 0 {
            let change = self.mode.on_silence(now, acked.srtt, acked.packets);
            self.obey(now, change);
        }
        if self.mode.routers() && self.watches() {
            let patience = acked.srtt.saturating_mul(PATIENCE_ROUNDS);
            let finding = self.hidden.on_ack(now, acked, patience, self.own_window());
            self.follow(now, finding);
        } else if self.watches() {
            self.hidden.on_first_ack(acked);
        }
        if !self.explicit() {
            self.fallback.on_ack(now, acked);
            return;
        }
        if !self.params.naive {
            let floor = self.initial();
            let limited = acked.window_limited;
            let over = self
                .steering
                .age(now, acked.srtt, acked.bytes, limited, floor);
            if over && let Some(most) = self.room.turn() {
                self.steering.cap(most.max(floor));
            }
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        if self.mode.routers() && self.params.loss == XcpLoss::Hybrid {
            let patience = lost.srtt.saturating_mul(PATIENCE_ROUNDS);
            let finding = self.hidden.on_loss(now, lost, patience, self.own_window());
            self.follow(now, finding);
            if matches!(finding, Finding::Appeared(_)) {
                return;
            }
        } else if self.watches() {
            self.hidden.on_first_loss(lost);
        }
        if self.explicit() && self.means_congestion() {
            self.go_end_to_end(now, self.steered(), FallbackReason::Loss);
        }
        if !self.explicit() {
            self.fallback.on_loss(now, lost);
        }
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        if self.explicit() {
            if self.params.loss == XcpLoss::Ignore {
                return;
            }
            // A queue that is not an XCP router's marks packets: the sender responds to its marks
            // as RFC 3168 requires.
            self.go_end_to_end(now, self.steered(), FallbackReason::EcnMark);
        }
        self.fallback
            .on_congestion_experienced(now, sent_at, last_sent);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        if self.explicit() {
            self.steering = Steering::new(now, self.mtu);
            self.void_until = Some(self.last_sent);
        } else {
            self.fallback.on_persistent_congestion(now);
        }
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        if !self.explicit() {
            self.fallback.on_spurious_loss(now);
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.fallback.on_restart(now, idle);
        self.hidden.on_idle();
        if self.explicit() && !self.params.naive {
            let srtt = self.srtt.unwrap_or(idle);
            let floor = self.initial();
            self.steering.idle(now, idle, srtt, floor);
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.fallback.on_mtu(mtu);
        self.mtu = u64::from(mtu.max(1));
        self.hidden.set_mtu(self.mtu);
        self.steering.floor(self.mtu);
    }

    fn on_handshake_rtt(&mut self, _now: Instant, srtt: Duration) {
        self.srtt.get_or_insert(srtt);
    }

    fn on_limits(&mut self, _now: Instant, limits: &Limits) {
        self.room.set(limits);
    }

    #[inline]
    fn window(&self) -> u64 {
        let own = self.own_window();
        if self.explicit() && !self.params.naive {
            self.with_room_for_parts(own)
        } else {
            own
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        if !self.params.paced {
            return Some(UNPACED);
        }
        if !self.explicit() {
            return self.fallback.pacing_rate();
        }
        let pace = rate(self.steered(), self.srtt?, PACE.0, PACE.1);
        Some(self.hidden.pace().map_or(pace, |most| pace.min(most)))
    }

    fn request(&self) -> Request {
        Request {
            xcp: Some(self.next_header()),
            ..Request::default()
        }
    }

    fn signal_every(&self) -> u32 {
        let every = u32::from(self.params.every);
        let probing = self.mode.probe_interval(self.own_window() / self.mtu);
        probing.map_or(every, |probing| probing.max(every))
    }

    fn metrics(&self) -> Metrics {
        if !self.explicit() {
            return Metrics {
                fallback: Some(self.fallback_reason()),
                ..self.fallback.metrics()
            };
        }
        Metrics {
            ruling: "xcp",
            phase: if self.settled {
                Phase::Avoidance
            } else {
                Phase::Startup
            },
            window: self.steered(),
            ssthresh: None,
            explicit: true,
            fallback: None,
            quick_start: None,
        }
    }
}
