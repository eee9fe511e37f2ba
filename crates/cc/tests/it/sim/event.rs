//! What happens, in order of time; ties in order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pathmark_cc::Instant;

use super::hop::Packet;
use super::receiver::Ack;

#[derive(Debug)]
pub(crate) enum Event {
    Start(usize),
    Wake(usize, u64),
    Arrive(usize, Packet),
    Transmitted(usize),
    HopTimer(usize),
    Deliver(Packet),
    AckTimer(usize, u64),
    Ack(usize, Box<Ack>),
    Probe(usize, u64),
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    scheduled: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.heap.push(Reverse(Entry {
            at,
            order: self.scheduled,
            event,
        }));
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}
