//! Traits of control laws: the sender's part, the port's part, and the reaction to losses.

mod port;

use core::fmt;

use crate::base::{Duration, Instant};
use crate::metrics::Metrics;
use crate::signals::{Ecn, Feedback, KnownPath, QuickStartRequest, Request};
pub use port::{LinkController, Passive};

// Loss rules, which interpret lost packets on a path whose routers announce congestion by other
// means.

/// Knowledge about the path when packets are declared lost while routers control the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossView {
    /// True if a substantial share of packets returned without any router's mark.
    pub unmarked: bool,
}

/// Reaction to a loss besides retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A queue overflowed. The window must be cut, once per round trip.
    Congestion,
    /// The link corrupted the packet. The window must not change.
    Corruption,
}

/// Decides how a law reacts to losses.
pub trait LossRule: Clone + Send + fmt::Debug {
    /// Judges a loss.
    fn judge(&self, view: &LossView) -> Verdict;

    /// Returns true if losses may indicate a bottleneck that no router announces, and should then
    /// hand the window to CUBIC. With false, routers are trusted to announce every bottleneck.
    fn doubts(&self) -> bool {
        true
    }
}

/// Treats every loss as congestion, as in TCP (VCP itself).
#[derive(Clone, Copy, Debug, Default)]
pub struct Halving;

impl LossRule for Halving {
    fn judge(&self, _view: &LossView) -> Verdict {
        Verdict::Congestion
    }
}

// Sender half of a control law.

/// State that a controller stores with each packet in flight, and gets back on its ACK or loss.
///
/// It is opaque to the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// State of a law that follows routers.
    pub explicit: u64,
    /// State of a standard law, which can replace the routers' law.
    pub standard: u64,
}

/// A packet that was just sent and counts towards bytes in flight.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Packet number (application data space).
    pub packet_number: u64,
    /// Size in bytes, including the shim. The path's routers count IP and UDP headers in addition.
    pub bytes: u64,
    /// Bytes in flight after sending it.
    pub in_flight: u64,
    /// The limit that currently keeps the sender from sending more, if it isn't the window.
    pub limit: Limit,
    /// True if the packet carries the request, either in a shim or in an ECN field used by the
    /// signal.
    pub signal: bool,
}

/// The limit that applies to a sender at a given moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The congestion window, or the pacer that spreads it.
    #[default]
    Window,
    /// The application doesn't have anything more to send.
    Application,
    /// The peer's flow control.
    Peer,
    /// This side's own send buffer.
    Buffer,
}

/// Limits on the bytes in flight besides the congestion window, in bytes. `u64::MAX` means that
/// there's no such limit.
///
/// A law that states its rate to routers must use the least of its window and these limits, because
/// a window that is never used would make routers count a flow that doesn't exist (XCP Linux paper,
/// section IV-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in flight plus the credit still available from the peer's flow control.
    pub peer: u64,
    /// Bytes in flight that this side's send buffer can hold.
    pub buffer: u64,
    /// Bytes in flight plus the application's data that hasn't been sent yet, if there's nothing
    /// else to send.
    pub application: u64,
}

impl Limits {
    /// No limit except the window.
    pub const NONE: Self = Self {
        peer: u64::MAX,
        buffer: u64::MAX,
        application: u64::MAX,
    };

    /// Returns the lowest limit.
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
    /// Number of bytes, considering only packets that counted towards bytes in flight.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of packets that the peer newly reports as marked with CE, which may include some that
    /// an earlier frame acknowledged. 0 while the field carries VCP codes.
    pub marked: u64,
    /// Largest packet number.
    pub largest: u64,
    /// Time at which the packet with this number was sent.
    pub sent_at: Instant,
    /// [`PacketState`] of this largest packet.
    pub state: PacketState,
    /// RTT sample from this ACK after subtracting the acknowledgement delay, or `None` if there
    /// isn't any.
    pub rtt: Option<Duration>,
    /// How much longer the sampled packet took to reach the receiver than the fastest one, which is
    /// its queueing delay, at most `rtt - min_rtt`. Any remaining increase of the RTT happened on
    /// the way back. `None` if the peer doesn't report its clock.
    pub forward_delay: Option<Duration>,
    /// Smoothed RTT after processing the sample.
    pub srtt: Duration,
    /// Minimum RTT observed on this path.
    pub min_rtt: Duration,
    /// Bytes in flight before removing these packets.
    pub in_flight_before: u64,
    /// True if the window (or its pacer) limited the sender at some point since the previous ACK.
    /// Otherwise, the window should not grow (RFC 9002 §7.8).
    pub window_limited: bool,
}

/// Packets declared lost together.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Number of bytes.
    pub bytes: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of contiguous ranges of packet numbers, at least 1.
    pub ranges: u64,
    /// [`PacketState`] of the packet with the smallest number.
    pub first_state: PacketState,
    /// Largest packet number.
    pub largest: u64,
    /// Time at which the packet with this number was sent.
    pub sent_at: Instant,
    /// [`PacketState`] of this largest packet.
    pub state: PacketState,
    /// Largest packet number sent so far. Losses up to this number belong to the same round trip.
    pub last_sent: u64,
    /// Current smoothed RTT.
    pub srtt: Duration,
    /// Minimum RTT observed on this path.
    pub min_rtt: Duration,
    /// Bytes in flight before removing the lost packets.
    pub in_flight_before: u64,
}

/// A pacing rate without effect: packets leave as soon as the window allows.
pub const UNPACED: u64 = u64::MAX;

/// Sender half of a control law. There's one per connection and path.
///
/// Its inputs are events on the path; its outputs are a window, a pace and the request for the next
/// packet. Methods must not allocate, block or read a clock, and `now` may be the same in several
/// calls. A controller must never trust the range of a field.
///
/// When an ACK packet arrives, the transport calls [`on_feedback`](Self::on_feedback) (if its
/// FEEDBACK frame contains something new), then [`on_ack`](Self::on_ack), and finally
/// [`on_loss`](Self::on_loss).
pub trait Controller: Send + fmt::Debug {
    /// Handles sending a packet that counts towards bytes in flight, and returns the state to keep
    /// with it.
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let _ = (now, sent);
        PacketState::default()
    }

    /// Handles newly acknowledged packets.
    fn on_ack(&mut self, now: Instant, acked: &Acked);

    /// Handles new feedback from the receiver's counters. `acked` describes the ACK frame received
    /// with it, whose packets will be passed to [`on_ack`](Self::on_ack) next. If it doesn't newly
    /// acknowledge any packets, its counts are 0.
    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let _ = (now, feedback, acked);
    }

    /// Handles packets declared lost.
    fn on_loss(&mut self, now: Instant, lost: &Lost);

    /// Handles new CE marks in the IP ECN field. It isn't called while the field carries VCP codes.
    /// `sent_at` is the time at which the largest newly acknowledged packet was sent; for
    /// `last_sent`, see [`Lost`].
    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        let _ = (now, sent_at, last_sent);
    }

    /// Handles an expired probe timeout (RFC 9002 §6.2), which isn't a loss.
    fn on_probe_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// Handles persistent congestion (RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now: Instant);

    /// Handles a spurious loss: every packet of the last loss event was eventually acknowledged.
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// Handles restarting after a pause of `idle`, with nothing in flight.
    fn on_restart(&mut self, now: Instant, idle: Duration) {
        let _ = (now, idle);
    }

    /// Returns the ECN codepoint of packets. Return ECT(1) only if the law responds to CE marks as
    /// RFC 9331 (section 4) requires. It is read once per path.
    fn ecn(&self) -> Ecn {
        Ecn::Ect0
    }

    /// Returns the longest time that packets sent together may take at the pace, at most the
    /// default of 1 ms. At low rates, they are sent one by one.
    fn longest_batch(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Handles a change of the largest datagram by path MTU discovery, in bytes of UDP payload.
    fn on_mtu(&mut self, mtu: u16);

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the pace in bytes per second. With `None`, the transport derives one from window and
    /// smoothed RTT (RFC 9002 §7.7 with N = 1.25).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Handles the RTT measured by the handshake, before any of the path's packets was
    /// acknowledged.
    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        let _ = (now, srtt);
    }

    /// Receives the sender's other limits, before calling [`request`](Self::request) whenever they
    /// may have changed.
    fn on_limits(&mut self, now: Instant, limits: &Limits) {
        let _ = (now, limits);
    }

    /// Returns the request to routers for the next packet. It is called before the packet's
    /// [`on_sent`](Self::on_sent).
    fn request(&self) -> Request {
        Request::default()
    }

    /// Returns true if the law would request a starting rate from routers, provided that the sender
    /// has more to send than its window holds. Because it is called for each packet, it must be
    /// cheap.
    fn asks(&self) -> bool {
        false
    }

    /// Returns the request for a starting rate that the next packet carries instead of the usual
    /// request, or `None` if this wouldn't gain anything. The next [`on_sent`](Self::on_sent) is
    /// for that packet. Only called while the law [asks](Self::asks). `random` is a fresh random
    /// number for the law to use.
    fn ask(&mut self, now: Instant, random: u64, limits: &Limits) -> Option<QuickStartRequest> {
        let _ = (now, random, limits);
        None
    }

    /// Returns a request for a starting rate based on the `known` state of the path, to be sent
    /// before the handshake is complete and before there's any data. `None` if this wouldn't gain
    /// anything or the law has already sent a request. Otherwise, this works like
    /// [`ask`](Self::ask).
    fn ask_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        let _ = (now, random, known);
        None
    }

    /// Handles the loss of packet `number`, which requested a starting rate. It isn't included in
    /// any [`on_loss`](Self::on_loss), because a hop may drop packets that it doesn't know.
    fn on_question_lost(&mut self, now: Instant, number: u64) {
        let _ = (now, number);
    }

    /// Returns n if every n-th ack-eliciting packet should carry the request; the default of 1
    /// includes every packet. The transport always sends at least one per round trip. If a router
    /// queues packets with and without feedback separately, it treats all packets of a flow as
    /// having feedback as long as it sees some.
    fn signal_every(&self) -> u32 {
        1
    }

    /// Returns the state for reports.
    fn metrics(&self) -> Metrics;
}
