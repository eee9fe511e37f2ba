//! A port's queue or queues.

use pathmark_cc::{Arrival, Carried, Instant, RateChange};

use crate::owner::Owner;
use crate::queue::{Depth, Limit, Popped, Queue};
use crate::separation::Separation;

/// The queues, each with its cached depth.
pub(super) enum Queues<P> {
    One(Box<dyn Queue<P>>, Depth),
    Two(Box<Separation<P>>),
}

impl<P> Queues<P> {
    pub(super) fn limit(&self) -> Limit {
        match self {
            Self::One(queue, _) => queue.limit(),
            Self::Two(separation) => separation.limit(),
        }
    }

    /// Whether this packet counts for the control law: every packet in a common queue, otherwise
    /// those of its class. `None`: the packet is dropped.
    #[inline]
    pub(super) fn hears(&mut self, now: Instant, arrival: &mut Arrival) -> Option<bool> {
        match self {
            Self::One(..) => Some(true),
            Self::Two(separation) => separation.hears(now, arrival),
        }
    }

    /// Whether a packet that counts for the law belongs to a flow that gets answers. In a common
    /// queue, this is only known of packets that carry feedback.
    #[inline]
    pub(super) fn is_feedback(&self, arrival: &Arrival) -> bool {
        matches!(self, Self::Two(_)) || arrival.carried.is_feedback()
    }

    /// Whether the law must answer this packet.
    #[inline]
    pub(super) fn answers(&self, arrival: &Arrival) -> bool {
        matches!(self, Self::One(..)) || arrival.carried != Carried::Foreign
    }

    #[inline]
    pub(super) fn heard_bytes(&self) -> u64 {
        match self {
            Self::One(_, depth) => depth.bytes,
            Self::Two(separation) => separation.heard_depth().bytes,
        }
    }

    /// Records the change of rate that an answer allows a flow.
    #[inline]
    pub(super) fn on_answer(&mut self, arrival: &Arrival, change: RateChange) {
        if let Self::Two(separation) = self {
            separation.on_answer(arrival, change);
        }
    }

    /// Records that the law dropped a packet of its class.
    #[cold]
    pub(super) fn on_policed(&mut self, bytes: u32) {
        if let Self::Two(separation) = self {
            separation.on_policed(bytes);
        }
    }

    #[inline]
    pub(super) fn depth(&self) -> Depth {
        match self {
            Self::One(_, depth) => *depth,
            Self::Two(separation) => separation.depth(),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        match self {
            Self::One(queue, depth) => {
                let popped = queue.pop(now, owner);
                *depth = queue.depth();
                popped
            }
            Self::Two(separation) => separation.pop(now, owner),
        }
    }
}
