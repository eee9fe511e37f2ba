//! Sends data in two packets once it was lost in a retransmission.
//!
//! If a share p of the packets is lost at random, the last of n packets arrives after log n /
//! log (1/p) round trips: after nine for 80,000 packets at 30 % loss. Until then, the receiver
//! must hold back all data that follows. With two packets for data that was lost twice, each
//! round trip leaves only a share of p² lost. This costs p²/(1 − p²) of the bytes, that is, 10 %
//! more at 30 % loss and 0.25 % at 5 %, limited to an eighth plus one packet.
//!
//! The second packet is sent after everything else that waits to be sent again. Data counts as
//! lost once both packets are lost.

use core::ops::Range;

use super::ranges::RangeSet;

/// Data is sent twice only up to this fraction of the bytes that a stream has sent.
const SHARE: u64 = 8;

/// Data of a stream that is sent in two packets. All sets contain only unacknowledged bytes.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Lost again and not sent since.
    due: RangeSet,
    /// Sent since, and must be sent once more.
    second: RangeSet,
    /// In flight in two packets.
    both: RangeSet,
    bytes: u64,
}

impl Repeats {
    /// Records the loss of a packet in which `range` was retransmitted.
    pub(super) fn on_lost_again(&mut self, range: Range<u64>) {
        self.due.insert(range);
    }

    /// Returns the first part of `range` that is still in flight in another packet, and removes
    /// it, because only that packet is left.
    pub(super) fn take_spared(&mut self, range: Range<u64>) -> Option<Range<u64>> {
        let part = self.both.overlaps(range).next()?;
        self.both.remove(part.clone());
        self.due.remove(part.clone());
        Some(part)
    }

    /// Records that lost bytes of `range` are sent, on a stream that has sent `sent` bytes.
    pub(super) fn on_sent(&mut self, range: &Range<u64>, sent: u64) {
        loop {
            let Some(part) = self.due.overlaps(range.clone()).next() else {
                return;
            };
            self.due.remove(part.clone());
            if self.bytes < sent / SHARE {
                self.bytes += part.end - part.start;
                self.second.insert(part);
            }
        }
    }

    /// Returns the lowest bytes that must be sent once more.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.second.first()
    }

    pub(super) fn take(&mut self, max: u64) -> Option<Range<u64>> {
        let range = self.second.pop_front(max)?;
        self.both.insert(range.clone());
        Some(range)
    }

    /// Removes bytes whose copies in flight no longer matter, or that were acknowledged.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        for set in [&mut self.due, &mut self.second, &mut self.both] {
            set.remove(range.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::streams::send_buffer::SendBuffer;

    /// 8000 bytes, sent in eight packets, of which the first was lost `times` times.
    fn lost(times: u32) -> SendBuffer {
        let mut buffer = SendBuffer::default();
        buffer.write(&[7; 8000]);
        assert_eq!(buffer.take_unsent(8000), Some(0..8000));
        buffer.on_lost(0..1000);
        for _ in 1..times {
            assert_eq!(buffer.take_lost(1000), Some(0..1000));
            assert!(!buffer.has_lost());
            buffer.on_lost_again(0..1000);
        }
        buffer
    }

    #[test]
    fn what_was_lost_twice_goes_in_two_packets() {
        let mut buffer = lost(2);
        buffer.on_lost(3000..4000);
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
        // Other lost data is sent between the two packets.
        assert_eq!(buffer.take_lost(1000), Some(3000..4000));
        assert_eq!(buffer.first_lost(), Some(0..1000));
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
        assert!(!buffer.has_lost());
        // One of the two packets may be lost.
        buffer.on_lost_again(0..1000);
        assert!(!buffer.has_lost());
        buffer.on_lost_again(0..1000);
        assert_eq!(buffer.first_lost(), Some(0..1000));
    }

    #[test]
    fn what_arrives_is_not_sent_once_more() {
        let mut buffer = lost(2);
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
        assert_eq!(buffer.first_lost(), Some(0..1000));
        assert_eq!(buffer.on_acked(0..600), 600);
        assert_eq!(buffer.take_lost(1000), Some(600..1000));
        assert_eq!(buffer.on_acked(0..1000), 400);
        // The loss of the second packet has no effect.
        buffer.on_lost_again(600..1000);
        assert!(!buffer.has_lost());
    }

    #[test]
    fn beyond_an_eighth_of_what_was_sent_nothing_goes_twice() {
        let mut buffer = lost(2);
        for _ in 0..2 {
            assert_eq!(buffer.take_lost(1000), Some(0..1000));
        }
        for again in [0..1000, 0..1000] {
            buffer.on_lost_again(again);
        }
        assert_eq!(buffer.take_lost(1000), Some(0..1000));
        assert!(!buffer.has_lost());
    }

    /// Like a probe.
    #[test]
    fn what_is_repeated_is_lost_whatever_is_on_its_way() {
        let mut buffer = lost(2);
        for _ in 0..2 {
            assert_eq!(buffer.take_lost(1000), Some(0..1000));
        }
        buffer.on_forgotten(0..1000);
        assert_eq!(buffer.first_lost(), Some(0..1000));
    }
}
