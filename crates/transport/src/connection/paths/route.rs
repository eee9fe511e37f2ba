//! The state that a connection learns about a path, and the initial windows of flows that share it.

use pathmark_cc::{Controller, Metrics};

use crate::config::TransportConfig;
use crate::path::{
    ArrivalRate, Cadence, ETHERNET_MTU, EcnValidation, LARGEST_MTU, Mtud, OneWayDelay, PlainPath,
};
use crate::recovery::{LossOutcome, Pacer, Probe, SentPacket};
use crate::{Duration, Ecn, Instant, Signal};

/// A fault of a path, which treats packets as no path should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Fault {
    /// The path drops datagrams with shims.
    DropsShims,
    /// The path marks all packets with CE.
    MarksAll,
}

/// Decision of window and pacer on a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Admission {
    /// It may be sent.
    Now,
    /// It waits for acknowledgements.
    WindowFull,
    /// It waits for the pacer, until the given time.
    At(Instant),
}

/// State learned about a path. Each path begins with a new one, except that a path to another port
/// of the same host shares it (RFC 9000 §9.4).
#[derive(Debug)]
pub(in crate::connection) struct Route {
    pub(super) controller: Box<dyn Controller>,
    pub(super) pacer: Pacer,
    /// First bytes of flows, which may be sent in addition to the window.
    pub(super) starts: Starts,
    pub(super) mtud: Mtud,
    pub(super) ecn: EcnValidation,
    /// Detects whether the path drops shims.
    pub(super) plain: PlainPath,
    /// Decides which packets have a shim.
    pub(super) cadence: Cadence,
    /// Time that packets spend in queues on their way to the peer.
    pub(super) one_way: OneWayDelay,
    /// The rate that the path carries, for later connections.
    pub(super) arrivals: ArrivalRate,
    /// Whether routers were asked for the rate that was known beforehand.
    pub(super) asked: bool,
    /// Whether the application had data to send, which makes larger datagrams useful.
    pub(super) carries_data: bool,
    /// When something that counts towards bytes in flight was last sent.
    pub(super) last_sent: Option<Instant>,
}

impl Route {
    pub(super) fn new(now: Instant, config: &TransportConfig) -> Self {
        let most = config.max_mtu.unwrap_or(LARGEST_MTU);
        let mut mtud = Mtud::with_base(config.initial_mtu, most);
        if config.max_mtu.is_none() {
            mtud.set_ceiling(ETHERNET_MTU);
        }
        let mtu = mtud.mtu();
        let controller = config.controller.build(now, mtu);
        let pacer = Pacer::new(now, mtu);
        let mark = if config.ecn {
            controller.ecn()
        } else {
            Ecn::NotEct
        };
        Self {
            controller,
            pacer,
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

    /// Returns the size of the largest datagram for a probe, after this number of probe timeouts.
    pub(in crate::connection) const fn probe_limit(&self, pto_count: u32) -> u16 {
        self.mtud.probe_limit(pto_count)
    }

    /// Records that the system refuses datagrams of `size` bytes.
    pub(in crate::connection) fn on_size_refused(&mut self, now: Instant, size: u16) {
        if self.mtud.on_refused(now, size) {
            self.on_mtu_change(now);
        }
    }

    /// Returns the state of the congestion controller.
    pub(in crate::connection) fn metrics(&self) -> Metrics {
        self.controller.metrics()
    }

    /// Gives the controller the round trip that the handshake measured.
    pub(in crate::connection) fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.controller.on_handshake_rtt(now, srtt);
    }

    /// Adapts the pacer, because the window may have changed. Returns the window.
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
        self.pacer.set_quantum(self.controller.longest_batch());
        window
    }

    /// Returns whether window and pacer permit a datagram of `size` bytes.
    pub(in crate::connection) fn admits(
        &mut self,
        now: Instant,
        size: u64,
        in_flight: u64,
    ) -> Admission {
        // Even a window smaller than a datagram permits one in flight.
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

    /// Updates the state that depends on time. This must be called before a batch.
    pub(in crate::connection) fn poll(&mut self, now: Instant) {
        self.ecn.poll(now);
        self.starts.poll(now);
    }

    /// Permits the first `bytes` of new flows.
    pub(in crate::connection) fn on_starts(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.starts.add(now, bytes, srtt);
    }

    /// Reports a pause to the controller, if there was one, now that nothing is in flight and
    /// there's data to send. Returns true if it did.
    pub(in crate::connection) fn restart(&mut self, now: Instant) -> bool {
        let Some(last) = self.last_sent.take_if(|last| now > *last) else {
            return false;
        };
        let idle = now.saturating_since(last);
        self.controller.on_restart(now, idle);
        true
    }

    /// Returns true once the application had data to send on this path. `has_data` tests whether it
    /// has some now.
    pub(in crate::connection) fn carries_data(&mut self, has_data: impl FnOnce() -> bool) -> bool {
        if !self.carries_data {
            self.carries_data = has_data();
        }
        self.carries_data
    }

    /// Records that a probe for a larger datagram was sent.
    pub(in crate::connection) const fn on_mtu_probe_sent(&mut self, number: u64, size: u16) {
        self.mtud.on_probe_sent(number, size);
    }

    /// Records that a packet was sent that counts towards bytes in flight.
    pub(in crate::connection) fn on_in_flight(&mut self, now: Instant, bytes: u64) {
        self.pacer.on_sent(now, bytes);
        self.last_sent = Some(now);
    }

    /// Returns true if the window has no room for another datagram besides the bytes in flight.
    pub(in crate::connection) fn is_full(&self, in_flight: u64) -> bool {
        in_flight + u64::from(self.mtud.mtu()) > self.controller.window()
    }

    /// Processes the loss of a 1-RTT packet that was sent on this path.
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

    /// Reports losses to the controller. Returns true if congestion is persistent.
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

    /// Withdraws a question for a starting rate together with its packet.
    pub(in crate::connection) fn on_question_lost(&mut self, now: Instant, number: u64) {
        self.controller.on_question_lost(now, number);
    }

    /// Processes the `count`th consecutive probe timeout.
    pub(in crate::connection) fn on_probe_timeout(&mut self, now: Instant, count: u32) {
        self.controller.on_probe_timeout(now);
        self.ecn.on_probe_timeout(count);
    }

    /// Records that the question for a rate known before the handshake was sent.
    pub(in crate::connection) const fn on_asked_ahead(&mut self) {
        self.asked = true;
    }

    /// Returns the ECN field of the next packets. If a signal uses this field, it takes precedence
    /// over validation.
    pub(super) fn ecn(&self, signal: Option<&dyn Signal>) -> Ecn {
        signal
            .and_then(Signal::ecn)
            .unwrap_or_else(|| self.ecn.mark())
    }

    /// Distributes a change of the datagram size.
    pub(super) fn on_mtu_change(&mut self, now: Instant) {
        let mtu = self.mtud.mtu();
        self.controller.on_mtu(mtu);
        self.pacer.set_mtu(now, mtu);
    }

    /// Prepares for using another path. Because the fates of packets in flight on this one won't be
    /// reported, everything that waits for them starts again if the connection returns.
    pub(super) const fn on_left(&mut self) {
        self.mtud.forget_probe();
        self.ecn.test_again();
        self.plain.forget_trial();
    }

    /// Resets the parts affected by a fault of the path, using the state of an unknown path in
    /// `fresh`. If the path drops shims, its losses didn't indicate congestion, dropped ECN marks
    /// or too large a datagram, so plain packets measure all three again. If all packets return
    /// with CE, only the controller and the pacer start again.
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

/// Maximum number of bytes that starts within one round trip add, which is enough for about 140
/// flows.
const MOST: u64 = 2 << 20;

/// First bytes of flows, each of which would otherwise have a separate connection (RFC 6928).
///
/// These bytes may be in flight in addition to the congestion window, and the pacer spreads them
/// over a round trip. A start counts for at least one round trip and at most two. A loss or CE ends
/// all starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Starts {
    current: u64,
    previous: u64,
    /// When `current` becomes `previous`, or `None` if there are no starts.
    until: Option<Instant>,
    round: Duration,
}

impl Starts {
    /// Adds the first `bytes` of flows.
    pub(super) fn add(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.poll(now);
        let room = MOST.saturating_sub(self.bytes());
        self.current += bytes.min(room);
        self.round = srtt;
        self.until.get_or_insert(now + srtt);
    }

    /// Ends starts whose time has passed.
    pub(super) fn poll(&mut self, now: Instant) {
        let Some(until) = self.until.filter(|until| now >= *until) else {
            return;
        };
        // Both are over after two round trips.
        let current = core::mem::take(&mut self.current);
        self.previous = if now < until + self.round { current } else { 0 };
        self.until = (self.previous > 0).then_some(until + self.round);
    }

    /// Ends all starts, because packets were lost or had CE.
    pub(super) const fn clear(&mut self) {
        (self.current, self.previous, self.until) = (0, 0, None);
    }

    /// Returns the bytes that count now.
    pub(super) const fn bytes(&self) -> u64 {
        self.current + self.previous
    }

    /// Returns the rate that sends them within a round trip, in bytes per second.
    pub(super) fn rate(&self) -> u64 {
        let nanos = self.round.as_nanos().max(1);
        let rate = u128::from(self.bytes()) * 1_000_000_000 / nanos;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_start_counts_for_one_round_trip_or_two() {
        let mut starts = Starts::default();
        for (ms, add, expected) in [
            (0, 100, 100),
            (99, 10, 110),
            // First round, to which the bytes of the next one are added.
            (100, 1, 111),
            (199, 0, 111),
            (200, 0, 1),
            (299, 2, 3),
            (300, 0, 2),
            (400, 0, 0),
            (1_000, 7, 7),
            // Two rounds pass without a call.
            (1_200, 0, 0),
        ] {
            starts.add(at(ms), add, RTT);
            assert_eq!(starts.bytes(), expected, "{ms}");
        }
    }

    #[test]
    fn a_start_ends_without_another() {
        let mut starts = Starts::default();
        starts.add(at(0), 100, RTT);
        for (ms, expected) in [(99, 100), (100, 100), (199, 100), (200, 0), (1_000, 0)] {
            starts.poll(at(ms));
            assert_eq!(starts.bytes(), expected, "{ms}");
        }
        assert!(starts.until.is_none());
    }

    #[test]
    fn starts_are_bounded_and_a_loss_ends_them() {
        let mut starts = Starts::default();
        for ms in 0..1_000 {
            starts.add(at(ms), 1 << 20, RTT);
            assert!(starts.bytes() <= MOST);
        }
        starts.clear();
        assert_eq!((starts.bytes(), starts.rate()), (0, 0));
        starts.add(at(2_000), 50_000, RTT);
        assert_eq!(starts.rate(), 500_000);
    }
}
