//! The sending half of one encryption level's CRYPTO stream (RFC 9000 §19.6).

use std::ops::Range;

/// Handshake bytes to send, kept until they are acknowledged.
#[derive(Debug, Default)]
pub(super) struct CryptoSend {
    /// Bytes from offset `base` on.
    bytes: Vec<u8>,
    base: u64,
    /// Offset of the first byte that was never sent.
    unsent: u64,
    /// Ranges to send again, in no particular order.
    lost: Vec<Range<u64>>,
    /// Ranges to send again once there's nothing else to send.
    repeated: Vec<Range<u64>>,
    /// Acknowledged ranges above `base`, in no particular order.
    acked: Vec<Range<u64>>,
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

impl CryptoSend {
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns true if there's something to send.
    pub(super) fn can_send(&self) -> bool {
        !self.lost.is_empty() || self.unsent < self.end() || !self.repeated.is_empty()
    }

    /// Returns the next range to send, of at most `max` bytes: first lost data, then new data, then
    /// repeated data.
    pub(super) fn poll(&mut self, max: usize) -> Option<Range<u64>> {
        if max == 0 {
            return None;
        }
        let max = max as u64;
        if let Some(mut range) = self.lost.pop() {
            if range.end - range.start > max {
                let rest = range.start + max..range.end;
                range.end = rest.start;
                self.lost.push(rest);
            }
            return Some(range);
        }
        let range = self.unsent..self.end().min(self.unsent + max);
        self.unsent = range.end;
        if !range.is_empty() {
            return Some(range);
        }
        let first = self.repeated.first_mut()?;
        let range = first.start..first.end.min(first.start + max);
        first.start = range.end;
        if first.is_empty() {
            self.repeated.remove(0);
        }
        Some(range)
    }

    /// Returns the bytes of a range that was polled and not acknowledged since.
    pub(super) fn bytes(&self, range: &Range<u64>) -> &[u8] {
        let at = |offset: u64| offset.saturating_sub(self.base) as usize;
        let bytes = self.bytes.get(at(range.start)..at(range.end));
        bytes.unwrap_or(&[])
    }

    /// Processes the acknowledgement of a packet with this range.
    pub(super) fn on_ack(&mut self, range: Range<u64>) {
        self.acked.push(range);
        while let Some(i) = self.acked.iter().position(|acked| acked.start <= self.base) {
            let acked = self.acked.swap_remove(i);
            let n = acked.end.saturating_sub(self.base);
            let n = n.min(self.bytes.len() as u64);
            self.bytes.drain(..n as usize);
            self.base += n;
        }
        let base = self.base;
        for list in [&mut self.lost, &mut self.repeated] {
            list.retain_mut(|due| {
                due.start = due.start.max(base);
                !due.is_empty()
            });
        }
    }

    /// Processes the loss of a packet with this range.
    pub(super) fn on_loss(&mut self, range: Range<u64>) {
        let range = range.start.max(self.base)..range.end;
        let mut known = self.acked.iter().chain(&self.lost);
        if !range.is_empty() && !known.any(|other| covers(other, &range)) {
            self.repeated.retain(|other| !covers(&range, other));
            self.lost.push(range);
        }
    }

    /// Repeats a range that may be lost, after everything else. Returns false if it is already due
    /// or acknowledged.
    pub(super) fn repeat(&mut self, range: Range<u64>) -> bool {
        let range = range.start.max(self.base)..range.end;
        let mut known = self.acked.iter().chain(&self.lost).chain(&self.repeated);
        let is_new = !range.is_empty() && !known.any(|other| covers(other, &range));
        if is_new {
            self.repeated.push(range);
        }
        is_new
    }

    /// Makes everything that was sent and not acknowledged due again, after a Retry.
    pub(super) fn resend(&mut self) {
        self.lost.clear();
        self.repeated.clear();
        // [9000 17.2.5.3 same-hello]
        self.unsent = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(stream: &mut CryptoSend, max: usize) -> Vec<u8> {
        let range = stream.poll(max).unwrap();
        stream.bytes(&range).to_vec()
    }

    #[test]
    fn nothing_is_left_of_a_lost_range_that_just_fits() {
        let mut stream = CryptoSend::default();
        stream.write(b"hello");
        assert_eq!(sent(&mut stream, 5), b"hello");
        stream.on_loss(0..5);
        assert_eq!(sent(&mut stream, 5), b"hello");
        assert!(!stream.can_send());
    }

    #[test]
    fn lost_ranges_go_first_and_acknowledged_ones_never_again() {
        let mut stream = CryptoSend::default();
        stream.write(b"hello world");
        assert_eq!(sent(&mut stream, 5), b"hello");
        assert_eq!(sent(&mut stream, 100), b" world");
        assert!(!stream.can_send());
        stream.on_loss(0..5);
        assert_eq!(sent(&mut stream, 3), b"hel");
        stream.on_ack(5..11);
        assert!(!stream.bytes.is_empty());
        stream.on_loss(5..11);
        assert_eq!(sent(&mut stream, 100), b"lo");
        assert!(!stream.can_send());
        stream.on_ack(0..3);
        stream.on_ack(3..5);
        assert!(stream.bytes.is_empty());
        stream.on_loss(0..5);
        assert!(!stream.can_send());
    }

    #[test]
    fn what_may_be_lost_comes_behind_all_else_and_once() {
        let mut stream = CryptoSend::default();
        stream.write(b"hello world");
        assert_eq!(sent(&mut stream, 4), b"hell");
        assert_eq!(sent(&mut stream, 4), b"o wo");
        for is_new in [true, false] {
            assert_eq!(stream.repeat(0..4), is_new);
            assert_eq!(stream.repeat(4..8), is_new);
        }
        assert_eq!(sent(&mut stream, 100), b"rld");
        stream.on_loss(4..8);
        assert_eq!(sent(&mut stream, 100), b"o wo");
        assert_eq!(sent(&mut stream, 3), b"hel");
        assert_eq!(sent(&mut stream, 3), b"l");
        assert!(!stream.can_send());
        assert!(stream.repeat(0..4) && stream.repeat(4..8));
        stream.on_ack(0..5);
        assert_eq!(sent(&mut stream, 100), b" wo");
        stream.on_ack(5..11);
        assert!(!stream.repeat(4..8));
        assert!(!stream.can_send());
    }

    #[test]
    fn a_lost_packet_is_sent_again_whatever_else_arrived() {
        let mut stream = CryptoSend::default();
        stream.write(b"hello world");
        for part in [&b"hel"[..], b"lo ", b"world"] {
            assert_eq!(sent(&mut stream, part.len()), part);
        }
        stream.on_ack(3..6);
        stream.on_loss(6..11);
        assert_eq!(sent(&mut stream, 10), b"world");
        stream.on_loss(0..3);
        assert_eq!(sent(&mut stream, 10), b"hel");
        stream.on_ack(0..3);
        stream.on_ack(6..8);
        // The packet with the whole range is lost, but part of the range has arrived since.
        stream.on_loss(0..11);
        assert_eq!(sent(&mut stream, 10), b"rld");
        stream.on_loss(8..11);
        stream.on_ack(8..11);
        assert!(!stream.can_send() && stream.bytes.is_empty());
    }

    #[test]
    fn a_retry_starts_over() {
        // [9000 17.2.5.3 same-hello]
        let mut stream = CryptoSend::default();
        stream.write(b"client hello");
        assert_eq!(sent(&mut stream, 6), b"client");
        stream.resend();
        assert_eq!(sent(&mut stream, 100), b"client hello");
    }
}
