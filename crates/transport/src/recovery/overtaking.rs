//! Decides which acknowledged packets are evidence that an earlier packet is lost.
//!
//! Ports that process shims may keep packets with a shim in a separate queue, where packets
//! without a shim, such as pure ACKs, overtake them. Therefore, while most packets carry a shim,
//! only their acknowledgements are evidence that another packet is lost. If most packets don't
//! carry a shim, the flow itself overtakes, and waiting for a shim would delay the recovery of
//! everything lost after it.
//!
//! A question for a starting rate may be in a third queue, so it is not evidence of any loss.

use super::{Probe, SentPacket};

/// After this many consecutive ack-eliciting packets without a shim, shims are considered rare.
const FEW_SHIMS: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overtaking {
    largest: Option<u64>,
    largest_shim: Option<u64>,
    /// Ack-eliciting packets without a shim acknowledged since the last one with a shim.
    bare: u32,
}

impl Overtaking {
    /// Returns the largest acknowledged packet, except questions.
    #[inline]
    pub(super) const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Records that `number`, which is not a question, was acknowledged.
    #[inline]
    pub(super) fn raise(&mut self, number: u64) {
        self.largest = self.largest.max(Some(number));
    }

    #[inline]
    pub(super) fn on_acked<F>(&mut self, number: u64, packet: &SentPacket<F>) {
        if packet.probe == Probe::Question {
            return;
        }
        self.raise(number);
        if packet.shim {
            self.largest_shim = self.largest_shim.max(Some(number));
            self.bare = 0;
        } else if packet.ack_eliciting {
            self.bare = self.bare.saturating_add(1);
        }
    }

    /// Returns the largest acknowledged packet that is evidence against an earlier one with or
    /// without a `shim`.
    #[inline]
    pub(super) fn against(&self, shim: bool) -> Option<u64> {
        if shim && self.bare < FEW_SHIMS {
            self.largest_shim
        } else {
            self.largest
        }
    }
}
