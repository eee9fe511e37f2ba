//! Queue disciplines for the waiting packets of a port.

mod codel;
mod droptail;
mod red;
#[cfg(test)]
mod red_tests;

use pathmark_cc::{Arrival, Instant};

pub use codel::{CoDel, CoDelConfig};
pub use droptail::DropTail;
pub(crate) use droptail::release_before_last;
pub use red::{BadRed, Red, RedConfig};

use crate::owner::Owner;
use crate::stats::DropCause;

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
