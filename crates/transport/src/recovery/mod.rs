//! Loss recovery (RFC 9002): round-trip times, sent packets, loss detection, probe timeouts,
//! pacing.
//!
//! ```text
//!   on_sent ──► Recovery ──┬─ RttEstimator          one per path
//!   on_ack  ──►            ├─ LossDetector × 3      one per packet number space: sent packets,
//!   on_timeout ►           │                        holes, past losses, reordering thresholds
//!                          └─ ProbeTimeout          backoff over all spaces
//!   AckOutcome, LossOutcome, Timeout ──► connection ──► pathmark_cc::Controller
//!   Pacer: when the next bytes may leave
//! ```
//!
//! The type parameter `F` describes the contents of a packet. It is returned exactly once: when the
//! packet is acknowledged or lost. The cost of an ACK frame is proportional to its ranges plus the
//! packets that it newly acknowledges or declares lost, never to the window.

use pathmark_cc::PacketState;

mod holes;
mod loss;
mod pacer;
mod reordering;
mod rtt;
mod sent;
mod spaces;

#[cfg(test)]
mod tests;

pub use loss::LossDetector;
pub use pacer::Pacer;
pub use reordering::Reordering;
pub use rtt::{GRANULARITY, INITIAL_RTT, ProbeTimeout, RttEstimator};
#[cfg(test)]
pub(crate) use sent::packet;
pub use sent::{PathNumber, Probe, SentPacket, SentPackets};
pub use spaces::{AckOutcome, LossOutcome, PathRecovery, Recovery, Timeout};

use crate::{Ecn, Instant};

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged.
    Acked,
    /// It was declared lost, so its contents must be sent again if they are still needed.
    Lost,
}

/// An ACK frame that no honest peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// It acknowledges a packet that was never sent (RFC 9000 §13.1): PROTOCOL_VIOLATION.
    #[error("acknowledges packet {0}, which was never sent")]
    NeverSent(u64),
    /// Its ranges are not in descending order: FRAME_ENCODING_ERROR.
    #[error("acknowledgement ranges out of order")]
    Disordered,
}

/// The packets that one ACK frame newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Newly {
    /// Number of packets of any kind.
    pub packets: u64,
    /// Packets that count for congestion control: in flight, on the current path.
    pub counted: u64,
    /// Bytes of the counted packets.
    pub bytes: u64,
    /// The largest counted packet: number, send time, state.
    pub largest: Option<(u64, Instant, PacketState)>,
    /// Whether any of the packets was ack-eliciting.
    pub ack_eliciting: bool,
    /// Send time of the frame's largest packet, if it was newly acknowledged and was sent on
    /// this path.
    pub largest_sent_at: Option<Instant>,
    /// Whether the frame raised the largest acknowledged number. Only then are ECN counts
    /// validated (RFC 9000 §13.4.2.1).
    pub advanced: bool,
    /// Packets sent with ECT(0) on the current path.
    pub ect0: u64,
    /// Packets sent with ECT(1) on the current path.
    pub ect1: u64,
    /// Packets that were declared lost before.
    pub spurious: u64,
    /// Whether this completes the last loss event, all of whose packets have now been
    /// acknowledged.
    pub event_undone: bool,
}

/// The packets that one pass declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewlyLost {
    /// Number of packets of any kind.
    pub packets: u64,
    /// Packets that count for congestion control: in flight, on the current path, and not
    /// probes.
    pub counted: u64,
    /// Bytes of the counted packets.
    pub bytes: u64,
    /// Number of contiguous ranges that the counted packets form.
    pub ranges: u64,
    /// State of the smallest counted packet.
    pub first_state: PacketState,
    /// The largest counted packet: number, send time, state.
    pub largest: Option<(u64, Instant, PacketState)>,
    /// The latest question for a starting rate among the lost packets. Questions are not
    /// counted above, except in `packets`.
    pub question: Option<u64>,
    /// Whether persistent congestion is established (RFC 9002 §7.6.2).
    pub persistent_congestion: bool,
}

impl Newly {
    fn count<F>(&mut self, number: u64, packet: &SentPacket<F>) {
        self.packets += 1;
        self.ack_eliciting |= packet.ack_eliciting;
        if packet.is_off_path() {
            return;
        }
        match packet.ecn {
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::NotEct | Ecn::Ce => {}
        }
        if packet.in_flight {
            self.counted += 1;
            self.bytes += u64::from(packet.size);
            if self.largest.is_none_or(|(largest, ..)| largest < number) {
                self.largest = Some((number, packet.sent_at, packet.state));
            }
        }
    }
}
