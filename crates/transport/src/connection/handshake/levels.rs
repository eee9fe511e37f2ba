//! CRYPTO streams of the three encryption levels, which are sent and received in frames (RFC 9000
//! §19.6).

use std::ops::Range;

use crate::streams::Reassembly;
use crate::wire::frame::types;
use crate::wire::{SpaceId, Writer};

/// Number of the client's packets for which a flight is repeated before a probe timeout, because
/// RFC 9002 §6.2.3 requires a bound. These are the probes of four timeouts.
const REPEATS: u8 = 8;

/// A level with both directions of its CRYPTO stream.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) send: CryptoSend,
    pub(super) receive: Reassembly,
    /// Whether the level was discarded, so that nothing more is sent or read.
    pub(super) discarded: bool,
}

/// CRYPTO streams of the three levels.
#[derive(Debug)]
pub(in crate::connection) struct CryptoLevels {
    levels: [Level; 3],
    /// Number of times that a flight may still be repeated before a probe timeout.
    repeats: u8,
}

impl Default for CryptoLevels {
    fn default() -> Self {
        Self {
            levels: Default::default(),
            repeats: REPEATS,
        }
    }
}

impl CryptoLevels {
    pub(super) fn level(&mut self, space: SpaceId) -> &mut Level {
        let [initial, handshake, data] = &mut self.levels;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    /// Returns true if CRYPTO data of this level is due.
    pub(in crate::connection) fn can_send(&self, space: SpaceId) -> bool {
        let [initial, handshake, data] = &self.levels;
        match space {
            SpaceId::Initial => initial.send.can_send(),
            SpaceId::Handshake => handshake.send.can_send(),
            SpaceId::Data => data.send.can_send(),
        }
    }

    /// Writes one CRYPTO frame with as much data as fits. Returns the range of the stream in it.
    pub(in crate::connection) fn write_frame(
        &mut self,
        space: SpaceId,
        w: &mut Writer<'_>,
    ) -> Option<Range<u64>> {
        // Type, offset and length take at most 1 + 8 + 2 bytes.
        let room = w.remaining().checked_sub(11).filter(|&room| room >= 16)?;
        let send = &mut self.level(space).send;
        let range = send.poll(room)?;
        let bytes = send.bytes(&range);
        let written = w.all_or_nothing(|w| {
            w.put_varint(types::CRYPTO)?;
            w.put_varint(range.start)?;
            w.put_varint(bytes.len() as u64)?;
            w.put_slice(bytes)
        });
        match written {
            Ok(()) => Some(range),
            Err(_) => {
                send.on_loss(range);
                None
            }
        }
    }

    pub(in crate::connection) fn on_ack(&mut self, space: SpaceId, range: Range<u64>) {
        self.level(space).send.on_ack(range);
    }

    pub(in crate::connection) fn on_loss(&mut self, space: SpaceId, range: Range<u64>) {
        let level = self.level(space);
        if !level.discarded {
            // [9001 4 retransmit-same-keys]
            level.send.on_loss(range);
        }
    }

    /// Returns true while a flight may be repeated before a probe timeout.
    pub(in crate::connection) const fn may_repeat(&self) -> bool {
        self.repeats > 0
    }

    /// Records that a flight was repeated, at least in part.
    pub(in crate::connection) const fn on_repeated(&mut self) {
        self.repeats = self.repeats.saturating_sub(1);
    }

    /// Repeats this range, which may be lost, after data that hasn't been sent yet. Returns false
    /// if it is already due or acknowledged.
    pub(in crate::connection) fn repeat(&mut self, space: SpaceId, range: Range<u64>) -> bool {
        let level = self.level(space);
        !level.discarded && level.send.repeat(range)
    }

    /// Makes all unacknowledged data due again.
    pub(in crate::connection) fn resend(&mut self, space: SpaceId) {
        self.level(space).send.resend();
    }

    /// Discards the level, so that none of its data is sent or read anymore.
    pub(in crate::connection) fn discard(&mut self, space: SpaceId) {
        *self.level(space) = Level {
            discarded: true,
            ..Level::default()
        };
    }
}

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

    #[test]
    fn a_level_without_keys_sends_nothing_again() {
        let mut levels = CryptoLevels::default();
        levels.level(SpaceId::Initial).send.write(&[7; 30]);
        let frame = |levels: &mut CryptoLevels, space| {
            let mut room = [0; 100];
            levels.write_frame(space, &mut Writer::new(&mut room))
        };
        assert!(levels.can_send(SpaceId::Initial) && !levels.can_send(SpaceId::Handshake));
        assert_eq!(frame(&mut levels, SpaceId::Handshake), None);
        assert_eq!(frame(&mut levels, SpaceId::Initial), Some(0..30));
        levels.on_loss(SpaceId::Initial, 0..30);
        assert_eq!(frame(&mut levels, SpaceId::Initial), Some(0..30));
        levels.discard(SpaceId::Initial);
        levels.on_loss(SpaceId::Initial, 0..30);
        assert!(!levels.repeat(SpaceId::Initial, 0..30));
        assert_eq!(frame(&mut levels, SpaceId::Initial), None);
        assert!(!levels.can_send(SpaceId::Initial));
    }

    #[test]
    fn a_retry_repeats_all_and_an_acknowledgement_ends_that() {
        let mut levels = CryptoLevels::default();
        levels.level(SpaceId::Initial).send.write(&[7; 30]);
        let mut room = [0; 100];
        let mut frame = |levels: &mut CryptoLevels| {
            levels.write_frame(SpaceId::Initial, &mut Writer::new(&mut room))
        };
        assert_eq!(frame(&mut levels), Some(0..30));
        assert_eq!(frame(&mut levels), None);
        levels.resend(SpaceId::Initial);
        assert_eq!(frame(&mut levels), Some(0..30));
        assert!(levels.repeat(SpaceId::Initial, 0..30));
        assert!(!levels.repeat(SpaceId::Initial, 0..30), "it is due");
        assert_eq!(frame(&mut levels), Some(0..30));
        levels.on_ack(SpaceId::Initial, 0..30);
        levels.resend(SpaceId::Initial);
        assert_eq!(frame(&mut levels), None);
        assert!(!levels.repeat(SpaceId::Initial, 0..30));
    }

    /// RFC 9002 §6.2.3: packets sent before a probe timeout are limited, here to those of four
    /// timeouts.
    #[test]
    fn flights_are_repeated_a_few_times() {
        let mut levels = CryptoLevels::default();
        for _ in 0..8 {
            assert!(levels.may_repeat());
            levels.on_repeated();
        }
        assert!(!levels.may_repeat());
        levels.on_repeated();
        assert!(!levels.may_repeat());
    }

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
