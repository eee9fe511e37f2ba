//! Flows that carried feedback lately.
//!
//! A sender may put its request in front of some of its packets only. The others must not overtake these, nor the other way round, so a
//! separated port keeps a flow in one queue: that of feedback, as long as some of its packets carry it.

use pathmark_cc::{Arrival, Carried, Instant};

/// Slots of the table, 64 KiB. Where two flows share one, only the packets with feedback of the one that was heard before the other
/// stay in the class; the rest is foreign until the next of them, as if there were no table.
const SLOTS: usize = 1 << 12;
/// A flow is forgotten after this time without feedback. Senders let no round trip pass without a request.
const MEMORY_NANOS: u64 = 5_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    flow_hash: u32,
    at: Instant,
}

/// A table of bounded size, by the hash of a flow.
#[derive(Debug)]
pub(super) struct HeardFlows {
    slots: Box<[Slot]>,
}

impl HeardFlows {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into_boxed_slice(),
        }
    }

    /// A packet arrived. True if its flow carries feedback.
    #[inline]
    pub(super) fn note(&mut self, now: Instant, arrival: &Arrival) -> bool {
        if arrival.carried != Carried::Foreign
            && let Some(slot) = self.slots.get_mut(index(arrival.flow_hash))
        {
            *slot = Slot {
                flow_hash: arrival.flow_hash,
                at: now,
            };
        }
        self.knows(now, arrival)
    }

    /// True if this packet carries feedback, or others of its flow did lately.
    #[inline]
    pub(super) fn knows(&self, now: Instant, arrival: &Arrival) -> bool {
        let lately = |slot: &Slot| {
            slot.at > Instant::ZERO
                && slot.flow_hash == arrival.flow_hash
                && now.as_nanos().saturating_sub(slot.at.as_nanos()) < MEMORY_NANOS
        };
        arrival.carried != Carried::Foreign
            || self.slots.get(index(arrival.flow_hash)).is_some_and(lately)
    }
}

#[inline]
const fn index(flow_hash: u32) -> usize {
    flow_hash as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use pathmark_cc::VcpCarried;

    use super::*;

    fn packet(flow_hash: u32, carried: Carried) -> Arrival {
        Arrival {
            bytes: 1000,
            flow_hash,
            carried,
        }
    }

    #[test]
    fn a_flow_belongs_to_the_class_as_long_as_it_carries_feedback() {
        let vcp = Carried::Vcp(VcpCarried::default());
        let mut flows = HeardFlows::new();
        let at = Instant::from_millis;
        assert!(
            !flows.note(at(1), &packet(0, Carried::Foreign)),
            "an empty slot is no flow's"
        );
        assert!(!flows.note(at(1), &packet(7, Carried::Foreign)));
        assert!(flows.note(at(2), &packet(7, vcp)));
        assert!(flows.note(at(4000), &packet(7, Carried::Foreign)));
        assert!(!flows.note(at(4000), &packet(8, Carried::Foreign)));
        assert!(!flows.note(at(5002), &packet(7, Carried::Foreign)));
        // The slot is another's now.
        assert!(flows.note(at(5003), &packet(7, vcp)));
        assert!(flows.note(at(5004), &packet(7 + (1 << 12), vcp)));
        assert!(!flows.note(at(5005), &packet(7, Carried::Foreign)));
    }
}
