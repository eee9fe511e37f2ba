//! Flows that send little: sparse flows (RFC 8290, section 5.2.2).
//!
//! A connection's first packets, a lookup, a call, acknowledgments, a sender that lost most of its
//! window to others: they make no queue of their own, and wait behind the one that larger flows of
//! their class keep. So they pass before those, while each of them sends less than half of what a
//! flow of the class has in the mean, and all of them together less than half of what the class
//! has. None of their packets overtakes an earlier one of the same flow, as long as the flow keeps
//! its place in the table.

use super::{Flows, ONE_FLOW_Q8, Place, SETS, Sums, WAYS, lately};
use crate::core::queue::FULL_PACKET;
use pathmark_cc::Instant;

/// A flow may send so much in an epoch and be sparse, however many flows there are.
const FEW_BYTES: u64 = 4 * FULL_PACKET;

/// What tells sparse flows from others.
#[derive(Debug)]
pub(super) struct Sparse {
    /// The number of each flow's last packet in the queue of its class; 0: none that is known.
    last: Box<[[u32; WAYS]]>,
    heard: Bounds,
    foreign: Bounds,
}

/// What sparse flows of a class may send.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Bytes of each in an epoch.
    each: u64,
    /// Bytes that all of them together may still send in the running epoch.
    left: u64,
}

impl Sparse {
    pub(super) fn new() -> Self {
        Self {
            last: vec![[0; WAYS]; SETS].into_boxed_slice(),
            heard: Bounds::LEAST,
            foreign: Bounds::LEAST,
        }
    }

    /// A place is another flow's.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(last) = self.last_of(place) {
            *last = 0;
        }
    }

    fn last_of(&mut self, place: Place) -> Option<&mut u32> {
        self.last.get_mut(place.set)?.get_mut(place.way)
    }

    const fn bounds(&mut self, heard: bool) -> &mut Bounds {
        if heard {
            &mut self.heard
        } else {
            &mut self.foreign
        }
    }

    /// A new epoch begins, after epochs in which a class sent `sent` bytes each in the mean, in
    /// flows as in `flows`.
    pub(super) fn turn(&mut self, heard: bool, sent: u64, flows: &Sums) {
        let fair = sent * ONE_FLOW_Q8 / flows.flows_q8();
        let Bounds { each, left } = Bounds::LEAST;
        *self.bounds(heard) = Bounds {
            each: each.max(fair / 2),
            left: left.max(sent / 2),
        };
    }
}

impl Bounds {
    const LEAST: Self = Self {
        each: FEW_BYTES,
        left: 2 * FEW_BYTES,
    };
}

impl Flows {
    /// True if the packet that was noted last may pass before the queue of its class, of whose
    /// packets `gone` have left.
    pub(in crate::core) fn passes_first(
        &mut self,
        now: Instant,
        bytes: u32,
        heard: bool,
        gone: u32,
    ) -> bool {
        let Some(place) = self.noted else {
            return false;
        };
        let Some(set) = self.sets.get(place.set) else {
            return false;
        };
        let of = |all: &[u32; WAYS]| all.get(place.way).copied().unwrap_or(u32::MAX);
        let rate = u64::from(of(&set.bytes).max(of(&set.mean)));
        let carries = lately(now, of(&set.heard_ms));
        let bytes = u64::from(bytes);
        let last = self.sparse.last_of(place).map_or(0, |last| *last);
        let bounds = self.sparse.bounds(heard);
        // Flows that carry feedback and are aside come as foreign ones.
        if carries != heard || rate > bounds.each || bytes > bounds.left {
            return false;
        }
        // Numbers come round: half of them are behind.
        let is_gone = last == 0 || gone.wrapping_sub(last) < 1 << 31;
        if is_gone {
            bounds.left -= bytes;
        }
        is_gone
    }

    /// The queue of its class took in the packet that was noted last, as number `taken`.
    pub(in crate::core) fn on_queued(&mut self, taken: u32) {
        if let Some(place) = self.noted
            && let Some(last) = self.sparse.last_of(place)
        {
            *last = taken.max(1);
        }
    }
}
