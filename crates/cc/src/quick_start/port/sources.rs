//! Requests of each source, and the use of its grants.

use super::pending::Settled;
use crate::base::Instant;
use crate::base::arith::{nanos, ns_since};
use crate::base::flow_table::FlowTable;
use crate::quick_start::params::{
    FORGIVEN_AFTER, LEAST_PART, PER_SOURCE, REUSE, SOURCE_PERIOD, SOURCES,
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
