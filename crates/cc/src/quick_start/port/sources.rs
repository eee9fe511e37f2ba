//! Requests of each source, and the use of its grants.

use super::pending::Settled;
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{nanos, ns_since};
use crate::base::flow_table::FlowTable;
use crate::base::{Duration, Instant};
use crate::quick_start::{
    FORGIVEN_AFTER, LEAST_PART, PER_SOURCE, REUSE, SAMPLE, SOURCE_PERIOD, SOURCES, UNKNOWN_RTT,
};

/// One source, or several with the same hash.
#[derive(Clone, Copy, Debug)]
struct Source {
    asked: u16,
    /// Maximum granted rate in bytes per second.
    bound: u64,
    bound_at: Instant,
    /// The same values before the last grant was settled.
    before: (u64, Instant),
}

/// Sources by a hash of their address.
#[derive(Debug)]
pub(crate) struct Sources {
    started: Instant,
    sources: FlowTable<Source, SOURCES, 1, 8>,
}

impl Sources {
    pub(crate) fn new(now: Instant) -> Self {
        let source = Source {
            asked: 0,
            bound: u64::MAX,
            bound_at: now,
            before: (u64::MAX, now),
        };
        Self {
            started: now,
            sources: FlowTable::new(source),
        }
    }

    /// Handles a question of `source`. Returns false if there are too many.
    pub(crate) fn admit(&mut self, now: Instant, source: u32) -> bool {
        if ns_since(now, self.started) >= nanos(SOURCE_PERIOD) {
            self.started = now;
            for source in self.sources.all_mut() {
                source.asked = 0;
            }
        }
        let source = self.sources.get_mut(source);
        let admitted = source.asked < PER_SOURCE;
        source.asked += u16::from(admitted);
        admitted
    }

    /// Returns the maximum rate in bytes per second that `source` may be granted.
    pub(crate) fn most(&self, now: Instant, source: u32) -> u64 {
        let source = self.sources.get(source);
        let doublings = ns_since(now, source.bound_at) / nanos(FORGIVEN_AFTER);
        u32::try_from(doublings)
            .ok()
            .filter(|&doublings| doublings <= source.bound.leading_zeros())
            .map_or(u64::MAX, |doublings| source.bound << doublings)
    }

    /// Reverts the latest reduction for `source`, because the answer was lost.
    pub(crate) fn take_back(&mut self, source: u32) {
        let source = self.sources.get_mut(source);
        if source.before.0 > source.bound {
            (source.bound, source.bound_at) = source.before;
        }
    }

    /// Handles the end of a grant at a port with `capacity` bytes per second.
    pub(crate) fn on_settled(&mut self, now: Instant, settled: &Settled, capacity: u64) {
        let before = self.most(now, settled.source);
        let shown = settled.shown.saturating_mul(REUSE);
        let bound = if shown >= settled.granted {
            before.max(settled.granted.saturating_mul(2))
        } else {
            let part = shown.max(settled.granted / REUSE);
            before.min(part.max(capacity / LEAST_PART))
        };
        let source = self.sources.get_mut(settled.source);
        source.before = (source.bound, source.bound_at);
        source.bound = bound;
        source.bound_at = now;
    }
}

// Flows that begin together at a port. The first is granted all free capacity, and returns the
// excess over its share a round trip later, so that the others then get their shares.

/// Round trips after the first grant for which returned rate is dealt out.
const ROUNDS: u32 = 4;

/// The latest flows that began together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Time of the first grant, and the rate that was free at that time in bytes per second.
    at: Instant,
    of: u64,
    lasts: Duration,
    given_back: bool,
    /// Time of the first of the latest questions, and the rate used before it in bytes per second.
    asked: Option<(Instant, u64)>,
}

impl Burst {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            at: now,
            of: 0,
            lasts: Duration::ZERO,
            given_back: false,
            asked: None,
        }
    }

    /// Handles a question that arrived while `used` bytes per second are in use. It may wait in a
    /// queue while the first windows of the asking flows arrive, which must not count in addition
    /// to their grants.
    pub(super) fn on_question(&mut self, now: Instant, used: u64) {
        self.asked = self.asked_lately(now).or(Some((now, used)));
    }

    fn asked_lately(&self, now: Instant) -> Option<(Instant, u64)> {
        self.asked
            .filter(|&(at, _)| ns_since(now, at) < nanos(SAMPLE))
    }

    /// Returns the rate used before the asking flows arrived, given the current usage of `used`.
    pub(super) fn used_before(&self, now: Instant, used: u64) -> u64 {
        let lately = self.asked_lately(now);
        lately.map_or(used, |(_, before)| before.min(used))
    }

    fn lasts(&self, now: Instant) -> bool {
        ns_since(now, self.at) < nanos(self.lasts)
    }

    /// Handles a grant from `free` bytes per second to a flow with an RTT of `rtt`.
    pub(super) fn on_grant(&mut self, now: Instant, free: u64, rtt: Option<Duration>) {
        if !self.lasts(now) {
            *self = Self {
                at: now,
                of: free,
                lasts: rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(ROUNDS),
                given_back: false,
                ..*self
            };
        }
    }

    /// Handles the partial return of a grant made at `at`.
    pub(super) fn on_given_back(&mut self, at: Instant) {
        self.given_back |= at == self.at;
    }

    /// Returns the time since which flows share a start, and the rate in bytes per second that they
    /// share, or `None` if nothing was given back.
    pub(super) fn given_back(&self, now: Instant) -> Option<(Instant, u64)> {
        let shared = self.given_back && self.lasts(now) && !without(Mechanism::Burst);
        shared.then_some((self.at, self.of))
    }
}

#[cfg(test)]
mod burst_tests {
    use super::*;
    use crate::testing::{at, ms};

    #[test]
    fn what_the_first_gives_back_is_there_for_some_round_trips() {
        let mut burst = Burst::new(at(0));
        assert_eq!(burst.given_back(at(0)), None);
        burst.on_grant(at(1000), 850, Some(ms(100)));
        burst.on_grant(at(1050), 20, Some(ms(100)));
        assert_eq!(burst.given_back(at(1060)), None);
        burst.on_given_back(at(1050));
        assert_eq!(burst.given_back(at(1060)), None, "not the first");
        burst.on_given_back(at(1000));
        assert_eq!(burst.given_back(at(1399)), Some((at(1000), 850)));
        assert_eq!(burst.given_back(at(1400)), None);
        burst.on_grant(at(1400), 300, None);
        assert_eq!(burst.given_back(at(1401)), None);
        burst.on_given_back(at(1400));
        assert_eq!(burst.given_back(at(5399)), Some((at(1400), 300)));
        assert_eq!(burst.given_back(at(5400)), None);
    }
}

// Flows that have recently asked for a starting rate, and the rate that each was not granted.

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
mod waiting_tests {
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
