//! Packets received in one packet number space, and their acknowledgement.

use crate::ack::{AckDelay, ReceivedRanges};
use crate::path::EcnReceived;
use crate::wire::frame::{AckFrequency, ack};
use crate::wire::{SpaceId, Writer};
use crate::{Duration, Ecn, Instant};

/// Ranges that every ACK frame may contain, if its size allows.
const RANGES: usize = 64;
/// Minimum number of times that a range is reported, even if there are more than [`RANGES`].
const REPEATS: usize = 4;
/// ACK frames take at most one byte per this many bytes received.
const SHARE: usize = 4;
/// Bytes that an ACK frame may take in any case, which is enough for one range with every field at
/// its maximum size (RFC 9000 §19.3): seven fields of 8 bytes, the type, and the count of ranges.
const LEAST: usize = 7 * 8 + 2;
/// Overhead of an ACK that is sent by itself: IP, UDP and QUIC headers, and the tag.
const OVERHEAD: usize = 64;
/// Maximum number of bytes for ACKs that can be saved up.
const MAX_CREDIT: usize = 1 << 16;

/// Minimum number of ranges of packet numbers that are kept, 4 KiB.
const FEWEST: usize = 256;
/// Maximum number of ranges that are kept, 64 KiB, for the gaps in a window of a long, lossy path.
const MOST: usize = 4096;
/// Size of a range, in bytes.
const RANGE: usize = size_of::<(u64, u64)>();

/// The receiving half of a packet number space.
#[derive(Debug)]
pub(super) struct Received {
    ranges: ReceivedRanges,
    delay: AckDelay,
    ecn: EcnReceived,
    /// Ranges that began since the last ACK frame.
    begun: usize,
    /// Bytes that ACKs may currently take.
    credit: usize,
    /// Whether to limit ACKs to their share. This is true for the Data space, whose number of
    /// packets is unlimited.
    bounded: bool,
    /// Maximum number of ranges in an ACK frame.
    max_ranges: usize,
    postponed: u64,
}

impl Received {
    /// Creates an empty state. `max_ranges` limits the ranges in an ACK frame of 1-RTT packets.
    pub(super) fn new(space: SpaceId, max_ack_delay: Duration, max_ranges: Option<usize>) -> Self {
        let delay = match space {
            SpaceId::Initial | SpaceId::Handshake => AckDelay::immediate(),
            SpaceId::Data => AckDelay::new(max_ack_delay),
        };
        Self {
            ranges: ReceivedRanges::new(FEWEST),
            delay,
            ecn: EcnReceived::default(),
            begun: 0,
            credit: MAX_CREDIT / 16,
            bounded: space == SpaceId::Data,
            max_ranges: match space {
                SpaceId::Data => max_ranges.map_or(usize::MAX, |most| most.max(1)),
                SpaceId::Initial | SpaceId::Handshake => usize::MAX,
            },
            postponed: 0,
        }
    }

    /// Returns true if an ACK is due.
    pub(super) fn due(&self, now: Instant) -> bool {
        self.delay.due(now)
    }

    /// Returns when an ACK is due.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.delay.deadline()
    }

    /// Changes how often ACKs are sent, at the peer's request.
    pub(super) fn on_ack_frequency(&mut self, now: Instant, frame: &AckFrequency) {
        self.delay.on_ack_frequency(now, frame);
    }

    /// Returns one more than the largest number decrypted, which is used to expand packet numbers.
    pub(super) fn expected(&self) -> u64 {
        self.ranges.largest().map_or(0, |largest| largest + 1)
    }

    pub(super) fn is_duplicate(&self, number: u64) -> bool {
        self.ranges.contains(number)
    }

    /// Returns true if no packet with a larger number was decrypted before.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        number >= self.expected()
    }

    /// Records a packet after it was decrypted for the first time and processed. If it is the first
    /// of its datagram, `bytes` is the size of this datagram, otherwise 0.
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
            self.keep_proportion(now, due);
        }
    }

    /// Processes an IMMEDIATE_ACK frame in the packet recorded last. The limit on the bytes of ACKs
    /// also applies to requested ACKs.
    pub(super) fn on_immediate_ack(&mut self, now: Instant) {
        let due = self.delay.deadline();
        self.delay.on_immediate_ack(now);
        self.keep_proportion(now, due);
    }

    /// Returns true if an ACK would contain news for the peer.
    pub(super) fn has_news(&self) -> bool {
        self.delay.news()
    }

    /// Postpones an ACK that became due if ACKs would otherwise take more than their share. `due`
    /// is when one was due before.
    fn keep_proportion(&mut self, now: Instant, due: Option<Instant>) {
        let news = self.delay.due(now) && due.is_none_or(|at| at > now);
        if self.bounded && news && self.credit < LEAST + OVERHEAD {
            self.postponed += 1;
            self.delay.postpone(now, due);
        }
    }

    /// Returns how often an ACK was postponed, because ACKs would have taken more than their share
    /// of the bytes received.
    pub(super) const fn postponed(&self) -> u64 {
        self.postponed
    }

    /// Returns the number of ranges for which there should be room, if this differs from the
    /// current number.
    pub(super) fn wanted_ranges(&self) -> Option<usize> {
        let (held, limit) = (self.ranges.len(), self.ranges.limit());
        if held >= limit && limit < MOST {
            Some(2 * limit)
        } else if limit > FEWEST && held < limit / 8 {
            Some(limit / 2)
        } else {
            None
        }
    }

    /// Returns the number of ranges for which there's room.
    pub(super) const fn room_for_ranges(&self) -> usize {
        self.ranges.limit()
    }

    /// Makes room for `limit` ranges. Returns the bytes that the ranges took before, and take now.
    /// If more ranges exist, the oldest are dropped: their packets count as received, and no later
    /// ACK contains them.
    pub(super) fn set_ranges(&mut self, limit: usize) -> (usize, usize) {
        let before = self.ranges.limit();
        self.ranges.set_limit(limit);
        (before * RANGE, limit * RANGE)
    }

    /// Processes the acknowledgement of a packet whose ACK frame reported numbers up to `number`.
    pub(super) fn on_ack_acked(&mut self, number: u64) {
        self.ranges.prune(number);
    }

    /// Writes an ACK frame of at most `limit` bytes, within the share of bytes received. Returns
    /// the largest number in it, or `None` if there's nothing to report, or no room.
    pub(super) fn write_ack(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        delay_exponent: u8,
        limit: usize,
    ) -> Option<u64> {
        let largest = self.ranges.largest()?;
        let held = u64::try_from(self.delay.held(now).as_micros()).unwrap_or(u64::MAX >> 2);
        // [9000 13.4.1 marks-reported]
        let ecn = self.ecn.counts();
        let delay = held >> delay_exponent;
        let (most, limit) = if self.bounded {
            let fair = self.credit.saturating_sub(OVERHEAD).max(LEAST);
            (RANGES.max(REPEATS * self.begun), limit.min(fair))
        } else {
            (usize::MAX, limit)
        };
        let start = w.position();
        // If the peer is aware of all packets that arrived, the largest shows that this side is
        // alive.
        let last = self.ranges.is_empty().then_some(largest..=largest);
        let most = most.min(self.max_ranges);
        let ranges = self.ranges.descending().take(most).chain(last);
        ack::encode(w, ranges, delay, ecn, limit).ok()?;
        let written = w.position() - start;
        self.credit = self.credit.saturating_sub(written + OVERHEAD);
        self.begun = 0;
        self.delay.on_ack_sent(largest);
        Some(largest)
    }
}

#[cfg(test)]
#[path = "received_tests.rs"]
mod tests;
