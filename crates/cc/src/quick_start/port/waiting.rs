//! Flows that have recently asked for a starting rate, and the rate that each was not granted.

use crate::base::Instant;

const FLOWS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Asker {
    flow: u32,
    /// Times of its first and its last question, because a denied question is repeated.
    first: Instant,
    at: Instant,
    /// Requested bytes per second that weren't granted.
    unmet: u64,
}

#[derive(Debug)]
pub(super) struct Waiting {
    askers: Box<[Option<Asker>; FLOWS]>,
    next: usize,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            askers: Box::new([None; FLOWS]),
            next: 0,
        }
    }

    /// Adds a question of `flow`, of which `unmet` bytes per second weren't granted.
    pub(super) fn add(&mut self, now: Instant, flow: u32, unmet: u64) {
        let asker = Asker {
            flow,
            first: now,
            at: now,
            unmet,
        };
        let mut known = self.askers.iter_mut().flatten();
        if let Some(known) = known.find(|known| known.flow == flow) {
            *known = Asker {
                first: known.first,
                ..asker
            };
            return;
        }
        if let Some(place) = self.askers.get_mut(self.next) {
            *place = Some(asker);
        }
        self.next = (self.next + 1) % FLOWS;
    }

    /// Returns true if `flow` has asked since `since` and wasn't granted its full request.
    pub(super) fn has(&self, flow: u32, since: Instant) -> bool {
        let mut askers = self.askers.iter().flatten();
        askers.any(|asker| asker.flow == flow && asker.at >= since && asker.unmet > 0)
    }

    /// Returns the number of other flows than `flow` that asked between `since` and `until`, and
    /// the sum of their unmet requests in bytes per second.
    pub(super) fn others(&self, flow: u32, since: Instant, until: Instant) -> (u64, u64) {
        let askers = self.askers.iter().flatten();
        let times = since..=until;
        let asked = |asker: &&Asker| times.contains(&asker.first) || times.contains(&asker.at);
        let others = askers.filter(|asker| asker.flow != flow && asked(asker));
        others.fold((0, 0), |(count, unmet), asker| {
            (count + 1, asker.unmet.saturating_add(unmet))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn each_flow_counts_once_and_the_latest_are_remembered() {
        let mut waiting = Waiting::new();
        assert_eq!(waiting.others(1, at(0), at(90)), (0, 0));
        waiting.add(at(10), 1, 0);
        waiting.add(at(20), 2, 500);
        assert!(waiting.has(2, at(20)) && !waiting.has(2, at(21)));
        assert!(!waiting.has(1, at(0)) && !waiting.has(3, at(0)));
        waiting.add(at(30), 2, 700);
        waiting.add(at(30), 3, u64::MAX);
        assert_eq!(waiting.others(1, at(10), at(90)), (2, u64::MAX));
        assert_eq!(waiting.others(3, at(10), at(90)), (2, 700));
        assert_eq!(waiting.others(3, at(11), at(90)), (1, 700));
        assert_eq!(waiting.others(1, at(31), at(90)), (0, 0));
        assert_eq!(waiting.others(1, at(10), at(29)), (1, 700));
        assert_eq!(waiting.others(1, at(10), at(19)), (0, 0));
        for flow in 100..1000 {
            waiting.add(at(40), flow, 1);
        }
        assert_eq!(waiting.others(1, at(0), at(90)), (64, 64));
    }
}
