//! The fates of packets, as determined by an ACK frame or by a pass that detects losses.

use pathmark_cc::PacketState;

use super::SentPacket;
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
    #[inline]
    pub(super) fn count<F>(&mut self, number: u64, packet: &SentPacket<F>) {
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
