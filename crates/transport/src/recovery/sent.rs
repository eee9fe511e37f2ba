//! Packets sent and neither acknowledged nor lost yet, by packet number.

use std::collections::{BTreeMap, VecDeque};

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
    /// What rate routers grant to start with. Their ports may keep it in another queue than the
    /// packets before and behind it.
    Question,
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
/// (amortised). A long ring with few packets in it is cut at its front: what asks for no
/// acknowledgement is forgotten there, the rest is kept aside. So memory follows the packets that
/// wait for an acknowledgement, and not the numbers that were used since the oldest of them.
#[derive(Debug)]
pub struct SentPackets<F> {
    /// Packet number of the front slot.
    base: u64,
    ring: VecDeque<Option<SentPacket<F>>>,
    /// Older packets that wait for an acknowledgement.
    aside: BTreeMap<u64, SentPacket<F>>,
    /// Packets below this went over a path that was left, whatever their records say.
    left_below: u64,
    bytes_in_flight: u64,
    ack_eliciting: u64,
    /// Longest the ring was since it was last empty, to give memory back after a burst.
    peak: usize,
    /// Packet numbers deliberately left out, newest last, so that acknowledging one is caught.
    skipped: VecDeque<(u64, u64)>,
}

/// Slots of a ring that is never cut.
const UNCUT: usize = 128;
/// A ring is cut where it has more than so many slots for each packet that asks for an
/// acknowledgement: a mere receiver sends ACKs for hours that nobody acknowledges, and a peer that
/// acknowledges nothing at all must not make them stay.
const SLOTS_PER_PACKET: u64 = 4;
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
            aside: BTreeMap::new(),
            left_below: 0,
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
    pub fn base(&self) -> u64 {
        let aside = self.aside.first_key_value();
        aside.map_or(self.base, |(&number, _)| number)
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
        self.ring.len() + self.aside.len()
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
        if self.is_sparse() {
            self.cut();
        }
        self.ring.push_back(Some(packet));
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

    /// True if packet `number` went over a path that was left since: it is neither in flight nor of
    /// the current path.
    #[must_use]
    #[inline]
    pub const fn has_left(&self, number: u64) -> bool {
        number < self.left_below
    }

    /// Packet `number`, if unresolved, as it was sent: see [`has_left`](Self::has_left).
    #[must_use]
    #[inline]
    pub fn get(&self, number: u64) -> Option<&SentPacket<F>> {
        let Some(index) = number.checked_sub(self.base) else {
            return self.aside.get(&number);
        };
        self.ring.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Takes packet `number` out.
    #[inline]
    pub fn remove(&mut self, number: u64) -> Option<SentPacket<F>> {
        let Some(index) = number.checked_sub(self.base) else {
            return self.remove_aside(number);
        };
        let index = usize::try_from(index).ok()?;
        let packet = self.ring.get_mut(index)?.take()?;
        let packet = self.uncount(number, packet);
        if index == 0 {
            self.trim();
        }
        Some(packet)
    }

    #[cold]
    fn remove_aside(&mut self, number: u64) -> Option<SentPacket<F>> {
        let packet = self.aside.remove(&number)?;
        Some(self.uncount(number, packet))
    }

    /// Packet `number` as it is now.
    #[inline]
    fn uncount(&mut self, number: u64, mut packet: SentPacket<F>) -> SentPacket<F> {
        if self.has_left(number) {
            packet.in_flight = false;
            packet.off_path = true;
        }
        if packet.in_flight {
            self.bytes_in_flight -= u64::from(packet.size);
        }
        self.ack_eliciting -= u64::from(packet.ack_eliciting);
        packet
    }

    /// Unresolved packets from the oldest on, as they were sent, for probes that repeat what is
    /// missing.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &SentPacket<F>)> {
        let ring = self.ring.iter().enumerate();
        let ring =
            ring.filter_map(|(index, slot)| Some((self.base + index as u64, slot.as_ref()?)));
        let aside = self.aside.iter();
        aside.map(|(&number, packet)| (number, packet)).chain(ring)
    }

    /// Takes everything out, oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(u64, SentPacket<F>)) {
        while let Some((number, packet)) = self.aside.pop_first() {
            let packet = self.uncount(number, packet);
            each(number, packet);
        }
        while let Some(slot) = self.ring.pop_front() {
            let number = self.base;
            self.base += 1;
            if let Some(packet) = slot {
                let packet = self.uncount(number, packet);
                each(number, packet);
            }
        }
        self.shrink();
    }

    /// The connection leaves the path: what is unresolved no longer counts towards bytes in flight.
    /// A peer may change its address with every packet, so none of them is touched.
    pub fn leave_path(&mut self) {
        self.left_below = self.next_number();
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

    #[inline]
    fn is_sparse(&self) -> bool {
        let slots = self.ring.len();
        slots >= UNCUT && slots as u64 > SLOTS_PER_PACKET * self.ack_eliciting
    }

    #[cold]
    fn cut(&mut self) {
        while self.is_sparse() {
            let left = self.has_left(self.base);
            match self.ring.pop_front() {
                Some(Some(packet)) if packet.ack_eliciting || (packet.in_flight && !left) => {
                    self.aside.insert(self.base, packet);
                }
                // Nothing in flight, nothing asked for: nothing was counted.
                Some(_) => {}
                None => break,
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
mod tests;
