//! Queue disciplines for the waiting packets of a port, and the interface to the code that owns
//! these packets.

mod codel;
mod dualpi2;
mod red;
#[cfg(test)]
mod red_tests;

use std::collections::VecDeque;

use pathmark_cc::{Answer, Arrival, Ecn, Instant};

use crate::stats::DropCause;
pub use codel::{CoDel, CoDelConfig};
pub use dualpi2::{DualPi2, DualPi2Config};
pub use red::{BadRed, Red, RedConfig};

/// A packet at a port.
#[derive(Clone, Debug)]
pub struct Queued<P> {
    /// The packet itself, which is opaque.
    pub packet: P,
    /// Its arrival; the bytes are those on the wire.
    pub arrival: Arrival,
    /// Its bytes, including the link's overhead, but before coding.
    pub frame: u32,
    /// Number of IP packets that it consists of: 1, or the segments of an uncut super-packet.
    pub packets: u32,
    /// The time of arrival.
    pub since: Instant,
}

/// The depth of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Assumed size of a packet if only packets are counted, in bytes.
pub(super) const FULL_PACKET: u64 = 1500;

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many packets.
    Packets(u64),
    /// This many bytes.
    Bytes(u64),
}

impl Limit {
    /// Returns `milli_bdp` thousandths of the bandwidth-delay product of a path with `rate`
    /// bytes per second and `rtt`.
    pub fn bdp(milli_bdp: u64, rate: u64, rtt: core::time::Duration) -> Self {
        let bytes = u128::from(rate) * rtt.as_micros() * u128::from(milli_bdp) / 1_000_000_000;
        Self::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Approximate limit in bytes, assuming full packets.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Packets(packets) => packets.saturating_mul(FULL_PACKET),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns true if a packet of `bytes` still fits behind `depth`.
    #[inline]
    pub fn admits(self, depth: Depth, bytes: u32) -> bool {
        match self {
            Self::Packets(limit) => depth.packets < limit,
            Self::Bytes(limit) => depth.bytes.saturating_add(u64::from(bytes)) <= limit,
        }
    }

    /// Returns true if `packets` packets with `bytes` in total all fit behind `depth`.
    #[inline]
    pub fn admits_run(self, depth: Depth, packets: u32, bytes: u32) -> bool {
        match self {
            Self::Packets(limit) => depth.packets.saturating_add(u64::from(packets)) <= limit,
            Self::Bytes(_) => self.admits(depth, bytes),
        }
    }
}

/// A queue discipline. It returns each packet that it drops to the owner immediately.
pub trait Queue<P>: Send {
    /// Adds a packet, or drops it or another one.
    fn push(&mut self, now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed;

    /// Removes the next packet to send. A discipline may drop others before it (as CoDel does)
    /// and then returns their number.
    fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P>;

    /// Removes the youngest packet, to make room in a buffer shared with another queue.
    fn pop_youngest(&mut self) -> Option<Queued<P>>;

    /// The packet that [`pop_youngest`](Self::pop_youngest) would remove.
    fn youngest(&self) -> Option<&Queued<P>>;

    /// The depth of the queue.
    fn depth(&self) -> Depth;

    /// Returns true if a super-packet of `packets` packets and `bytes` in total can be pushed
    /// uncut, with the same result for each of its packets as if pushed separately.
    fn takes_whole(&self, packets: u32, bytes: u32) -> bool {
        let _ = (packets, bytes);
        false
    }

    /// The limit.
    fn limit(&self) -> Limit;

    /// Replaces the limit; packets already waiting stay.
    fn set_limit(&mut self, limit: Limit);
}

/// The result of pushing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The packet waits.
    Queued,
    /// The packet was dropped, and passed to [`Owner::dropped`].
    Dropped(DropCause),
}

/// The result of popping a packet.
#[derive(Debug)]
pub struct Popped<P> {
    /// The packet to send, if any.
    pub item: Option<Queued<P>>,
    /// Number of packets dropped before it, each reported to the owner as [`DropCause::Early`].
    pub dropped: u64,
}

/// Number of elements for which an empty queue keeps memory.
const KEPT: usize = 1 << 14;

/// Releases the memory of a queue whose last element is about to be taken, if it is large. Since
/// each element pays for a part of this at most once, the mean cost per element does not increase.
#[inline]
pub(crate) fn release_before_last<T>(items: &mut VecDeque<T>) {
    if items.len() == 1 && items.capacity() > KEPT {
        release(items);
    }
}

/// A separate function keeps the code on the common path small.
#[cold]
#[inline(never)]
fn release<T>(items: &mut VecDeque<T>) {
    items.shrink_to_fit();
}

/// A FIFO with a limit in packets or bytes.
#[derive(Debug)]
pub struct DropTail<P> {
    items: VecDeque<Queued<P>>,
    depth: Depth,
    limit: Limit,
}

impl<P> DropTail<P> {
    /// Creates an empty queue. Memory is allocated on first use, and mostly released once the queue
    /// is empty.
    pub fn new(limit: Limit) -> Self {
        Self {
            items: VecDeque::new(),
            depth: Depth::default(),
            limit,
        }
    }

    pub(crate) fn put(&mut self, item: Queued<P>) {
        self.depth.bytes += u64::from(item.arrival.bytes);
        self.depth.packets += u64::from(item.packets);
        self.items.push_back(item);
    }

    pub(crate) fn take(&mut self) -> Option<Queued<P>> {
        release_before_last(&mut self.items);
        let item = self.items.pop_front()?;
        self.forget(&item);
        Some(item)
    }

    pub(crate) fn take_youngest(&mut self) -> Option<Queued<P>> {
        let item = self.items.pop_back()?;
        self.forget(&item);
        Some(item)
    }

    pub(crate) fn oldest(&self) -> Option<&Queued<P>> {
        self.items.front()
    }

    pub(crate) fn newest(&self) -> Option<&Queued<P>> {
        self.items.back()
    }

    #[inline]
    pub(crate) const fn waiting(&self) -> Depth {
        self.depth
    }

    fn forget(&mut self, item: &Queued<P>) {
        self.depth.bytes -= u64::from(item.arrival.bytes);
        self.depth.packets -= u64::from(item.packets);
    }
}

impl<P: Send> Queue<P> for DropTail<P> {
    fn push(&mut self, _now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        if self.limit.admits(self.depth, item.arrival.bytes) {
            self.put(item);
            Pushed::Queued
        } else {
            owner.dropped(item.packet, DropCause::QueueFull);
            Pushed::Dropped(DropCause::QueueFull)
        }
    }

    fn pop(&mut self, _now: Instant, _owner: &mut dyn Owner<P>) -> Popped<P> {
        Popped {
            item: self.take(),
            dropped: 0,
        }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        self.take_youngest()
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        self.newest()
    }

    fn depth(&self) -> Depth {
        self.waiting()
    }

    fn takes_whole(&self, packets: u32, bytes: u32) -> bool {
        self.limit.admits_run(self.depth, packets, bytes)
    }

    fn limit(&self) -> Limit {
        self.limit
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }
}

/// The owner of the packets that pass through a port. It writes marks into packets and takes
/// back dropped ones.
pub trait Owner<P> {
    /// Writes `answer` into a packet that leaves for the wire. Not called for [`Answer::None`].
    fn mark(&mut self, packet: &mut P, answer: &Answer);

    /// Writes `answer` into one of the packets of a run, counted from 0; see
    /// [`Port::arrive_run`](crate::port::Port::arrive_run).
    fn mark_one(&mut self, run: &mut P, index: u32, answer: &Answer) {
        let _ = index;
        self.mark(run, answer);
    }

    /// Number of IP packets that a packet consists of.
    fn packets(&self, packet: &P) -> u32 {
        let _ = packet;
        1
    }

    /// The ECN field of a packet, for queues that mark. A field that carries something else counts
    /// as Not-ECT.
    fn ecn(&self, packet: &P) -> Ecn {
        let _ = packet;
        Ecn::NotEct
    }

    /// Writes CE into the ECN field of a packet that is not Not-ECT.
    fn mark_ce(&mut self, packet: &mut P) {
        let _ = packet;
    }

    /// Takes back a dropped packet.
    fn dropped(&mut self, packet: P, cause: DropCause);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Log, queued};

    fn item(id: u32, bytes: u32) -> Queued<u32> {
        queued(id, bytes, Instant::ZERO)
    }

    #[test]
    fn counts_packets_or_bytes() {
        let mut log = Log::default();
        let mut queue = DropTail::new(Limit::Packets(2));
        for id in 0..3 {
            queue.push(Instant::ZERO, item(id, 1500), &mut log);
        }
        assert_eq!(log.drops, [(2, DropCause::QueueFull)]);
        let mut queue = DropTail::new(Limit::Bytes(3000));
        for id in 0..3 {
            queue.push(Instant::ZERO, item(id, 1500), &mut log);
        }
        assert_eq!(queue.depth().bytes, 3000);
        assert_eq!(log.drops.len(), 2);
    }

    #[test]
    fn one_bdp_of_the_demo_path() {
        let rtt = core::time::Duration::from_millis(400);
        assert_eq!(Limit::bdp(1000, 1_250_000, rtt), Limit::Bytes(500_000));
    }

    proptest! {
        /// Enqueued = dequeued + queued, in order, with drops only if full.
        #[test]
        fn conserves_packets(
            limit in 1u64..20_000,
            steps in prop::collection::vec(prop::option::of(20u32..3000), 1..300),
        ) {
            let mut queue = DropTail::new(Limit::Bytes(limit));
            let (mut log, mut model) = (Log::default(), VecDeque::new());
            for (id, step) in (0u32..).zip(steps) {
                if let Some(bytes) = step {
                    let held: u64 = model.iter().map(|&(_, b): &(u32, u32)| u64::from(b)).sum();
                    let fits = held + u64::from(bytes) <= limit;
                    let pushed = queue.push(Instant::ZERO, item(id, bytes), &mut log);
                    prop_assert_eq!(pushed == Pushed::Queued, fits);
                    if fits { model.push_back((id, bytes)); }
                } else {
                    let popped = queue.pop(Instant::ZERO, &mut log).item.map(|i| i.packet);
                    prop_assert_eq!(popped, model.pop_front().map(|(id, _)| id));
                }
                prop_assert_eq!(queue.depth().packets, model.len() as u64);
            }
        }
    }
}
