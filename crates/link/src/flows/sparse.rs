//! Flows that send only a few bytes: sparse flows (RFC 8290, section 5.2.2).
//!
//! Some senders do not build up a queue: a connection's first packets, a lookup, a call,
//! acknowledgements, or a sender that lost most of its window. However, their packets would have to
//! wait behind the queue of larger flows in their class. Therefore, these packets pass first, as
//! long as each sends less than half of the mean per flow, and all together send less than half of
//! the class's bytes. A quarter of this allowance, and at least two packets if this leaves a
//! quarter, is reserved for flows that were seen in only one epoch, which get no more. A sender
//! that changes ports with each packet thus leaves the rest to lasting sparse flows, which in turn
//! leave new connections their part.
//!
//! No packet overtakes an earlier one of the same flow, because a flow only passes first after
//! its last packet in its class's queue has left. Flows without a place in the table wait in the
//! queue. In each set of the table, they share one number for their last packet. A flow that
//! gets a place starts with this number, and a flow that loses its place leaves its number
//! there.

use super::{Flows, ONE_FLOW_Q8, Place, SEEN_ONCE, SETS, Sums, WAYS, lately};
use crate::queue::FULL_PACKET;
use pathmark_cc::Instant;

/// A flow may send this many bytes per epoch and still be sparse, regardless of the number of
/// flows.
const FEW_BYTES: u64 = 4 * FULL_PACKET;
/// The fraction of this allowance for all flows together that were seen in only one epoch.
const PART_OF_NEWCOMERS: u64 = 4;
/// The way of a set for all flows without a place.
pub(super) const PLACELESS: usize = WAYS;

/// Distinguishes sparse flows from others.
#[derive(Debug)]
pub(super) struct Sparse {
    heard: Class,
    foreign: Class,
}

/// The sparse flows of one class.
#[derive(Debug)]
struct Class {
    /// Number of each flow's last packet in the class's queue, counted over all queued packets,
    /// with wrap-around. 0: none waits.
    last: Box<[[u32; WAYS + 1]]>,
    /// Allowance of each sparse flow per epoch, in bytes.
    each: u64,
    /// Bytes that lasting sparse flows may still send together in the current epoch, and those
    /// that flows seen in only one epoch may.
    left: u64,
    left_to_newcomers: u64,
}

impl Sparse {
    pub(super) fn new() -> Self {
        Self {
            heard: Class::new(),
            foreign: Class::new(),
        }
    }

    /// Releases a place that its flow loses, or that another flow gets. Packets of either may
    /// still wait.
    pub(super) fn release(&mut self, place: Place) {
        self.heard.release(place);
        self.foreign.release(place);
    }

    /// Releases all places.
    pub(super) fn release_all(&mut self) {
        for set in 0..SETS {
            for way in 0..WAYS {
                self.release(Place { set, way });
            }
        }
    }

    const fn class(&self, heard: bool) -> &Class {
        if heard { &self.heard } else { &self.foreign }
    }

    const fn class_mut(&mut self, heard: bool) -> &mut Class {
        if heard {
            &mut self.heard
        } else {
            &mut self.foreign
        }
    }

    /// Starts an epoch, after epochs in which a class sent `sent` bytes each on average,
    /// distributed over flows as in `flows`. The class is owed `owed` bytes per epoch, whatever
    /// waits in the other class.
    pub(super) fn turn(&mut self, heard: bool, sent: u64, owed: u64, flows: &Sums) {
        let fair = sent * ONE_FLOW_Q8 / flows.flows_q8();
        // If the class has few bytes, half may be less than a few packets.
        let half = sent.max(owed) / 2;
        let class = self.class_mut(heard);
        class.each = FEW_BYTES.min(half).max(fair / 2);
        class.refill((2 * FEW_BYTES).min(half).max(sent / 2));
    }
}

impl Class {
    fn new() -> Self {
        Self {
            last: vec![[0; WAYS + 1]; SETS].into_boxed_slice(),
            each: FEW_BYTES,
            left: 2 * FEW_BYTES,
            // There are no lasting flows yet.
            left_to_newcomers: 2 * FEW_BYTES,
        }
    }

    fn refill(&mut self, bytes: u64) {
        let part = bytes / PART_OF_NEWCOMERS;
        self.left_to_newcomers = part.max(2 * FULL_PACKET).min(bytes - part);
        self.left = bytes - self.left_to_newcomers;
    }

    const fn left_to(&self, newcomer: bool) -> u64 {
        if newcomer {
            self.left_to_newcomers
        } else {
            self.left
        }
    }

    fn release(&mut self, place: Place) {
        if let Some(set) = self.last.get_mut(place.set)
            && let [of_placeless, last] = [PLACELESS, place.way].map(|way| set.get(way).copied())
            && let Some(later) = of_placeless.zip(last).map(|(a, b)| later(a, b))
        {
            for way in [PLACELESS, place.way] {
                if let Some(last) = set.get_mut(way) {
                    *last = later;
                }
            }
        }
    }

    /// Whether no packet of the flow at this place is in the queue, from which `gone` packets
    /// have left.
    fn has_none(&self, place: Place, gone: u32) -> bool {
        let last = self.last.get(place.set).and_then(|set| set.get(place.way));
        last.is_some_and(|last| *last == 0 || is_behind(*last, gone))
    }
}

/// Compares numbers that wrap around: half of all numbers are behind.
const fn is_behind(number: u32, other: u32) -> bool {
    other.wrapping_sub(number) < 1 << 31
}

const fn later(a: u32, b: u32) -> u32 {
    if b == 0 || (a != 0 && is_behind(b, a)) {
        a
    } else {
        b
    }
}

impl Flows {
    /// Whether a packet of the last recorded flow may pass before its class's queue, from which
    /// `gone` packets have left.
    #[inline]
    pub(crate) fn may_pass_first(&self, now: Instant, bytes: u32, heard: bool, gone: u32) -> bool {
        let (place, class) = (self.noted, self.sparse.class(heard));
        let Some(set) = self.sets.get(place.set) else {
            return false;
        };
        let of = |all: &[u32; WAYS]| all.get(place.way).copied();
        let (Some(fresh), Some(mean), Some(heard_ms)) =
            (of(&set.bytes), of(&set.mean), of(&set.heard_ms))
        else {
            return false;
        };
        // Flows with feedback that are set aside arrive as foreign ones.
        lately(now, heard_ms) == heard
            && u64::from(fresh.max(mean)) <= class.each
            && u64::from(bytes) <= class.left_to(self.is_newcomer(place))
            && class.has_none(place, gone)
    }

    fn is_newcomer(&self, place: Place) -> bool {
        let seen = self
            .epochs
            .get(place.set)
            .and_then(|set| set.get(place.way));
        seen.is_none_or(|seen| *seen <= SEEN_ONCE)
    }

    /// Records that the last recorded packet passes before its class's queue.
    pub(crate) fn on_first(&mut self, heard: bool, bytes: u32) {
        let (bytes, newcomer) = (u64::from(bytes), self.is_newcomer(self.noted));
        let class = self.sparse.class_mut(heard);
        let left = if newcomer {
            &mut class.left_to_newcomers
        } else {
            &mut class.left
        };
        *left = left.saturating_sub(bytes);
    }

    /// Records that the last recorded packet has entered its class's queue as number `taken`.
    #[inline]
    pub(crate) fn on_queued(&mut self, heard: bool, taken: u32) {
        let Place { set, way } = self.noted;
        let last = &mut self.sparse.class_mut(heard).last;
        if let Some(last) = last.get_mut(set).and_then(|set| set.get_mut(way)) {
            *last = taken.max(1);
        }
    }
}
