//! Packets sent and neither acknowledged nor lost yet, by packet number.

use std::collections::{BTreeMap, VecDeque};

use pathmark_cc::PacketState;

use crate::{Ecn, Instant};

/// What a packet probes of the path. The loss of a probe shows nothing about congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Nothing.
    #[default]
    Nothing,
    /// Whether larger datagrams pass (RFC 9000 §14.4).
    Mtu,
    /// Whether a path that swallowed shims lets them pass now.
    Shim,
    /// Whether a path where ECN marks failed lets them pass now.
    Ecn,
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
    /// What it probes.
    pub probe: Probe,
    /// The path that it went over: that of a packet that is inserted is the current one, or
    /// [`PathNumber::OTHER`]; of one that comes out, neither RTT nor congestion follow from the
    /// latter.
    pub path: PathNumber,
    /// The ECN field it left with.
    pub ecn: Ecn,
    /// What it carried.
    pub frames: F,
}

/// A path of the connection. Packets bear it, so that a change of path touches none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNumber(u8);

impl PathNumber {
    /// Another one than the current path.
    pub const OTHER: Self = Self(0);

    /// The number after this one; the first one after the last.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(number) => Self(number),
            None => Self(1),
        }
    }
}

impl Default for PathNumber {
    /// The first.
    fn default() -> Self {
        Self(1)
    }
}

impl<F> SentPacket<F> {
    /// It went over another path than the current one.
    #[must_use]
    #[inline]
    pub fn is_off_path(&self) -> bool {
        self.path == PathNumber::OTHER
    }
}

/// A path that was left and that the connection may return to.
#[derive(Clone, Copy, Debug)]
struct LeftPath {
    path: PathNumber,
    bytes_in_flight: u64,
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
    /// The current path.
    path: PathNumber,
    bytes_in_flight: u64,
    /// The path before, with what is in flight there.
    kept: Option<LeftPath>,
    ack_eliciting: u64,
    /// Longest the ring was since it was last empty, to give memory back after a burst.
    peak: usize,
    /// Packet numbers deliberately left out, newest last, so that acknowledging one is caught.
    skipped: VecDeque<(u64, u64)>,
}

/// Slots of a ring that is never cut.
const UNCUT: usize = 128;
/// A ring is cut where it has more than this many slots for each packet that asks for an
/// acknowledgement: a mere receiver sends ACKs for hours without acknowledgement, and a peer that
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
            path: PathNumber(1),
            bytes_in_flight: 0,
            kept: None,
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
    pub fn insert(&mut self, number: u64, mut packet: SentPacket<F>) -> bool {
        let next = self.next_number();
        // [9000 12.3 numbers-ascend]
        if number != next && !self.skip(next, number) {
            return false;
        }
        if !packet.is_off_path() {
            packet.path = self.path;
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

    /// True if `packet` counts towards bytes in flight, here or on the path that is kept.
    #[inline]
    fn is_counted(&self, packet: &SentPacket<F>) -> bool {
        let is_kept = |kept: &LeftPath| kept.path == packet.path;
        packet.in_flight && (packet.path == self.path || self.kept.as_ref().is_some_and(is_kept))
    }

    /// True if nothing waits for the fate of `packet`: neither a window nor a retransmission.
    #[must_use]
    #[inline]
    pub fn is_forgettable(&self, packet: &SentPacket<F>) -> bool {
        !packet.ack_eliciting && !self.is_counted(packet)
    }

    /// True if `packet` went over the current path.
    #[must_use]
    #[inline]
    pub fn is_on_path(&self, packet: &SentPacket<F>) -> bool {
        packet.path == self.path
    }

    /// Packet `number`, if unresolved, as it was sent: see
    /// [`is_on_path`](Self::is_on_path).
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
        let packet = self.uncount(packet);
        if index == 0 {
            self.trim();
        }
        Some(packet)
    }

    #[cold]
    fn remove_aside(&mut self, number: u64) -> Option<SentPacket<F>> {
        let packet = self.aside.remove(&number)?;
        Some(self.uncount(packet))
    }

    /// The packet as it is now.
    #[inline]
    fn uncount(&mut self, mut packet: SentPacket<F>) -> SentPacket<F> {
        self.ack_eliciting -= u64::from(packet.ack_eliciting);
        let size = u64::from(packet.size);
        if packet.path == self.path {
            if packet.in_flight {
                self.bytes_in_flight = self.bytes_in_flight.saturating_sub(size);
            }
            return packet;
        }
        if packet.in_flight
            && let Some(kept) = &mut self.kept
            && kept.path == packet.path
        {
            kept.bytes_in_flight = kept.bytes_in_flight.saturating_sub(size);
        }
        // [9000 9.4 other-paths-packets]
        packet.in_flight = false;
        packet.path = PathNumber::OTHER;
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
            let packet = self.uncount(packet);
            each(number, packet);
        }
        while let Some(slot) = self.ring.pop_front() {
            let number = self.base;
            self.base += 1;
            if let Some(packet) = slot {
                let packet = self.uncount(packet);
                each(number, packet);
            }
        }
        self.shrink();
    }

    /// `path` is the current one from now on. If it is the one that was kept, what is in flight
    /// there counts again. `keep`: the connection may return to the path that it leaves, whose
    /// bytes in flight are kept in place of those of the path kept before. A peer may change its
    /// address with every packet, so no packet is touched.
    pub fn change_path(&mut self, path: PathNumber, keep: bool) {
        let left = LeftPath {
            path: self.path,
            bytes_in_flight: self.bytes_in_flight,
        };
        let back = self.kept.take_if(|kept| kept.path == path);
        self.path = path;
        self.bytes_in_flight = back.map_or(0, |back| back.bytes_in_flight);
        if keep {
            self.kept = Some(left);
        }
    }

    /// Path numbers but the current one and the one that is kept are to be used again: packets that
    /// bear another bear none.
    pub fn forget_left(&mut self) {
        let (path, kept) = (self.path, self.kept.map(|kept| kept.path));
        let ring = self.ring.iter_mut().flatten();
        for packet in ring.chain(self.aside.values_mut()) {
            if packet.path != path && Some(packet.path) != kept {
                packet.path = PathNumber::OTHER;
                packet.in_flight = false;
            }
        }
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
            match self.ring.pop_front() {
                Some(Some(packet)) if !self.is_forgettable(&packet) => {
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
pub(super) fn packet<F>(sent_at: Instant, size: u16, frames: F) -> SentPacket<F> {
    SentPacket {
        sent_at,
        state: PacketState::default(),
        size,
        ack_eliciting: true,
        in_flight: true,
        shim: false,
        probe: Probe::Nothing,
        path: PathNumber(1),
        ecn: Ecn::NotEct,
        frames,
    }
}

#[cfg(test)]
mod tests;
