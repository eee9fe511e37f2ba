//! The sender half of a control law.

use core::fmt;

use crate::base::{Duration, Instant};
use crate::metrics::Metrics;
use crate::signals::{Feedback, KnownPath, QuickStartRequest, Request};

/// State that a controller keeps with each packet in flight, returned on its ACK or loss.
///
/// Opaque to the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// Of a law that follows routers.
    pub explicit: u64,
    /// Of a standard law, which may stand in the routers' place.
    pub standard: u64,
}

/// A packet that counts towards bytes in flight has just been sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its packet number (application data space).
    pub packet_number: u64,
    /// Its size in bytes, shim included, as the path's routers will count it less IP and UDP
    /// headers.
    pub bytes: u64,
    /// Bytes in flight after it was sent.
    pub in_flight: u64,
    /// What keeps the sender from sending more right now, if anything but the window does.
    pub limit: Limit,
    /// The request rides on it: it has a shim, or its ECN field is the signal's.
    pub signal: bool,
}

/// What bounds a sender at a given moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The congestion window, or the pacer that spreads it.
    #[default]
    Window,
    /// The application has nothing more to send.
    Application,
    /// The peer's flow control.
    Peer,
    /// This side's own send buffer.
    Buffer,
}

/// What besides the congestion window bounds the bytes in flight, in bytes; `u64::MAX` where there
/// is no such bound.
///
/// A law that states its rate to routers states the least of its window and these: a window that is
/// never used would make routers count a flow that is not there (XCP Linux paper, section IV-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in flight plus the credit that the peer's flow control still gives.
    pub peer: u64,
    /// What this side's send buffer can hold in flight.
    pub buffer: u64,
    /// Bytes in flight plus what the application has handed over and not yet seen sent, if that is
    /// all it has.
    pub application: u64,
}

impl Limits {
    /// No bound but the window.
    pub const NONE: Self = Self {
        peer: u64::MAX,
        buffer: u64::MAX,
        application: u64::MAX,
    };

    /// The narrowest of them.
    #[inline]
    #[must_use]
    pub fn least(&self) -> u64 {
        self.peer.min(self.buffer).min(self.application)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

/// Packets newly acknowledged by one ACK frame.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Their bytes (those that counted towards bytes in flight).
    pub bytes: u64,
    /// Their number.
    pub packets: u64,
    /// Largest packet number among them.
    pub largest: u64,
    /// When that largest packet was sent.
    pub sent_at: Instant,
    /// [`PacketState`] of that largest packet.
    pub state: PacketState,
    /// RTT sample of this ACK, acknowledgement delay taken off; `None` if it gives none.
    pub rtt: Option<Duration>,
    /// How much longer the packet of that sample was on its way to the receiver than the fastest
    /// one: its time in queues, and no more than `rtt - min_rtt`. The rest of a longer RTT is the
    /// way back. `None` where the peer does not report its clock.
    pub forward_delay: Option<Duration>,
    /// Smoothed RTT after the sample.
    pub srtt: Duration,
    /// Least RTT seen on this path.
    pub min_rtt: Duration,
    /// Bytes in flight before these packets were taken off.
    pub in_flight_before: u64,
    /// True if the window (or its pacer) bounded the sender at some point since the previous ACK;
    /// growth is skipped otherwise (RFC 9002 §7.8).
    pub window_limited: bool,
}

/// Packets declared lost together.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Their bytes.
    pub bytes: u64,
    /// Their number.
    pub packets: u64,
    /// Of how many ranges of packet numbers in a row they are, at least 1.
    pub ranges: u64,
    /// [`PacketState`] of the smallest packet number among them.
    pub first_state: PacketState,
    /// Largest packet number among them.
    pub largest: u64,
    /// When that largest packet was sent.
    pub sent_at: Instant,
    /// [`PacketState`] of that largest packet.
    pub state: PacketState,
    /// Largest packet number sent so far: losses up to here belong to the same round trip.
    pub last_sent: u64,
    /// Smoothed RTT at the time.
    pub srtt: Duration,
    /// Least RTT seen on this path.
    pub min_rtt: Duration,
    /// Bytes in flight before the lost packets were taken off.
    pub in_flight_before: u64,
}

/// A pacing rate that bounds nothing: what the window lets go leaves at once.
pub const UNPACED: u64 = u64::MAX;

/// The sender half of a control law: one per connection and path.
///
/// Its inputs are events on the path, its outputs a window, a pace and the request for the next
/// packet. Methods neither allocate nor block nor read a clock; `now` never needs to advance
/// between calls. A controller never trusts the range of a field.
///
/// The order of calls for one incoming ACK packet is: [`on_feedback`](Self::on_feedback) (if its
/// FEEDBACK frame brought something new), then [`on_ack`](Self::on_ack), then
/// [`on_loss`](Self::on_loss).
pub trait Controller: Send + fmt::Debug {
    /// A packet that counts towards bytes in flight was sent; the return value is kept with it.
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let _ = (now, sent);
        PacketState::default()
    }

    /// Packets were newly acknowledged.
    fn on_ack(&mut self, now: Instant, acked: &Acked);

    /// The receiver's counters moved. `acked` describes the ACK frame that came with them, whose
    /// packets [`on_ack`](Self::on_ack) reports next; with no newly acknowledged packets its counts
    /// are 0.
    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let _ = (now, feedback, acked);
    }

    /// Packets were declared lost.
    fn on_loss(&mut self, now: Instant, lost: &Lost);

    /// The IP ECN field came back with new CE marks (never called while the field carries VCP
    /// codes). `sent_at` is when the largest newly acknowledged packet was sent, `last_sent` as in
    /// [`Lost`].
    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        let _ = (now, sent_at, last_sent);
    }

    /// A probe timeout fired (RFC 9002 §6.2). Not a loss.
    fn on_probe_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// Persistent congestion was established (RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now: Instant);

    /// Every packet of the last loss event was acknowledged after all.
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// The sender has nothing in flight and sends again after a pause of `idle`.
    fn on_restart(&mut self, now: Instant, idle: Duration) {
        let _ = (now, idle);
    }

    /// The largest datagram changed (path MTU discovery), in bytes of UDP payload.
    fn on_mtu(&mut self, mtu: u16);

    /// Congestion window in bytes.
    fn window(&self) -> u64;

    /// Pace in bytes per second; `None` lets the transport derive one from window and smoothed RTT
    /// (RFC 9002 §7.7 with N = 1.25).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The handshake has measured the RTT before any of the path's packets was acknowledged.
    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        let _ = (now, srtt);
    }

    /// Further bounds of the sender, reported before [`request`](Self::request) whenever they may
    /// have changed.
    fn on_limits(&mut self, now: Instant, limits: &Limits) {
        let _ = (now, limits);
    }

    /// The request to the routers in the next packet. A packet's request is taken before its
    /// [`on_sent`](Self::on_sent).
    fn request(&self) -> Request {
        Request::default()
    }

    /// True if the law would ask routers for a rate to start with, had the sender more to send than
    /// its window holds. Called for each packet: no more than a look.
    fn asks(&self) -> bool {
        false
    }

    /// The question for a starting rate that rides on the next packet, in place of the request; the
    /// next [`on_sent`](Self::on_sent) is that packet's. Called only while the law
    /// [asks](Self::asks); `random` is for what it draws, another one each time. `None`: there is
    /// nothing to gain.
    fn ask(&mut self, now: Instant, random: u64, limits: &Limits) -> Option<QuickStartRequest> {
        let _ = (now, random, limits);
        None
    }

    /// A question for a starting rate that leaves before the handshake is complete and before there
    /// is anything to send, for what is `known` of the path; otherwise as [`ask`](Self::ask).
    /// `None`: there is nothing to gain, or the law has asked already.
    fn ask_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        let _ = (now, random, known);
        None
    }

    /// Packet `number` asked for a starting rate and is lost. It counts in no
    /// [`on_loss`](Self::on_loss): a hop may drop what it does not know.
    fn on_question_lost(&mut self, now: Instant, number: u64) {
        let _ = (now, number);
    }

    /// The request rides on each n-th packet that asks for an acknowledgement: 1, the default, is
    /// on all of them. The transport lets no round trip pass without one. A router that keeps
    /// packets with and without feedback in queues of their own takes both kinds of a flow for the
    /// former as long as it sees some.
    fn signal_every(&self) -> u32 {
        1
    }

    /// State for reports.
    fn metrics(&self) -> Metrics;
}
