//! The current path in the sending direction: the packets that it permits and those sent on it, and
//! the shim in front of the next datagram, which is the controller's request or its question for a
//! starting rate. From an earlier connection, it can know the path's state, so that the question is
//! asked before the handshake is complete.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::{
    ControllerShares, FallbackReason, Feedback as Difference, KnownPath, Limit, Limits,
    PacketState, Request, Sent,
};

use super::feedback::{Feedback, ShimUse};
use super::route::Route;
use super::{Address, MIN_UNVALIDATED, Paths};
use crate::connection::{BoundShares, Received, Transmit};
use crate::observe::{PathReport, TracedRecovery};
use crate::recovery::{Probe, RttEstimator};
use crate::wire::Writer;
use crate::{Duration, Ecn, Instant};

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Departure {
    pub(in crate::connection) number: u64,
    /// Size that counts towards bytes in flight, including the shim.
    pub(in crate::connection) size: u16,
    pub(in crate::connection) eliciting: bool,
    pub(in crate::connection) mtu_probe: bool,
    pub(in crate::connection) shim: ShimUse,
    pub(in crate::connection) ecn: Ecn,
}

/// The current path.
#[derive(Debug)]
pub(in crate::connection) struct Path {
    /// The peer's address, with the limit on bytes sent there.
    pub(in crate::connection) address: Address,
    /// What was learned about the path.
    pub(in crate::connection) route: Route,
    /// Counters of signals. They continue across changes of path, in epochs.
    pub(in crate::connection) feedback: Feedback,
    /// The latest feedback of routers.
    pub(super) last_feedback: Option<Difference>,
    /// The laws that controlled the window, on this route and previous routes.
    pub(super) controllers: ControllerShares,
}

impl Path {
    pub(super) const fn new(address: Address, route: Route, feedback: Feedback) -> Self {
        Self {
            address,
            route,
            feedback,
            last_feedback: None,
            controllers: ControllerShares::new(),
        }
    }

    pub(in crate::connection) const fn remote(&self) -> SocketAddr {
        self.address.remote
    }

    /// Returns our address, if the driver provides it.
    pub(in crate::connection) const fn local(&self) -> Option<IpAddr> {
        self.address.local
    }

    /// Returns true if a datagram arrived on this path.
    pub(in crate::connection) fn brought(&self, received: &Received) -> bool {
        self.address.is(received.remote, received.local)
    }

    /// Returns true if the peer has proved its address.
    pub(in crate::connection) const fn is_validated(&self) -> bool {
        self.address.limit.is_validated()
    }

    /// Returns the round trip after which routers measure again, according to their latest
    /// feedback.
    pub(in crate::connection) fn measuring_interval(&self) -> Option<Duration> {
        self.last_feedback
            .and_then(|seen| seen.measuring_interval())
    }

    /// Returns the size of the largest datagram, in bytes of UDP payload including the shim.
    pub(in crate::connection) const fn mtu(&self) -> u16 {
        self.route.mtud.mtu()
    }

    /// Returns how many bytes of a datagram are available for packets behind the longest shim.
    pub(in crate::connection) fn packet_room(&self) -> usize {
        let shim = self.feedback.longest_shim(self.address.is_ipv6());
        usize::from(self.mtu()).saturating_sub(shim)
    }

    /// Returns the congestion window, in bytes.
    pub(in crate::connection) fn window(&self) -> u64 {
        self.route.controller.window()
    }

    /// Returns the ECN field of the next packets.
    pub(in crate::connection) fn mark(&self) -> Ecn {
        self.route.ecn(self.feedback.signal())
    }

    /// Returns the size of a probe for a larger datagram, if one is due and is permitted by the
    /// window and the amplification limit. None is due while the address is being validated.
    pub(in crate::connection) fn poll_mtu_probe(
        &mut self,
        now: Instant,
        in_flight: u64,
    ) -> Option<u16> {
        if self.address.validation.is_some() {
            return None;
        }
        let size = self.route.mtud.poll_probe(now)?;
        let bytes = u64::from(size);
        let fits = in_flight + bytes <= self.window() && bytes <= self.address.available();
        fits.then_some(size)
    }

    /// Returns the ECN field of a probe for a larger datagram. It isn't used to try marks at the
    /// same time, because the loss of a packet that tests two things explains neither.
    pub(in crate::connection) fn mtu_probe_mark(&self) -> Ecn {
        if self.route.ecn.is_tried() {
            Ecn::NotEct
        } else {
            self.mark()
        }
    }

    /// Describes `len` bytes to send on this path, in datagrams of `segment_size`.
    pub(in crate::connection) const fn transmit(
        &self,
        ecn: Ecn,
        len: usize,
        segment_size: usize,
    ) -> Transmit {
        Transmit {
            remote: self.address.remote,
            local: self.address.local,
            ecn,
            len,
            segment_size,
        }
    }

    /// Returns true if a signal uses the ECN field, so that there's nothing to validate.
    fn is_ecn_claimed(&self) -> bool {
        let signal = self.feedback.signal();
        signal.is_some_and(|signal| signal.ecn().is_some())
    }

    /// Returns which property of the path a packet tests.
    pub(in crate::connection) fn probes(&self, packet: &Departure) -> Probe {
        let shim = packet.shim != ShimUse::Nothing;
        let marked = packet.ecn != Ecn::NotEct && !self.is_ecn_claimed();
        match () {
            () if packet.mtu_probe => Probe::Mtu,
            () if marked && self.route.ecn.is_tried() => Probe::Ecn,
            () if shim && self.route.plain.is_tried() => Probe::Shim,
            () if matches!(packet.shim, ShimUse::Question(_)) => Probe::Question,
            () => Probe::Nothing,
        }
    }

    /// Reports to the controller a 1-RTT packet that counts towards bytes in flight; `in_flight`
    /// includes it.
    pub(in crate::connection) fn tell_sent(
        &mut self,
        now: Instant,
        packet: &Departure,
        in_flight: u64,
        limit: Limit,
    ) -> PacketState {
        let sent = Sent {
            packet_number: packet.number,
            bytes: packet.size.into(),
            in_flight,
            limit,
            signal: self.bears_signal(packet),
        };
        if self.controllers.is_empty() {
            self.note_controller(now);
        }
        self.controllers.on_sent(sent.bytes);
        self.route.controller.on_sent(now, &sent)
    }

    /// Records which law controls the window.
    pub(super) fn note_controller(&mut self, now: Instant) {
        let ruler = self.route.metrics().ruler();
        self.controllers.note(now, ruler);
    }

    fn bears_signal(&self, packet: &Departure) -> bool {
        packet.shim != ShimUse::Nothing || (packet.eliciting && self.is_ecn_claimed())
    }

    /// Records that a 1-RTT packet was sent.
    pub(in crate::connection) fn on_sent(&mut self, now: Instant, packet: &Departure) {
        let number = packet.number;
        let signal = self.bears_signal(packet);
        if packet.eliciting {
            let mark = if self.is_ecn_claimed() {
                Ecn::NotEct
            } else {
                packet.ecn
            };
            self.route.ecn.on_sent(number, mark);
            self.route.cadence.on_sent(now, signal);
            if !packet.mtu_probe {
                let shim = packet.shim != ShimUse::Nothing;
                self.route.plain.on_sent(number, shim);
            }
        }
        if signal {
            self.feedback
                .on_sent(packet.shim, number, packet.size.into());
        }
    }

    /// Returns the state of recovery and of the controller, for a log of the connection.
    pub(in crate::connection) fn traced(
        &self,
        rtt: &RttEstimator,
        in_flight: u64,
        probe_timeouts: u32,
    ) -> TracedRecovery {
        let metrics = self.route.metrics();
        TracedRecovery {
            smoothed_rtt: rtt.srtt(),
            min_rtt: rtt.min(),
            latest_rtt: rtt.latest(),
            rtt_variation: rtt.variation(),
            probe_timeouts,
            window: metrics.window,
            ssthresh: metrics.ssthresh,
            in_flight,
            pace: self.route.pacer.rate(),
            law: metrics.ruling,
            fallback: metrics.fallback.map(FallbackReason::name),
        }
    }

    /// Creates a report for people and logs from this path's state and the arguments.
    pub(in crate::connection) fn report(
        &self,
        rtt: &RttEstimator,
        in_flight: u64,
        receive_window: u64,
        receive_limited: bool,
        bounded_by: BoundShares,
    ) -> PathReport {
        PathReport {
            remote: self.address.remote,
            local: self.address.local,
            controller: self.route.metrics(),
            controllers: self.controllers.clone(),
            pace: self.route.pacer.rate(),
            in_flight,
            latest_rtt: rtt.latest(),
            smoothed_rtt: rtt.srtt(),
            rtt_variation: rtt.variation(),
            min_rtt: rtt.min(),
            mtu: self.mtu(),
            signal: self.feedback.kind(),
            passes_shims: self.route.plain.passes_shims(),
            feedback: self.last_feedback,
            router: self.last_feedback.and_then(|seen| seen.router()),
            disbelieved: self.feedback.disbelieved(),
            clock_steps: self.route.one_way.steps(),
            clock_used: !self.route.one_way.given_up(),
            receive_window,
            receive_limited,
            ecn: self.route.ecn.state(),
            bounded_by,
            validated: self.is_validated(),
            known_path: self.route.asked,
        }
    }
}

/// A connection's measurements of its path, for later connections between the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPath {
    /// The highest rate that it carried within a round trip, if this is worth a question.
    pub path: Option<KnownPath>,
    /// Whether routers of this path were asked for the rate that was known before.
    pub asked: bool,
}

impl Paths {
    /// Sets the state of the path known from an earlier connection.
    pub(in crate::connection) const fn set_known(&mut self, known: Option<KnownPath>) {
        self.known = known;
    }

    /// Returns the known state of the path, for questions. A configured rate takes precedence.
    pub(in crate::connection) fn known(&self) -> Option<KnownPath> {
        let configured = self.config.known_rate;
        let configured = configured.map(|rate| KnownPath { rate, rtt: None });
        configured.or(self.known)
    }

    /// Returns the connection's measurements of its path, once. An address that isn't validated is
    /// never reported, because the peer may have forged it.
    pub(in crate::connection) fn poll_shown(&mut self) -> Option<ShownPath> {
        if core::mem::replace(&mut self.shown, true) {
            return None;
        }
        let path = &self.path;
        path.is_validated().then(|| ShownPath {
            path: path.route.arrivals.known(),
            asked: path.route.asked,
        })
    }
}

impl Path {
    /// Returns true if the next packet should carry the controller's request in a shim. `probe` is
    /// the index of a probe, of which only one of two has a shim.
    pub(in crate::connection) fn wants_shim(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        srtt: Duration,
    ) -> bool {
        if !self.feedback.has_shim() || !self.route.plain.wants_shim(now, probe) {
            return false;
        }
        let every = self.route.controller.signal_every();
        every <= 1 || self.route.cadence.due(now, every, srtt)
    }

    /// Writes the shim at the front of a datagram, if there's room for it. `min_rtt` is the minimum
    /// RTT, which the handshake has measured before the controller gets its first packet. `next` is
    /// the number of the next packet.
    pub(in crate::connection) fn write_request(
        &mut self,
        now: Instant,
        limits: &Limits,
        min_rtt: Option<Duration>,
        next: u64,
        w: &mut Writer<'_>,
    ) -> ShimUse {
        self.route.controller.on_limits(now, limits);
        let mut request = self.route.controller.request();
        request.min_rtt = request.min_rtt.or(min_rtt);
        request.ipv6 = self.address.is_ipv6();
        if let Some(wanted) = request.signal {
            self.feedback.choose(wanted, next);
        }
        let len = self.feedback.shim_len(&request);
        // So few bytes may be permitted to an address that isn't validated that the shim would
        // leave no room.
        if w.remaining() < len + MIN_UNVALIDATED {
            return ShimUse::Nothing;
        }
        let Ok(room) = w.take(len) else {
            return ShimUse::Nothing;
        };
        self.feedback.fill(&request, room);
        ShimUse::Request(len)
    }

    /// Returns true if the controller has a question for a starting rate and the path carries
    /// questions. Routers aren't asked for a path to an address that isn't validated, because the
    /// peer may have forged it.
    pub(in crate::connection) fn may_ask(&mut self, now: Instant) -> bool {
        self.feedback.question_len() > 0
            && self.is_validated()
            && self.route.controller.asks()
            && self.route.plain.wants_shim(now, None)
    }

    /// Writes a shim with the controller's question, if there is one.
    pub(in crate::connection) fn write_question(
        &mut self,
        now: Instant,
        random: u64,
        limits: &Limits,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let mut request = Request::default();
        request.quick_start = Some(self.route.controller.ask(now, random, limits)?);
        self.fill_question(&request, w)
    }

    /// Like [`write_question`](Self::write_question), but before the handshake is complete, for the
    /// known rate of the path.
    pub(in crate::connection) fn write_question_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let mut request = Request::default();
        request.quick_start = Some(self.route.controller.ask_ahead(now, random, known)?);
        self.fill_question(&request, w)
    }

    fn fill_question(&mut self, request: &Request, w: &mut Writer<'_>) -> Option<ShimUse> {
        let len = self.feedback.question_len();
        self.feedback.fill_question(request, w.take(len).ok()?);
        Some(ShimUse::Question(len))
    }
}
