//! What arrived in one packet number space, and telling the peer so.

use crate::ack::{AckDelay, ReceivedRanges};
use crate::path::EcnReceived;
use crate::wire::frame::ack;
use crate::wire::{SpaceId, Writer};
use crate::{Duration, Ecn, Instant};

/// Ranges that every ACK frame may hold, if its size allows.
const RANGES: usize = 64;
/// Times that a range is reported at least, where there are more.
const REPEATS: usize = 4;
/// Of the bytes received, so many times as many are acknowledged for each that ACK frames take.
const SHARE: usize = 4;
/// Bytes that an ACK frame may take in any case: a few ranges.
const LEAST: usize = 32;
/// What an ACK takes besides, if it is sent alone: IP, UDP and QUIC headers and the tag.
const OVERHEAD: usize = 64;
/// Bytes for ACKs that can be saved up.
const MAX_CREDIT: usize = 1 << 16;

/// The receiving half of a packet number space.
#[derive(Debug)]
pub(super) struct Received {
    ranges: ReceivedRanges,
    pub(super) delay: AckDelay,
    ecn: EcnReceived,
    /// Ranges that began since the last ACK frame.
    begun: usize,
    /// Bytes that ACKs may take.
    credit: usize,
    /// True for the space in which the peer may go on for ever.
    bounded: bool,
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
            begun: 0,
            credit: MAX_CREDIT / 16,
            bounded: space == SpaceId::Data,
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

    /// A packet opened for the first time and was dealt with. `bytes`: those of its datagram, if it is the first of it.
    #[inline]
    pub(super) fn on_packet(
        &mut self,
        now: Instant,
        number: u64,
        ack_eliciting: bool,
        ecn: Ecn,
        bytes: usize,
    ) {
        let ranges = self.ranges.len();
        if self.ranges.insert(number) {
            self.begun += usize::from(self.ranges.len() > ranges);
            self.credit = (self.credit + bytes / SHARE).min(MAX_CREDIT);
            self.ecn.on_packet(ecn);
            let ce = ecn == Ecn::Ce;
            let due = self.delay.deadline();
            self.delay
                .on_packet(now, number, ack_eliciting, ce, &self.ranges);
            if self.bounded && self.credit < LEAST + OVERHEAD {
                self.delay.postpone(now, due);
            }
        }
    }

    /// The peer acknowledged a packet whose ACK frame went up to `number`.
    #[inline]
    pub(super) fn on_ack_acked(&mut self, number: u64) {
        self.ranges.prune(number);
    }

    /// Writes an ACK frame of at most `limit` bytes, and no more than a quarter of what was received warrants; the largest number in it. `None`: nothing to say, or
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
        let (most, limit) = if self.bounded {
            let fair = self.credit.saturating_sub(OVERHEAD).max(LEAST);
            (RANGES.max(REPEATS * self.begun), limit.min(fair))
        } else {
            (usize::MAX, limit)
        };
        let start = w.position();
        let ranges = self.ranges.descending().take(most);
        ack::encode(w, ranges, delay, ecn, limit).ok()?;
        let written = w.position() - start;
        self.credit = self.credit.saturating_sub(written + OVERHEAD);
        self.begun = 0;
        self.delay.on_ack_sent(largest);
        Some(largest)
    }
}
