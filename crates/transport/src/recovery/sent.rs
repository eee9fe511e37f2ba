//! Packets sent and neither acknowledged nor lost yet, by packet number.

use std::collections::VecDeque;

use pathmark_cc::PacketState;

use crate::{Ecn, Instant};

/// What a packet is to find out about the path. The loss of one that is to find out anything says
/// nothing about congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Nothing.
    #[default]
    Nothing,
    /// Whether larger datagrams pass (RFC 9000 §14.4).
    Mtu,
    /// Whether a path that swallowed shims lets them pass now.
    Shim,
}

/// One sent packet. `F` is what it carried: a small value without heap, of the caller's choice.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket<F> {
    /// When it left.
    pub sent_at: Instant,
    /// What the congestion controller keeps with it.
    pub state: PacketState,
    /// Bytes that count towards bytes in flight, shim included.
    pub size: u16,
    /// It asks for an acknowledgement (RFC 9002 §2).
    pub ack_eliciting: bool,
    /// It counts towards bytes in flight (RFC 9002 §2). False for ACK-only packets.
    pub in_flight: bool,
    /// A shim stood in front of it.
    pub shim: bool,
    /// What it is to find out.
    pub probe: Probe,
    /// It went over another path than the current one: neither RTT nor congestion follow from it.
    pub off_path: bool,
    /// The ECN field it left with.
    pub ecn: Ecn,
    /// What it carried.
    pub frames: F,
}

/// A ring of sent packets, indexed by packet number.
///
/// Spans from the oldest packet that is still unresolved to the newest sent; numbers in between
/// that are resolved or were never used are empty slots. Lookup, insertion and removal are O(1)
/// (amortised).
#[derive(Debug)]
pub struct SentPackets<F> {
    /// Packet number of the front slot.
    base: u64,
    ring: VecDeque<Option<SentPacket<F>>>,
    bytes_in_flight: u64,
    ack_eliciting: u64,
    /// Longest the ring was since it was last empty, to give memory back after a burst.
    peak: usize,
    /// Packet numbers deliberately left out, newest last, so that acknowledging one is caught.
    skipped: VecDeque<(u64, u64)>,
}

/// Packets that ask for no acknowledgement are forgotten first when they alone lengthen the ring
/// beyond this: a mere receiver sends ACKs for hours that nobody acknowledges.
const MAX_UNELICITING: usize = 1024;
/// Ring capacity that is never worth giving back.
const KEPT_CAPACITY: usize = 64;
/// Skipped numbers remembered. A peer that acknowledges what it did not receive meets one soon
/// enough.
const MAX_SKIPPED: usize = 4;

impl<F> Default for SentPackets<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> SentPackets<F> {
    /// Nothing sent yet; the first packet may have any number.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            base: 0,
            ring: VecDeque::new(),
            bytes_in_flight: 0,
            ack_eliciting: 0,
            peak: 0,
            skipped: VecDeque::new(),
        }
    }

    /// The number after the largest sent.
    #[must_use]
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// The least number that may still be unresolved.
    #[must_use]
    #[inline]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Bytes in flight on the current path.
    #[must_use]
    #[inline]
    pub const fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Unresolved packets that ask for an acknowledgement.
    #[must_use]
    #[inline]
    pub const fn ack_eliciting(&self) -> u64 {
        self.ack_eliciting
    }

    /// Slots held, empty ones included: what memory follows.
    #[must_use]
    pub fn span(&self) -> usize {
        self.ring.len()
    }

    /// Records packet `number`, which must be at least [`next_number`](Self::next_number); numbers
    /// left out count as never sent. False, and nothing recorded, if it is not.
    #[inline]
    pub fn insert(&mut self, number: u64, packet: SentPacket<F>) -> bool {
        let next = self.next_number();
        if number != next && !self.skip(next, number) {
            return false;
        }
        if packet.in_flight {
            self.bytes_in_flight += u64::from(packet.size);
        }
        self.ack_eliciting += u64::from(packet.ack_eliciting);
        self.ring.push_back(Some(packet));
        if self.ring.len() > MAX_UNELICITING {
            self.forget_uneliciting();
        }
        self.peak = self.peak.max(self.ring.len());
        true
    }

    fn skip(&mut self, next: u64, number: u64) -> bool {
        if number < next {
            return false;
        }
        if self.skipped.len() == MAX_SKIPPED {
            self.skipped.pop_front();
        }
        self.skipped.push_back((next, number - 1));
        if self.ring.is_empty() {
            self.base = number;
        } else {
            self.ring.extend((next..number).map(|_| None));
        }
        true
    }

    /// True if `first..=last` holds a number known never to have been sent.
    #[must_use]
    #[inline]
    pub fn never_sent(&self, first: u64, last: u64) -> bool {
        last >= self.next_number()
            || self
                .skipped
                .iter()
                .any(|&(from, to)| first <= to && last >= from)
    }

    /// Packet `number`, if unresolved.
    #[must_use]
    #[inline]
    pub fn get(&self, number: u64) -> Option<&SentPacket<F>> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.ring.get(index)?.as_ref()
    }

    /// Takes packet `number` out.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<SentPacket<F>> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let packet = self.ring.get_mut(index)?.take()?;
        self.uncount(&packet);
        if index == 0 {
            self.trim();
        }
        Some(packet)
    }

    #[inline]
    fn uncount(&mut self, packet: &SentPacket<F>) {
        if packet.in_flight {
            self.bytes_in_flight -= u64::from(packet.size);
        }
        self.ack_eliciting -= u64::from(packet.ack_eliciting);
    }

    /// Unresolved packets from the oldest on, for probes that repeat what is missing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &SentPacket<F>)> {
        self.ring
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((self.base + index as u64, slot.as_ref()?)))
    }

    /// Takes everything out, oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(u64, SentPacket<F>)) {
        while let Some(slot) = self.ring.pop_front() {
            let number = self.base;
            self.base += 1;
            if let Some(packet) = slot {
                self.uncount(&packet);
                each(number, packet);
            }
        }
        self.shrink();
    }

    /// The connection leaves the path: what is unresolved no longer counts towards bytes in flight.
    pub fn leave_path(&mut self) {
        for packet in self.ring.iter_mut().flatten() {
            packet.in_flight = false;
            packet.off_path = true;
        }
        self.bytes_in_flight = 0;
    }

    /// Drops resolved slots at the front.
    fn trim(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        if self.ring.is_empty() {
            self.shrink();
        }
    }

    #[cold]
    fn forget_uneliciting(&mut self) {
        while self.ring.len() > MAX_UNELICITING
            && self
                .ring
                .front()
                .is_some_and(|slot| slot.as_ref().is_none_or(|p| !p.ack_eliciting))
        {
            if let Some(Some(packet)) = self.ring.pop_front() {
                self.uncount(&packet);
            }
            self.base += 1;
        }
    }

    /// Gives memory back if recent bursts needed far less: hysteresis keeps steady flows from
    /// allocating.
    fn shrink(&mut self) {
        let wanted = (self.peak * 2).max(KEPT_CAPACITY);
        if self.ring.capacity() > wanted * 2 {
            self.ring.shrink_to(wanted);
        }
        self.peak = 0;
    }
}

#[cfg(test)]
pub(super) const fn packet<F>(sent_at: Instant, size: u16, frames: F) -> SentPacket<F> {
    SentPacket {
        sent_at,
        state: PacketState(0),
        size,
        ack_eliciting: true,
        in_flight: true,
        shim: false,
        probe: Probe::Nothing,
        off_path: false,
        ecn: Ecn::NotEct,
        frames,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_gaps_but_never_fall() {
        let mut sent = SentPackets::new();
        assert!(sent.insert(5, packet(Instant::ZERO, 100, 'a')));
        assert!(sent.insert(6, packet(Instant::ZERO, 100, 'b')));
        assert!(sent.insert(9, packet(Instant::ZERO, 100, 'c')));
        assert!(!sent.insert(9, packet(Instant::ZERO, 100, 'd')));
        assert_eq!((sent.next_number(), sent.bytes_in_flight()), (10, 300));
        assert_eq!(sent.span(), 5);
        assert!(sent.get(7).is_none() && sent.get(4).is_none() && sent.get(10).is_none());
        assert!(sent.never_sent(0, 4) && sent.never_sent(8, 8) && sent.never_sent(9, 10));
        assert!(!sent.never_sent(5, 6) && !sent.never_sent(9, 9));
        assert_eq!(sent.remove(6).map(|p| p.frames), Some('b'));
        assert!(sent.remove(6).is_none());
        assert_eq!(sent.remove(5).map(|p| p.frames), Some('a'));
        assert_eq!((sent.base(), sent.span()), (9, 1));
        assert_eq!(sent.remove(9).map(|p| p.frames), Some('c'));
        assert_eq!((sent.next_number(), sent.bytes_in_flight()), (10, 0));
    }

    #[test]
    fn acks_that_nobody_acknowledges_stay_bounded() {
        let mut sent = SentPackets::new();
        for n in 0..100_000 {
            let mut p = packet(Instant::ZERO, 40, ());
            p.ack_eliciting = n % 1000 == 0;
            p.in_flight = p.ack_eliciting;
            assert!(sent.insert(n, p));
            if n % 1000 == 500 {
                sent.remove(n - 500);
            }
        }
        assert!(sent.span() <= MAX_UNELICITING, "{}", sent.span());
        assert_eq!(sent.ack_eliciting(), 0);
    }

    #[test]
    fn memory_comes_back_after_a_burst() {
        let mut sent = SentPackets::new();
        for round in 0..3u64 {
            let burst = if round == 0 { 10_000 } else { 10 };
            let from = sent.next_number();
            for n in from..from + burst {
                assert!(sent.insert(n, packet(Instant::ZERO, 1200, ())));
            }
            for n in from..from + burst {
                assert!(sent.remove(n).is_some());
            }
        }
        assert!(sent.ring.capacity() <= 4 * KEPT_CAPACITY);
    }

    #[test]
    fn leaving_a_path_empties_its_flight_but_forgets_nothing() {
        let mut sent = SentPackets::new();
        sent.insert(0, packet(Instant::ZERO, 1200, ()));
        sent.leave_path();
        sent.insert(1, packet(Instant::ZERO, 700, ()));
        assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (700, 2));
        assert!(sent.remove(0).is_some_and(|p| p.off_path));
        assert_eq!(sent.bytes_in_flight(), 700);
        let mut left = Vec::new();
        sent.drain(|n, _| left.push(n));
        assert_eq!((left, sent.bytes_in_flight()), (vec![1], 0));
    }
}
