//! First in, first out, dropping packets on arrival if they do not fit.

use std::collections::VecDeque;

use pathmark_cc::Instant;

use super::{Depth, Limit, Popped, Pushed, Queue, Queued};
use crate::owner::Owner;
use crate::stats::DropCause;

/// Number of elements for which an empty queue keeps memory.
const KEPT: usize = 1 << 14;

/// Releases the memory of a queue whose last element is about to be taken, if it is large. Since
/// each element pays for a part of this at most once, the mean cost per element does not increase.
#[inline]
pub(crate) fn release_before_last<T>(items: &mut VecDeque<T>) {
    if items.len() == 1 && items.capacity() > KEPT {
        release(items);
    }
}

/// A separate function keeps the code on the common path small.
#[cold]
#[inline(never)]
fn release<T>(items: &mut VecDeque<T>) {
    items.shrink_to_fit();
}

/// A FIFO with a limit in packets or bytes.
#[derive(Debug)]
pub struct DropTail<P> {
    items: VecDeque<Queued<P>>,
    depth: Depth,
    limit: Limit,
}

impl<P> DropTail<P> {
    /// Creates an empty queue. Memory is allocated on first use, and mostly released once the queue
    /// is empty.
    pub fn new(limit: Limit) -> Self {
        Self {
            items: VecDeque::new(),
            depth: Depth::default(),
            limit,
        }
    }

    pub(crate) fn put(&mut self, item: Queued<P>) {
        self.depth.bytes += u64::from(item.arrival.bytes);
        self.depth.packets += u64::from(item.packets);
        self.items.push_back(item);
    }

    pub(crate) fn take(&mut self) -> Option<Queued<P>> {
        release_before_last(&mut self.items);
        let item = self.items.pop_front()?;
        self.forget(&item);
        Some(item)
    }

    pub(crate) fn take_youngest(&mut self) -> Option<Queued<P>> {
        let item = self.items.pop_back()?;
        self.forget(&item);
        Some(item)
    }

    pub(crate) fn newest(&self) -> Option<&Queued<P>> {
        self.items.back()
    }

    #[inline]
    pub(crate) const fn waiting(&self) -> Depth {
        self.depth
    }

    fn forget(&mut self, item: &Queued<P>) {
        self.depth.bytes -= u64::from(item.arrival.bytes);
        self.depth.packets -= u64::from(item.packets);
    }
}

impl<P: Send> Queue<P> for DropTail<P> {
    fn push(&mut self, _now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        if self.limit.admits(self.depth, item.arrival.bytes) {
            self.put(item);
            Pushed::Queued
        } else {
            owner.dropped(item.packet, DropCause::QueueFull);
            Pushed::Dropped(DropCause::QueueFull)
        }
    }

    fn pop(&mut self, _now: Instant, _owner: &mut dyn Owner<P>) -> Popped<P> {
        Popped {
            item: self.take(),
            dropped: 0,
        }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        self.take_youngest()
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        self.newest()
    }

    fn depth(&self) -> Depth {
        self.waiting()
    }

    fn takes_whole(&self, packets: u32, bytes: u32) -> bool {
        self.limit.admits_run(self.depth, packets, bytes)
    }

    fn limit(&self) -> Limit {
        self.limit
    }

    fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Log, queued};
    use proptest::prelude::*;

    fn item(id: u32, bytes: u32) -> Queued<u32> {
        queued(id, bytes, Instant::ZERO)
    }

    #[test]
    fn counts_packets_or_bytes() {
        let mut log = Log::default();
        let mut queue = DropTail::new(Limit::Packets(2));
        for id in 0..3 {
            queue.push(Instant::ZERO, item(id, 1500), &mut log);
        }
        assert_eq!(log.drops, [(2, DropCause::QueueFull)]);
        let mut queue = DropTail::new(Limit::Bytes(3000));
        for id in 0..3 {
            queue.push(Instant::ZERO, item(id, 1500), &mut log);
        }
        assert_eq!(queue.depth().bytes, 3000);
        assert_eq!(log.drops.len(), 2);
    }

    #[test]
    fn one_bdp_of_the_demo_path() {
        let rtt = core::time::Duration::from_millis(400);
        assert_eq!(Limit::bdp(1000, 1_250_000, rtt), Limit::Bytes(500_000));
    }

    proptest! {
        /// Enqueued = dequeued + queued, in order, with drops only if full.
        #[test]
        fn conserves_packets(
            limit in 1u64..20_000,
            steps in prop::collection::vec(prop::option::of(20u32..3000), 1..300),
        ) {
            let mut queue = DropTail::new(Limit::Bytes(limit));
            let (mut log, mut model) = (Log::default(), VecDeque::new());
            for (id, step) in (0u32..).zip(steps) {
                if let Some(bytes) = step {
                    let held: u64 = model.iter().map(|&(_, b): &(u32, u32)| u64::from(b)).sum();
                    let fits = held + u64::from(bytes) <= limit;
                    let pushed = queue.push(Instant::ZERO, item(id, bytes), &mut log);
                    prop_assert_eq!(pushed == Pushed::Queued, fits);
                    if fits { model.push_back((id, bytes)); }
                } else {
                    let popped = queue.pop(Instant::ZERO, &mut log).item.map(|i| i.packet);
                    prop_assert_eq!(popped, model.pop_front().map(|(id, _)| id));
                }
                prop_assert_eq!(queue.depth().packets, model.len() as u64);
            }
        }
    }
}
