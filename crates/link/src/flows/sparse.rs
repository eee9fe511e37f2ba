//! Flows that send little: sparse flows (RFC 8290, section 5.2.2).
//!
//! A connection's first packets, a lookup, a call, acknowledgments, a sender that lost most of its
//! window to others: they make no queue of their own, and wait behind the one that larger flows of
//! their class keep. So they pass before those, while each of them sends less than half of what a
//! flow of the class has in the mean, and all of them together less than half of what the class
//! has. A quarter of that, two packets at least if they leave a quarter, is for flows that were
//! seen in one epoch only, and they have no more: a sender that changes ports with each packet
//! leaves the rest to sparse flows that last, and these leave new connections their part.
//!
//! None of their packets overtakes an earlier one of the same flow: a flow passes first only once
//! its last packet in the queue of its class has left. Flows without a place in the table wait in
//! the queue, and share one number for their last packet per set of the table. A flow that gets a
//! place begins with that number, and a flow that loses its place leaves its own there.

use super::{Flows, ONE_FLOW_Q8, Place, SEEN_ONCE, SETS, Sums, WAYS, lately};
use crate::queue::FULL_PACKET;
use pathmark_cc::Instant;

/// A flow may send this many bytes in an epoch and be sparse, with any number of flows.
const FEW_BYTES: u64 = 4 * FULL_PACKET;
/// The part of that which flows that were seen in one epoch only may have, all together.
const PART_OF_NEWCOMERS: u64 = 4;
/// The way of a set that stands for all its flows without a place.
pub(super) const PLACELESS: usize = WAYS;

/// What tells sparse flows from others.
#[derive(Debug)]
pub(super) struct Sparse {
    heard: Class,
    foreign: Class,
}

/// The same of one class.
#[derive(Debug)]
struct Class {
    /// The number of each flow's last packet in the queue of the class, counted from the first one
    /// that was ever taken in; comes round. 0: none that waits.
    last: Box<[[u32; WAYS + 1]]>,
    /// Bytes of each sparse flow in an epoch.
    each: u64,
    /// Bytes that those that last may still send together in the running epoch, and those that were
    /// seen in one epoch only.
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

    /// The flow at a place loses it, or another flow gets it: packets of either may wait.
    pub(super) fn release(&mut self, place: Place) {
        self.heard.release(place);
        self.foreign.release(place);
    }

    /// All flows lose their places.
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

    /// A new epoch begins, after epochs in which a class sent `sent` bytes each in the mean, in
    /// flows as in `flows`. It may send `owed` bytes in an epoch, whatever waits in the other.
    pub(super) fn turn(&mut self, heard: bool, sent: u64, owed: u64, flows: &Sums) {
        let fair = sent * ONE_FLOW_Q8 / flows.flows_q8();
        // Where the class has little, half of that is less than a few packets.
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
            // No flow lasts yet.
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

    /// True if no packet of the flow at a place is in the queue, of whose packets `gone` have left.
    fn has_none(&self, place: Place, gone: u32) -> bool {
        let last = self.last.get(place.set).and_then(|set| set.get(place.way));
        last.is_some_and(|last| *last == 0 || is_behind(*last, gone))
    }
}

/// Numbers come round: half of them are behind.
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
    /// True if a packet of the flow that was noted last may pass before the queue of its class, of
    /// whose packets `gone` have left.
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
        // Flows that carry feedback and are aside come as foreign ones.
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

    /// The packet that was noted last passes before the queue of its class.
    #[inline]
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

    /// The queue of its class took in the packet that was noted last, as number `taken`.
    #[inline]
    pub(crate) fn on_queued(&mut self, heard: bool, taken: u32) {
        let Place { set, way } = self.noted;
        let last = &mut self.sparse.class_mut(heard).last;
        if let Some(last) = last.get_mut(set).and_then(|set| set.get_mut(way)) {
            *last = taken.max(1);
        }
    }
}
