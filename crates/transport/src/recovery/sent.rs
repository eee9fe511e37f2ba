//! Sent packets that are neither acknowledged nor lost yet, by packet number.

use std::collections::{BTreeMap, VecDeque};

use pathmark_cc::PacketState;

use crate::{Ecn, Instant};

/// The property of the path that a packet probes. The loss of a probe is not a sign of
/// congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Nothing.
    #[default]
    Nothing,
    /// Whether larger datagrams arrive (RFC 9000 §14.4).
    Mtu,
    /// Whether a path that dropped shims lets them pass now.
    Shim,
    /// Whether a path on which ECN validation failed lets ECN marks pass now.
    Ecn,
    /// A *question*: the rate that routers grant for a start. Ports may keep it in a queue
    /// separate from the packets sent before and after it.
    Question,
}

/// A sent packet. `F` describes its contents: a small value without heap allocations that the
/// caller chooses.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket<F> {
    /// Send time.
    pub sent_at: Instant,
    /// The congestion controller's state for this packet.
    pub state: PacketState,
    /// Bytes that count towards bytes in flight, including the shim.
    pub size: u16,
    /// Whether the packet requires an acknowledgement (RFC 9002 §2).
    pub ack_eliciting: bool,
    /// Whether it counts towards bytes in flight (RFC 9002 §2). False for ACK-only packets.
    pub in_flight: bool,
    /// Whether it was sent with a shim.
    pub shim: bool,
    /// The property that it probes.
    pub probe: Probe,
    /// The path that it was sent on. [`insert`](SentPackets::insert) sets this to the current
    /// path unless it is [`PathNumber::OTHER`]. A packet that is taken out has one of these two
    /// values; with `OTHER`, it must affect neither RTT nor congestion control.
    pub path: PathNumber,
    /// ECN field with which it was sent.
    pub ecn: Ecn,
    /// Its contents.
    pub frames: F,
}

/// The number of a path. Packets store it, so a change of path need not update them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNumber(u8);

impl PathNumber {
    /// A path other than the current one.
    pub const OTHER: Self = Self(0);

    /// Returns the next number, or the first one after the last.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(number) => Self(number),
            None => Self(1),
        }
    }
}

impl Default for PathNumber {
    fn default() -> Self {
        Self(1)
    }
}

impl<F> SentPacket<F> {
    /// Returns true if it was sent on a path other than the current one.
    pub fn is_off_path(&self) -> bool {
        self.path == PathNumber::OTHER
    }
}

/// A path that the connection left and may return to.
#[derive(Clone, Copy, Debug)]
struct LeftPath {
    path: PathNumber,
    bytes_in_flight: u64,
}

/// A ring of sent packets, indexed by packet number.
///
/// It spans the oldest unresolved packet to the newest one; numbers in between that are resolved or
/// were never used are empty slots. Lookup, insertion and removal are O(1) (amortized). A long,
/// sparse ring is cut at its front: packets that require no acknowledgement are forgotten there,
/// and the others move to a map. Memory is therefore proportional to the packets that wait for an
/// acknowledgement, instead of the numbers used since the oldest packet.
#[derive(Debug)]
pub struct SentPackets<F> {
    /// Packet number of the front slot.
    base: u64,
    ring: VecDeque<Option<SentPacket<F>>>,
    /// Older packets that still wait for an acknowledgement.
    aside: BTreeMap<u64, SentPacket<F>>,
    path: PathNumber,
    bytes_in_flight: u64,
    /// The previous path, with its bytes in flight.
    kept: Option<LeftPath>,
    ack_eliciting: u64,
    /// Maximum length of the ring since it was last empty, so that memory can be released after
    /// a burst.
    peak: usize,
    /// Packet numbers that were skipped deliberately, newest last, to detect a peer that
    /// acknowledges one.
    skipped: VecDeque<(u64, u64)>,
}

/// A ring of fewer slots is never cut.
const UNCUT: usize = 128;
/// A ring is cut if it has more than this many slots for each ack-eliciting packet. Otherwise
/// the ACKs of a connection that only receives, which are never acknowledged, would pile up for
/// hours, as would those for a peer that acknowledges nothing at all.
const SLOTS_PER_PACKET: u64 = 4;
/// Ring capacity that is always kept.
const KEPT_CAPACITY: usize = 64;
/// Number of skipped ranges that are remembered. A peer that acknowledges packets without
/// having received them soon hits one.
const MAX_SKIPPED: usize = 4;

impl<F> Default for SentPackets<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> SentPackets<F> {
    /// Creates an empty ring; the first packet may have any number.
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

    /// Returns the number after the largest one sent.
    pub fn next_number(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// Returns the smallest number that may still be unresolved.
    pub fn base(&self) -> u64 {
        let aside = self.aside.first_key_value();
        aside.map_or(self.base, |(&number, _)| number)
    }

    /// Returns the bytes in flight on the current path.
    pub const fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Returns the number of unresolved ack-eliciting packets.
    pub const fn ack_eliciting(&self) -> u64 {
        self.ack_eliciting
    }

    /// Returns the number of slots, including empty slots, as a measure of memory use.
    pub fn span(&self) -> usize {
        self.ring.len() + self.aside.len()
    }

    /// Records packet `number`, which must be at least [`next_number`](Self::next_number);
    /// otherwise this returns false and records nothing. Skipped numbers count as never sent.
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

    /// Returns true if any number in `first..=last` is known never to have been sent.
    pub fn never_sent(&self, first: u64, last: u64) -> bool {
        last >= self.next_number()
            || self
                .skipped
                .iter()
                .any(|&(from, to)| first <= to && last >= from)
    }

    /// Returns true if `packet` counts towards bytes in flight, on this path or on the kept
    /// one.
    fn is_counted(&self, packet: &SentPacket<F>) -> bool {
        let is_kept = |kept: &LeftPath| kept.path == packet.path;
        packet.in_flight && (packet.path == self.path || self.kept.as_ref().is_some_and(is_kept))
    }

    /// Returns true if neither a window nor a retransmission depends on the fate of `packet`.
    pub fn is_forgettable(&self, packet: &SentPacket<F>) -> bool {
        !packet.ack_eliciting && !self.is_counted(packet)
    }

    /// Returns true if `packet` was sent on the current path.
    pub fn is_on_path(&self, packet: &SentPacket<F>) -> bool {
        packet.path == self.path
    }

    /// Returns packet `number`, if unresolved, as it was inserted. See
    /// [`is_on_path`](Self::is_on_path).
    pub fn get(&self, number: u64) -> Option<&SentPacket<F>> {
        let Some(index) = number.checked_sub(self.base) else {
            return self.aside.get(&number);
        };
        self.ring.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Removes packet `number`.
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

    /// Subtracts a removed packet from the counters, and updates its path.
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

    /// Returns unresolved packets as they were inserted, oldest first, for probes that repeat
    /// missing data.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &SentPacket<F>)> {
        let ring = self.ring.iter().enumerate();
        let ring =
            ring.filter_map(|(index, slot)| Some((self.base + index as u64, slot.as_ref()?)));
        let aside = self.aside.iter();
        aside.map(|(&number, packet)| (number, packet)).chain(ring)
    }

    /// Removes all packets, oldest first.
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

    /// Makes `path` the current one, on which packets in flight count again if it was kept.
    /// With `keep`, the path that is left replaces the kept one, because the connection may
    /// return to it. A peer may change its address with every packet, so this visits no packet.
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

    /// Frees all path numbers except the current and the kept one, by setting the path of other
    /// packets to [`PathNumber::OTHER`].
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

    fn trim(&mut self) {
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.base += 1;
        }
        if self.ring.is_empty() {
            self.shrink();
        }
    }

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
                // A forgettable packet was never counted.
                Some(_) => {}
                None => break,
            }
            self.base += 1;
        }
    }

    /// Releases memory if recent bursts needed far less. The hysteresis keeps steady flows from
    /// reallocating.
    fn shrink(&mut self) {
        let wanted = (self.peak * 2).max(KEPT_CAPACITY);
        if self.ring.capacity() > wanted * 2 {
            self.ring.shrink_to(wanted);
        }
        self.peak = 0;
    }
}

#[cfg(test)]
pub(crate) fn packet<F>(sent_at: Instant, size: u16, frames: F) -> SentPacket<F> {
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
