//! Nodes that stall for a while: routers or hosts that get no processor time.
//!
//! Packets that arrive at such a node must wait, and are handed over in order when it resumes. Its
//! ports send nothing, and its endpoints neither send nor look at the clock. Packets already on a
//! wire still arrive.

use std::collections::VecDeque;

use pathmark_cc::Instant;

use super::packet::PacketId;
use crate::scenario::{Scenario, Stall};

/// Stalls of one node in order, each with start and end.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses(Box<[(Instant, Instant)]>);

impl Pauses {
    /// The stalls of node `node`.
    pub(super) fn of(scenario: &Scenario, node: usize) -> Self {
        let own = scenario.stalls.iter().filter(|stall| stall.node == node);
        Self(own.map(times).collect())
    }

    /// The end of the stall that includes `at`, or `at` itself.
    pub(super) fn resume(&self, at: Instant) -> Instant {
        if self.0.is_empty() {
            return at;
        }
        // One stall may start when another ends.
        self.0.iter().fold(at, |at, &(from, until)| {
            if (from..until).contains(&at) {
                until
            } else {
                at
            }
        })
    }
}

fn times(stall: &Stall) -> (Instant, Instant) {
    (Instant::ZERO + stall.from, Instant::ZERO + stall.until)
}

/// All stalls of a run, and the packets that wait meanwhile.
#[derive(Debug)]
pub(super) struct Stalls {
    /// By node.
    pauses: Vec<Pauses>,
    /// Packets waiting at a node, by node.
    held: Vec<VecDeque<PacketId>>,
    /// Ends of stalls with their nodes, latest first.
    ends: Vec<(Instant, usize)>,
}

impl Stalls {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let nodes = if scenario.stalls.is_empty() {
            0
        } else {
            scenario.nodes.len()
        };
        let ends = scenario.stalls.iter().map(|stall| {
            let (_, until) = times(stall);
            (until, stall.node)
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_unstable();
        ends.reverse();
        Self {
            pauses: (0..nodes).map(|node| Pauses::of(scenario, node)).collect(),
            held: vec![VecDeque::new(); nodes],
            ends,
        }
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    /// The end of the stall of `node` that includes `at`, or `at` itself.
    pub(super) fn resume(&self, node: usize, at: Instant) -> Instant {
        self.pauses.get(node).map_or(at, |own| own.resume(at))
    }

    /// Keeps a packet that arrives at `node` if this node is stalled.
    pub(super) fn hold(&mut self, now: Instant, node: usize, packet: PacketId) -> bool {
        let stalls = self.resume(node, now) > now;
        if let Some(held) = self.held.get_mut(node).filter(|_| stalls) {
            held.push_back(packet);
        }
        stalls
    }

    /// When the next stall ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ends.last().map(|(until, _)| *until)
    }

    /// The packets waiting at a node whose stall has ended by `now`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<VecDeque<PacketId>> {
        let &(until, node) = self.ends.last().filter(|(until, _)| *until <= now)?;
        self.ends.pop();
        // Another stall may start when it ends.
        let goes_on = self.resume(node, until) > now;
        match self.held.get_mut(node) {
            Some(held) if !goes_on => Some(std::mem::take(held)),
            _ => Some(VecDeque::new()),
        }
    }
}
