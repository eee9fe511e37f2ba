//! What arrived in one packet number space, and telling the peer so.

use crate::ack::{AckDelay, ReceivedRanges};
use crate::path::EcnReceived;
use crate::wire::frame::ack;
use crate::wire::{SpaceId, Writer};
use crate::{Duration, Ecn, Instant};

/// The receiving half of a packet number space.
#[derive(Debug)]
pub(super) struct Received {
    ranges: ReceivedRanges,
    pub(super) delay: AckDelay,
    ecn: EcnReceived,
}

impl Received {
    pub(super) fn new(space: SpaceId, max_ack_delay: Duration) -> Self {
        let delay = match space {
            SpaceId::Initial | SpaceId::Handshake => AckDelay::immediate(),
            SpaceId::Data => AckDelay::new(max_ack_delay),
        };
        Self {
            ranges: ReceivedRanges::default(),
            delay,
            ecn: EcnReceived::default(),
        }
    }

    /// One more than the largest number opened: what packet numbers are expanded by.
    #[inline]
    pub(super) fn expected(&self) -> u64 {
        self.ranges.largest().map_or(0, |largest| largest + 1)
    }

    #[inline]
    pub(super) fn is_duplicate(&self, number: u64) -> bool {
        self.ranges.contains(number)
    }

    /// A packet opened for the first time and was dealt with.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Instant, number: u64, ack_eliciting: bool, ecn: Ecn) {
        if self.ranges.insert(number) {
            self.ecn.on_packet(ecn);
            let ce = ecn == Ecn::Ce;
            self.delay
                .on_packet(now, number, ack_eliciting, ce, &self.ranges);
        }
    }

    /// The peer acknowledged a packet whose ACK frame went up to `number`.
    #[inline]
    pub(super) fn on_ack_acked(&mut self, number: u64) {
        self.ranges.prune(number);
    }

    /// Writes an ACK frame of at most `limit` bytes; the largest number in it. `None`: nothing to say, or
    /// no room.
    #[inline]
    pub(super) fn write_ack(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        delay_exponent: u8,
        limit: usize,
    ) -> Option<u64> {
        let largest = self.ranges.largest()?;
        let held = u64::try_from(self.delay.held(now).as_micros()).unwrap_or(u64::MAX >> 2);
        let ecn = self.ecn.counts();
        let delay = held >> delay_exponent;
        ack::encode(w, self.ranges.descending(), delay, ecn, limit).ok()?;
        self.delay.on_ack_sent(largest);
        Some(largest)
    }
}
