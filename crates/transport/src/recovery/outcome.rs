//! What became of packets: by one ACK frame, and by one pass that looks for losses.

use pathmark_cc::PacketState;

use super::SentPacket;
use crate::{Ecn, Instant};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Acked,
    /// It did not, as far as one can tell; what it carried has to be sent again if still wanted.
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

/// What one ACK frame newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Newly {
    /// Packets, of any sort.
    pub packets: u64,
    /// Packets that count for congestion control: in flight, on the current path.
    pub counted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest of those: number, send time, state.
    pub largest: Option<(u64, Instant, PacketState)>,
    /// Some asked for an acknowledgement.
    pub ack_eliciting: bool,
    /// Send time of the frame's largest packet, if that is newly acknowledged and was sent on this
    /// path.
    pub largest_sent_at: Option<Instant>,
    /// The frame raises the largest acknowledged number (only then ECN counts are judged, RFC 9000
    /// §13.4.2.1).
    pub advanced: bool,
    /// Packets of the current path sent with ECT(0).
    pub ect0: u64,
    /// Packets of the current path sent with ECT(1).
    pub ect1: u64,
    /// Packets that had been declared lost.
    pub spurious: u64,
    /// With those, every loss of the last loss event has been acknowledged after all.
    pub event_undone: bool,
}

/// What one pass declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewlyLost {
    /// Packets, of any sort.
    pub packets: u64,
    /// Packets that count for congestion control: in flight, on the current path, no MTU probes.
    pub counted: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ranges of numbers in a row that they are of.
    pub ranges: u64,
    /// State of the smallest of those packets.
    pub first_state: PacketState,
    /// The largest of those: number, send time, state.
    pub largest: Option<(u64, Instant, PacketState)>,
    /// The latest question for a starting rate among them, if any is. No question counts above.
    pub question: Option<u64>,
    /// Persistent congestion is established (RFC 9002 §7.6.2).
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
