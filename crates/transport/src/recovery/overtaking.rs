//! Which acknowledged packets show that an earlier one with a shim is lost.
//!
//! Ports that obey shims may keep what carries them in a queue of its own, where a packet without
//! one, such as a mere ACK, overtakes it. As long as most packets bear shims, only those tell of
//! the loss of one. Where most bear none, what overtakes is the flow itself, and waiting for a shim
//! would hold up the recovery of all that was lost behind.
//!
//! A question for a starting rate may be in another queue than either, and tells of nothing.

use super::{Probe, SentPacket};

/// After this many packets in a row with data but without a shim, shims count as few.
const FEW_SHIMS: u32 = 16;

/// What was acknowledged, with shims and without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overtaking {
    largest: Option<u64>,
    largest_shim: Option<u64>,
    /// Ack-eliciting packets without a shim acknowledged since one with.
    bare: u32,
}

impl Overtaking {
    /// The largest acknowledged packet other than questions.
    #[inline]
    pub(super) const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// `number`, which is not a question's, was acknowledged.
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

    /// The largest acknowledged packet that counts against an earlier one, with a shim or without.
    #[inline]
    pub(super) fn against(&self, shim: bool) -> Option<u64> {
        if shim && self.bare < FEW_SHIMS {
            self.largest_shim
        } else {
            self.largest
        }
    }
}
