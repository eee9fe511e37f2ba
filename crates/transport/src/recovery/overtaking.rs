//! Which acknowledged packets say that an earlier one with a shim is lost.
//!
//! Ports that obey shims may keep what carries them in a queue of its own, where a packet without
//! one, such as a mere ACK, overtakes it. As long as most packets bear shims, only those tell of
//! the loss of one. Where most bear none, what overtakes is the flow itself, and waiting for a shim
//! would hold up the recovery of all that was lost behind.

use super::SentPacket;

/// So many packets with data but without a shim in a row, and few bear shims.
const FEW_SHIMS: u32 = 16;

/// What was acknowledged, with shims and without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overtaking {
    largest_shim: Option<u64>,
    /// Ack-eliciting packets without a shim acknowledged since one with.
    bare: u32,
}

impl Overtaking {
    #[inline]
    pub(super) fn on_acked<F>(&mut self, number: u64, packet: &SentPacket<F>) {
        if packet.shim {
            self.largest_shim = self.largest_shim.max(Some(number));
            self.bare = 0;
        } else if packet.ack_eliciting {
            self.bare = self.bare.saturating_add(1);
        }
    }

    /// The largest acknowledged packet that counts against an earlier one with a shim, where
    /// `largest` is that of all.
    #[inline]
    pub(super) fn against_shims(&self, largest: u64) -> Option<u64> {
        if self.bare < FEW_SHIMS {
            self.largest_shim
        } else {
            Some(largest)
        }
    }
}
