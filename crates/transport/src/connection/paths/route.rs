//! The state that a connection learns of a path.

use pathmark_cc::{Controller, Metrics};

use super::starts::Starts;
use crate::config::TransportConfig;
use crate::path::{
    ArrivalRate, Cadence, ETHERNET_MTU, EcnValidation, Mtud, OneWayDelay, PlainPath,
};
use crate::recovery::{LossOutcome, Pacer, Probe, SentPacket};
use crate::{Duration, Ecn, Instant, Signal};

/// A fault of a path: it treats packets as no path should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Fault {
    /// It drops datagrams with shims.
    DropsShims,
    /// It marks all packets with CE.
    MarksAll,
}

/// What window and pacer make of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Admission {
    /// It may leave.
    Now,
    /// It waits for acknowledgements.
    WindowFull,
    /// It waits for the pacer, until then.
    At(Instant),
}

/// State learnt of a path. Another path begins with a new one, but for one to another port of the
/// same host, which shares it (RFC 9000 §9.4).
#[derive(Debug)]
pub(in crate::connection) struct Route {
    pub(super) controller: Box<dyn Controller>,
    pub(super) pacer: Pacer,
    /// First bytes of flows, which may leave in addition to the window.
    pub(super) starts: Starts,
    pub(super) mtud: Mtud,
    pub(super) ecn: EcnValidation,
    /// Does the path let shims pass?
    pub(super) plain: PlainPath,
    /// Which packets bear one.
    pub(super) cadence: Cadence,
    /// How long packets queue on their way.
    pub(super) one_way: OneWayDelay,
    /// The rate that it carries, for later connections.
    pub(super) arrivals: ArrivalRate,
    /// Routers were asked for what was known of it beforehand.
    pub(super) asked: bool,
    /// The application had data to send: larger datagrams are worth a search.
    pub(super) carries_data: bool,
    /// When something that counts towards bytes in flight last left.
    pub(super) last_sent: Option<Instant>,
}

impl Route {
    pub(super) fn new(now: Instant, config: &TransportConfig) -> Self {
        let mark = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let mtud = Mtud::with_base(config.initial_mtu, config.max_mtu.unwrap_or(ETHERNET_MTU));
        let mtu = mtud.mtu();
        Self {
            controller: config.controller.build(now, mtu),
            pacer: Pacer::new(now, mtu),
            starts: Starts::default(),
            mtud,
            ecn: EcnValidation::new(mark),
            plain: PlainPath::new(),
            cadence: Cadence::new(),
            one_way: OneWayDelay::new(),
            arrivals: ArrivalRate::default(),
            asked: false,
            carries_data: false,
            last_sent: None,
        }
    }

    /// Largest datagram of a probe, after this number of probe timeouts.
    pub(in crate::connection) const fn probe_limit(&self, pto_count: u32) -> u16 {
        self.mtud.probe_limit(pto_count)
    }

    /// The system refuses datagrams of `size` bytes.
    pub(in crate::connection) fn on_size_refused(&mut self, now: Instant, size: u16) {
        if self.mtud.on_refused(now, size) {
            self.on_mtu_change(now);
        }
    }

    /// State of the control law.
    pub(in crate::connection) fn metrics(&self) -> Metrics {
        self.controller.metrics()
    }

    /// The handshake has measured the path.
    pub(in crate::connection) fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.controller.on_handshake_rtt(now, srtt);
    }

    /// The window may have moved: the pacer follows. The window, for others that do.
    pub(in crate::connection) fn follow_window(
        &mut self,
        now: Instant,
        srtt: Option<Duration>,
    ) -> u64 {
        let window = self.controller.window();
        let rate = self.controller.pacing_rate();
        let rate = rate.map(|rate| rate.saturating_add(self.starts.rate()));
        let sum = window.saturating_add(self.starts.bytes());
        self.pacer.set(now, sum, srtt, rate);
        window
    }

    /// What window and pacer make of a datagram of `size` bytes.
    #[inline]
    pub(in crate::connection) fn admits(
        &mut self,
        now: Instant,
        size: u64,
        in_flight: u64,
    ) -> Admission {
        // A window below one datagram still lets one be in flight.
        // [9002 7 window]
        let window = self.controller.window();
        if in_flight > 0 && in_flight + size > window.saturating_add(self.starts.bytes()) {
            return Admission::WindowFull;
        }
        let pacer = &mut self.pacer;
        // [9002 7.7 bursts]
        if pacer.available(now) < size {
            let batch = pacer.batch().max(size);
            if let Some(at) = pacer.next(now, batch) {
                return Admission::At(at);
            }
        }
        Admission::Now
    }

    /// Before a batch: time has passed.
    pub(in crate::connection) fn poll(&mut self, now: Instant) {
        self.ecn.poll(now);
        self.starts.poll(now);
    }

    /// Flows begin with these bytes.
    pub(in crate::connection) fn on_starts(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.starts.add(now, bytes, srtt);
    }

    /// Nothing is in flight, and there is data to send: the controller hears of the pause, if there
    /// was one. True if so.
    pub(in crate::connection) fn restart(&mut self, now: Instant) -> bool {
        let Some(last) = self.last_sent.take_if(|last| now > *last) else {
            return false;
        };
        let idle = now.saturating_since(last);
        self.controller.on_restart(now, idle);
        true
    }

    /// True once the application had data to send on it; `has_data`: it has some now.
    #[inline]
    pub(in crate::connection) fn carries_data(&mut self, has_data: impl FnOnce() -> bool) -> bool {
        if !self.carries_data {
            self.carries_data = has_data();
        }
        self.carries_data
    }

    /// The probe left.
    pub(in crate::connection) const fn on_mtu_probe_sent(&mut self, number: u64, size: u16) {
        self.mtud.on_probe_sent(number, size);
    }

    /// A packet left that counts towards bytes in flight.
    #[inline]
    pub(in crate::connection) fn on_in_flight(&mut self, now: Instant, bytes: u64) {
        self.pacer.on_sent(now, bytes);
        self.last_sent = Some(now);
    }

    /// True if the window has no room for a datagram more, with this in flight.
    #[inline]
    pub(in crate::connection) fn is_full(&self, in_flight: u64) -> bool {
        in_flight + u64::from(self.mtud.mtu()) > self.controller.window()
    }

    /// A 1-RTT packet that went over it was lost.
    pub(in crate::connection) fn on_lost<F>(
        &mut self,
        now: Instant,
        number: u64,
        packet: &SentPacket<F>,
    ) {
        self.mtud.on_lost(now, number, packet.size, packet.sent_at);
        self.ecn.on_lost(now, number, packet.ecn);
        if packet.ack_eliciting && packet.probe != Probe::Mtu {
            self.plain.on_lost(now, number, packet.shim);
        }
    }

    /// The controller hears of losses. True if congestion is persistent.
    pub(in crate::connection) fn on_losses(&mut self, now: Instant, loss: &LossOutcome) -> bool {
        let controller = &mut self.controller;
        if let Some(number) = loss.question {
            controller.on_question_lost(now, number);
        }
        if let Some(lost) = &loss.lost {
            // [9000 13.3 losses-are-congestion]
            controller.on_loss(now, lost);
            self.starts.clear();
        }
        if loss.persistent_congestion {
            controller.on_persistent_congestion(now);
        }
        loss.persistent_congestion
    }

    /// A question for a starting rate is taken back, with the packet that had it.
    pub(in crate::connection) fn on_question_lost(&mut self, now: Instant, number: u64) {
        self.controller.on_question_lost(now, number);
    }

    /// A probe timeout fired, the `count`th in a row.
    pub(in crate::connection) fn on_probe_timeout(&mut self, now: Instant, count: u32) {
        self.controller.on_probe_timeout(now);
        self.ecn.on_probe_timeout(count);
    }

    /// The question for a rate that was known before the handshake left.
    pub(in crate::connection) const fn on_asked_ahead(&mut self) {
        self.asked = true;
    }

    /// The ECN field of the next packets. A signal that claims the field has it, whatever
    /// validation says.
    #[inline]
    pub(super) fn ecn(&self, signal: Option<&dyn Signal>) -> Ecn {
        signal
            .and_then(Signal::ecn)
            .unwrap_or_else(|| self.ecn.mark())
    }

    /// The datagram size changed: tell those who reckon with it.
    pub(super) fn on_mtu_change(&mut self, now: Instant) {
        let mtu = self.mtud.mtu();
        self.controller.on_mtu(mtu);
        self.pacer.set_mtu(now, mtu);
    }

    /// Another path is used from now on. Fates of packets in flight on this path are no longer
    /// reported: what waits for one of them starts again if the connection comes back.
    pub(super) const fn on_left(&mut self) {
        self.mtud.forget_probe();
        self.ecn.test_again();
        self.plain.forget_trial();
    }

    /// The path was found to have a fault; `fresh` is a path of which nothing is known. Losses of a
    /// path that drops shims were no sign of congestion, of a path that drops ECN marks or of too
    /// large a datagram: plain packets measure all three again. Where all packets come back with
    /// CE, the controller begins again.
    pub(super) fn start_over(&mut self, now: Instant, fresh: Self, fault: Fault) {
        self.controller = fresh.controller;
        self.pacer = fresh.pacer;
        if fault == Fault::DropsShims {
            let mut ecn = fresh.ecn;
            ecn.follow(&self.ecn);
            self.ecn = ecn;
            self.mtud = fresh.mtud;
        }
        self.on_mtu_change(now);
    }
}
