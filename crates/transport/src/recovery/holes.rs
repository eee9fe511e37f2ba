//! Packet numbers that acknowledgements jumped over, in ascending order.

use std::collections::VecDeque;

/// Holes whose memory is never worth giving back.
const KEPT: usize = 512;

/// Ascending packet numbers, each with a value, from which the descending ranges of an ACK frame take.
///
/// One frame is one [`Sweep`]: its ranges gallop down from the top, so that a frame whose gaps are just these
/// holes costs a few steps per range however many holes there are. What was taken is closed up once at the end.
#[derive(Debug)]
pub(super) struct Holes<T> {
    queue: VecDeque<(u64, Option<T>)>,
}

/// Position of one ACK frame's descent.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Holes at or above this index lie above the ranges still to come.
    cursor: usize,
    /// Least index taken so far.
    lowest: Option<usize>,
}

impl Sweep {
    /// True if no hole lies below: further ranges can be ignored.
    #[inline]
    pub(super) const fn done(&self) -> bool {
        self.cursor == 0
    }
}

impl<T> Holes<T> {
    pub(super) const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub(super) fn push(&mut self, number: u64, value: T) {
        self.queue.push_back((number, Some(value)));
    }

    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.queue.back_mut()?.1.as_mut()
    }

    #[inline]
    pub(super) fn front(&self) -> Option<(u64, &T)> {
        let (number, value) = self.queue.front()?;
        Some((*number, value.as_ref()?))
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        let (number, value) = self.queue.pop_front()?;
        self.give_back();
        Some((number, value?))
    }

    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
    }

    /// Puts the holes from index `from` on, which were pushed in descending order, into ascending order.
    pub(super) fn reverse_from(&mut self, from: usize) {
        let (mut low, mut high) = (from, self.queue.len());
        while low + 1 < high {
            high -= 1;
            self.queue.swap(low, high);
            low += 1;
        }
    }

    #[inline]
    pub(super) fn sweep(&self) -> Sweep {
        Sweep {
            cursor: self.queue.len(),
            lowest: None,
        }
    }

    /// Takes the holes in `first..=last`, from the top. Ranges of one sweep descend.
    pub(super) fn take(
        &mut self,
        sweep: &mut Sweep,
        first: u64,
        last: u64,
        mut each: impl FnMut(u64, T),
    ) {
        self.descend(sweep, last);
        while let Some(index) = sweep.cursor.checked_sub(1) {
            let Some((number, value)) = self.queue.get_mut(index) else {
                break;
            };
            if *number < first {
                break;
            }
            sweep.cursor = index;
            if let Some(value) = value.take() {
                sweep.lowest = Some(index);
                each(*number, value);
            }
        }
    }

    /// Moves the cursor below every hole above `last`: steps that double, then a binary search between.
    fn descend(&self, sweep: &mut Sweep, last: u64) {
        let above = |index: usize| self.queue.get(index).is_some_and(|(n, _)| *n > last);
        let mut high = sweep.cursor;
        let mut step = 1;
        let mut low = 0;
        while high > 0 {
            let probe = high.saturating_sub(step);
            if above(probe) {
                high = probe;
                step *= 2;
            } else {
                low = probe + 1;
                break;
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if above(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        sweep.cursor = high;
    }

    /// Closes the gaps that `sweep` left. `after_taken` is shown each hole that now follows a taken one.
    pub(super) fn close(&mut self, sweep: &Sweep, mut after_taken: impl FnMut(&mut T)) {
        let Some(lowest) = sweep.lowest else {
            return;
        };
        let mut write = lowest;
        let mut taken_before = false;
        for read in lowest..self.queue.len() {
            match self.queue.get_mut(read) {
                Some((_, Some(value))) => {
                    if core::mem::take(&mut taken_before) {
                        after_taken(value);
                    }
                    self.queue.swap(read, write);
                    write += 1;
                }
                _ => taken_before = true,
            }
        }
        self.queue.truncate(write);
        self.give_back();
    }

    /// Memory of a burst of losses goes back once they are dealt with.
    #[inline]
    fn give_back(&mut self) {
        if self.queue.is_empty() && self.queue.capacity() > KEPT {
            self.queue.shrink_to(KEPT / 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A set and set difference are the oracle.
        #[test]
        fn takes_what_a_set_would(
            numbers in prop::collection::btree_set(0u64..400, 0..120),
            frames in prop::collection::vec(prop::collection::btree_set(0u64..400, 0..60), 1..6),
        ) {
            let mut set: BTreeSet<u64> = numbers.clone();
            let mut holes = Holes::new();
            for &n in numbers.iter().rev() {
                holes.push(n, false);
            }
            holes.reverse_from(0);
            for cuts in frames {
                let cuts: Vec<u64> = cuts.into_iter().rev().collect();
                let mut sweep = holes.sweep();
                let mut taken = Vec::new();
                for pair in cuts.chunks_exact(2) {
                    holes.take(&mut sweep, pair[1], pair[0], |n, _| taken.push(n));
                }
                holes.close(&sweep, |v| *v = true);
                let expected: Vec<u64> = set.iter().rev().copied()
                    .filter(|n| cuts.chunks_exact(2).any(|p| (p[1]..=p[0]).contains(n)))
                    .collect();
                prop_assert_eq!(&taken, &expected);
                for n in taken {
                    set.remove(&n);
                    if let Some(next) = set.range(n..).next() {
                        let marked = holes.queue.iter().find(|(m, _)| m == next).unwrap().1;
                        prop_assert_eq!(marked, Some(true));
                    }
                }
                let left: Vec<u64> = holes.queue.iter().map(|(n, _)| *n).collect();
                prop_assert_eq!(left, set.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
