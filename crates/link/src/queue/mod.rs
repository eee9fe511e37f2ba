//! Queue disciplines: what a port does with packets that wait.

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
    /// The packet itself, opaque.
    pub packet: P,
    /// What the port knows of it; its bytes are those on the wire.
    pub arrival: Arrival,
    /// Its bytes with what the link adds, but before a code adds its own.
    pub frame: u32,
    /// How many IP packets it stands for: 1, or the segments of a super-packet that passes as a
    /// whole.
    pub packets: u32,
    /// When it arrived.
    pub since: Instant,
}

/// How much waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as the link will carry them.
    pub bytes: u64,
}

/// Bytes that a packet is taken for where only packets are counted.
pub(super) const FULL_PACKET: u64 = 1500;

/// The room of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many packets.
    Packets(u64),
    /// This many bytes.
    Bytes(u64),
}

impl Limit {
    /// `milli_bdp` thousandths of the bytes that fit a path of `rate` bytes per second and `rtt`.
    #[must_use]
    pub fn bdp(milli_bdp: u64, rate: u64, rtt: core::time::Duration) -> Self {
        let bytes = u128::from(rate) * rtt.as_micros() * u128::from(milli_bdp) / 1_000_000_000;
        Self::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// About how many bytes of full packets that is.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Packets(packets) => packets.saturating_mul(FULL_PACKET),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// True if a packet of `bytes` still fits behind `depth`.
    #[inline]
    #[must_use]
    pub fn admits(self, depth: Depth, bytes: u32) -> bool {
        match self {
            Self::Packets(limit) => depth.packets < limit,
            Self::Bytes(limit) => depth.bytes.saturating_add(u64::from(bytes)) <= limit,
        }
    }

    /// True if `packets` packets of together `bytes` all fit behind `depth`.
    #[inline]
    #[must_use]
    pub fn admits_run(self, depth: Depth, packets: u32, bytes: u32) -> bool {
        match self {
            Self::Packets(limit) => depth.packets.saturating_add(u64::from(packets)) <= limit,
            Self::Bytes(_) => self.admits(depth, bytes),
        }
    }
}

/// A queue discipline. A packet that it drops it hands back to its owner at once.
pub trait Queue<P>: Send {
    /// Takes a packet, or drops it or another one.
    fn push(&mut self, now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed;

    /// The next packet to send. A discipline may drop on the way (CoDel does) and then says how
    /// many.
    fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P>;

    /// Takes the youngest packet out again, to make room in a buffer shared with another queue.
    fn pop_youngest(&mut self) -> Option<Queued<P>>;

    /// That packet.
    fn youngest(&self) -> Option<&Queued<P>>;

    /// What waits.
    fn depth(&self) -> Depth;

    /// True if a super-packet of `packets` packets and `bytes` in all could be pushed as a whole
    /// without any of its packets meeting another fate than they would one by one.
    fn takes_whole(&self, packets: u32, bytes: u32) -> bool {
        let _ = (packets, bytes);
        false
    }

    /// The limit.
    fn limit(&self) -> Limit;

    /// Replaces the limit; what waits beyond it stays.
    fn set_limit(&mut self, limit: Limit);
}

/// What became of a packet that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It waits.
    Queued,
    /// It was dropped, and passed to [`Owner::dropped`].
    Dropped(DropCause),
}

/// What came out of a queue.
#[derive(Debug)]
pub struct Popped<P> {
    /// The packet to send, if any.
    pub item: Option<Queued<P>>,
    /// Packets dropped on the way, each reported to the owner as
    /// [`DropCause::Early`].
    pub dropped: u64,
}
