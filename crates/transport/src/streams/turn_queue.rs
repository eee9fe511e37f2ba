//! The order in which streams send: the highest priority first, and equal priorities in turn. A
//! stream of weight `w` sends `w` packets per turn.
//!
//! Adding and removing cost O(1) within a priority and O(log p) among p priorities in use,
//! regardless of the number of streams. Each stream is queued at most once. A stream that no
//! longer exists is skipped in its turn.

use core::cmp::Reverse;
use core::num::NonZeroU8;
use std::collections::{BTreeMap, VecDeque};

use super::account::mostly_gone;
use crate::wire::StreamId;

/// Streams with something to send.
#[derive(Debug, Default)]
pub struct Schedule {
    /// By descending priority. A queue that becomes empty is kept if no other stream is queued, to
    /// avoid allocations.
    queues: BTreeMap<Reverse<i32>, VecDeque<(StreamId, NonZeroU8)>>,
    len: usize,
    /// Sum of their weights.
    weight: usize,
    /// Packets that the first stream has sent in its turn.
    taken: u8,
}

impl Schedule {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no stream is queued.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the sum of the weights of all entries.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Queues `id` behind the streams of the same priority.
    pub fn push_back(&mut self, (priority, weight): (i32, NonZeroU8), id: StreamId) {
        self.queues
            .entry(Reverse(priority))
            .or_default()
            .push_back((id, weight));
        self.len += 1;
        self.weight += usize::from(weight.get());
    }

    /// Sorts the streams of each priority by their ids, regardless of turns.
    pub(super) fn sort(&mut self) {
        for queue in self.queues.values_mut() {
            queue.make_contiguous().sort_unstable();
        }
        self.taken = 0;
    }

    /// Moves `id` in front of the streams of the same priority.
    pub(super) fn move_to_front(&mut self, id: StreamId) {
        for queue in self.queues.values_mut() {
            if let Some(at) = queue.iter().position(|(waiting, _)| *waiting == id)
                && let Some(entry) = queue.remove(at)
            {
                queue.push_front(entry);
            }
        }
        self.taken = 0;
    }

    /// Removes streams that no longer exist once they make up most of the entries. Otherwise,
    /// they could stay forever behind streams that always have something to send.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        if !mostly_gone(self.len, live) {
            return;
        }
        self.queues.retain(|_, queue| {
            queue.retain(|(id, _)| is_live(id));
            !queue.is_empty()
        });
        self.len = self.queues.values().map(VecDeque::len).sum();
        let entries = self.queues.values().flatten();
        self.weight = entries.map(|(_, weight)| usize::from(weight.get())).sum();
    }

    /// Returns the stream whose turn it is.
    pub fn first(&self) -> Option<StreamId> {
        self.queues
            .values()
            .find_map(|queue| queue.front().map(|(id, _)| *id))
    }

    /// Records that `id` has filled a packet. After the last packet of its turn, it moves
    /// behind the others of its `priority`. Returns true if another stream may be the first
    /// now.
    pub fn rotate(&mut self, (priority, weight): (i32, NonZeroU8), id: StreamId) -> bool {
        let mut waiting = self
            .queues
            .iter_mut()
            .filter(|(_, queue)| !queue.is_empty());
        let Some((Reverse(first), queue)) = waiting.next() else {
            return false;
        };
        let Some(entry) = queue.front_mut().filter(|entry| entry.0 == id) else {
            return false;
        };
        if (*first, entry.1) != (priority, weight) {
            // Its priority or weight has changed since it was queued.
            self.pop();
            self.push_back((priority, weight), id);
            return true;
        }
        self.taken += 1;
        if self.taken < weight.get() {
            return false;
        }
        self.taken = 0;
        let several = queue.len() > 1;
        if several {
            queue.rotate_left(1);
        }
        several
    }

    /// Removes the stream whose turn it is.
    pub fn pop(&mut self) -> Option<StreamId> {
        while let Some(mut queue) = self.queues.first_entry() {
            let entry = queue.get_mut().pop_front();
            // Usually, all streams have the same priority. By keeping its queue, we avoid
            // allocations.
            if queue.get().is_empty() && (entry.is_none() || self.len > 1) {
                queue.remove();
            }
            if let Some((id, weight)) = entry {
                self.len -= 1;
                self.weight -= usize::from(weight.get());
                self.taken = 0;
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::id;

    const ONE: NonZeroU8 = NonZeroU8::MIN;

    #[test]
    fn priority_then_turn() {
        let mut schedule = Schedule::default();
        for (priority, n) in [(0, 1), (-1, 2), (5, 3), (0, 4), (5, 5)] {
            schedule.push_back((priority, ONE), id(n));
        }
        assert_eq!(schedule.len(), 5);
        let order: Vec<_> = core::iter::from_fn(|| schedule.pop()).collect();
        assert_eq!(order, [3, 5, 1, 4, 2].map(id));
        assert!(schedule.is_empty());
    }

    #[test]
    fn equals_are_put_in_order_and_one_in_front_of_them() {
        let mut schedule = Schedule::default();
        schedule.move_to_front(id(5));
        for (priority, n) in [(0, 7), (1, 9), (1, 4), (1, 5), (0, 2)] {
            schedule.push_back((priority, ONE), id(n));
        }
        schedule.sort();
        schedule.move_to_front(id(5));
        schedule.move_to_front(id(7));
        let order: Vec<_> = core::iter::from_fn(|| schedule.pop()).collect();
        assert_eq!(order, [5, 4, 9, 7, 2].map(id));
    }

    #[test]
    fn equals_take_turns() {
        let mut schedule = Schedule::default();
        for n in 0..10_000 {
            schedule.push_back((0, ONE), id(n));
        }
        for turn in 0..30_000 {
            let next = schedule.pop().unwrap();
            assert_eq!(next, id(turn % 10_000));
            schedule.push_back((0, ONE), next);
        }
    }

    #[test]
    fn whose_turn_is_over_goes_behind_its_equals() {
        let mut schedule = Schedule::default();
        schedule.push_back((0, ONE), id(1));
        assert!(!schedule.rotate((0, ONE), id(1)), "alone it stays");
        assert!(!schedule.rotate((0, ONE), id(9)), "not its turn");
        schedule.push_back((0, ONE), id(2));
        schedule.push_back((-3, ONE), id(3));
        assert!(schedule.rotate((0, ONE), id(1)));
        assert_eq!(schedule.first(), Some(id(2)));
        // Its priority has changed since it was queued.
        assert!(schedule.rotate((-7, ONE), id(2)));
        let order: Vec<_> = core::iter::from_fn(|| schedule.pop()).collect();
        assert_eq!(order, [1, 3, 2].map(id));
        assert!(!schedule.rotate((0, ONE), id(1)));
    }

    #[test]
    fn a_queue_left_empty_does_not_hide_others() {
        let mut schedule = Schedule::default();
        for n in 0..3 {
            schedule.push_back((7, ONE), id(n));
            assert_eq!(schedule.pop(), Some(id(n)));
            schedule.push_back((1, ONE), id(n));
            assert_eq!(schedule.pop(), Some(id(n)));
        }
        assert_eq!(schedule.pop(), None);
        assert!(schedule.queues.len() <= 1);
    }

    #[test]
    fn a_turn_has_as_many_packets_as_the_weight() {
        let weight = |n: u64| NonZeroU8::new([1, 3, 2][n as usize]).unwrap();
        let mut schedule = Schedule::default();
        for n in 0..3 {
            schedule.push_back((0, weight(n)), id(n));
        }
        assert_eq!((schedule.len(), schedule.weight()), (3, 6));
        let packets = (0..12).map(|_| {
            let first = schedule.first().unwrap();
            schedule.rotate((0, weight(first.as_u64())), first);
            first.as_u64()
        });
        let packets: Vec<_> = packets.collect();
        assert_eq!(packets, [0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2, 2]);
        // A turn that ends early doesn't affect the next stream.
        schedule.rotate((0, weight(0)), id(0));
        schedule.rotate((0, weight(1)), id(1));
        assert_eq!(schedule.pop(), Some(id(1)));
        assert!(!schedule.rotate((0, weight(2)), id(2)));
        assert!(schedule.rotate((0, weight(2)), id(2)));
        // A changed weight applies immediately, and is included in the sum.
        assert_eq!(schedule.weight(), 3);
        schedule.rotate((0, weight(1)), id(0));
        assert_eq!(schedule.weight(), 5);
    }
}
