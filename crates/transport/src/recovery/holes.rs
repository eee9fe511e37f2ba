//! Packet numbers that acknowledgements skipped, in ascending order.

use std::collections::VecDeque;

/// Capacity that is always kept.
const KEPT: usize = 512;

/// Ascending packet numbers, each with a value, from which the descending ranges of an ACK
/// frame remove entries.
///
/// A frame is one [`Sweep`]. Its ranges search downwards in steps that double, so a frame whose
/// gaps are exactly these holes costs a few steps per range, however many holes there are. A
/// removed hole remains as a mark, which later sweeps skip, until marks fill half of the queue.
/// Removing a single hole therefore does not require a walk over all others.
#[derive(Debug)]
pub(super) struct Holes<T> {
    /// The first hole is never a mark.
    queue: VecDeque<Hole<T>>,
    taken: usize,
    /// Holes visited or moved, for tests.
    #[cfg(test)]
    steps: core::cell::Cell<u64>,
}

#[derive(Debug)]
struct Hole<T> {
    number: u64,
    /// Whether a hole between this one and the previous one was taken.
    follows_taken: bool,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Open(T),
    /// Taken, as are the `run - 1` holes before it.
    Taken {
        run: usize,
    },
}

/// Position of a sweep, which follows the ranges of one ACK frame.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Holes at or above this index are above all remaining ranges.
    cursor: usize,
    taken: bool,
}

impl Sweep {
    /// Returns true if no hole is left below, so that further ranges can be ignored.
    pub(super) const fn done(&self) -> bool {
        self.cursor == 0
    }
}

impl<T> Holes<T> {
    pub(super) const fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            taken: 0,
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        }
    }

    /// Returns the length of the queue, including taken holes.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn push(&mut self, number: u64, value: T) {
        self.queue.push_back(Hole {
            number,
            follows_taken: false,
            state: State::Open(value),
        });
    }

    /// Marks the last hole as following an acknowledged packet.
    pub(super) fn mark_last(&mut self) {
        if let Some(last) = self.queue.back_mut() {
            last.follows_taken = true;
        }
    }

    /// Returns the first hole, and whether it follows a taken one.
    pub(super) fn front(&self) -> Option<(u64, bool, &T)> {
        let hole = self.queue.front()?;
        match &hole.state {
            State::Open(value) => Some((hole.number, hole.follows_taken, value)),
            State::Taken { .. } => None,
        }
    }

    pub(super) fn pop(&mut self) {
        self.queue.pop_front();
        self.clear_front();
        self.give_back();
    }

    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.taken = 0;
    }

    /// Reverses the holes from index `from`, which were pushed in descending order.
    pub(super) fn reverse_from(&mut self, from: usize) {
        let (mut low, mut high) = (from, self.queue.len());
        while low + 1 < high {
            high -= 1;
            self.queue.swap(low, high);
            low += 1;
        }
    }

    pub(super) fn sweep(&self) -> Sweep {
        Sweep {
            cursor: self.queue.len(),
            taken: false,
        }
    }

    /// Takes the holes in `first..=last` from the top. The ranges of a sweep must descend.
    pub(super) fn take(
        &mut self,
        sweep: &mut Sweep,
        first: u64,
        last: u64,
        mut each: impl FnMut(u64, T),
    ) {
        self.descend(sweep, last);
        let top = sweep.cursor;
        while let Some(index) = sweep.cursor.checked_sub(1) {
            let Some(hole) = self.queue.get_mut(index).filter(|h| h.number >= first) else {
                break;
            };
            let taken = State::Taken { run: 1 };
            match core::mem::replace(&mut hole.state, taken) {
                State::Taken { run } => {
                    hole.state = State::Taken { run };
                    sweep.cursor = (index + 1).saturating_sub(run);
                }
                State::Open(value) => {
                    sweep.cursor = index;
                    sweep.taken = true;
                    self.taken += 1;
                    each(hole.number, value);
                }
            }
            self.count_step();
        }
        self.join(top, sweep.cursor);
    }

    /// Joins the runs of taken holes in `bottom..top`, so that later walks skip them in one
    /// step.
    fn join(&mut self, top: usize, bottom: usize) {
        let mut index = top;
        while index > bottom {
            let Some(State::Taken { run }) =
                self.queue.get_mut(index - 1).map(|hole| &mut hole.state)
            else {
                break;
            };
            let next = index.saturating_sub(*run);
            *run = index - bottom;
            index = next;
        }
    }

    /// Moves the cursor below every hole above `last`, by steps that double followed by a
    /// binary search.
    fn descend(&self, sweep: &mut Sweep, last: u64) {
        let above = |index: usize| self.queue.get(index).is_some_and(|h| h.number > last);
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

    pub(super) fn close(&mut self, sweep: &Sweep) {
        if !sweep.taken {
            return;
        }
        self.clear_front();
        if self.taken > self.queue.len() / 2 {
            let mut follows = false;
            for _ in 0..self.queue.len() {
                self.count_step();
            }
            self.queue.retain_mut(|hole| {
                let open = matches!(hole.state, State::Open(_));
                hole.follows_taken |= open && follows;
                follows = !open;
                open
            });
            self.taken = 0;
        }
        self.give_back();
    }

    /// Removes taken holes in front of the first open one.
    fn clear_front(&mut self) {
        let mut follows = false;
        while let Some(hole) = self.queue.front_mut() {
            if matches!(hole.state, State::Open(_)) {
                hole.follows_taken |= follows;
                break;
            }
            follows = true;
            self.taken -= 1;
            self.queue.pop_front();
        }
    }

    fn count_step(&self) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
    }

    /// Releases the memory of a burst of losses once every loss is resolved.
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
        /// Set and set difference are the reference.
        #[test]
        fn takes_what_a_set_would(
            numbers in prop::collection::btree_set(0u64..400, 0..120),
            frames in prop::collection::vec(prop::collection::btree_set(0u64..400, 0..60), 1..6),
            pop: bool,
        ) {
            let mut set: BTreeSet<u64> = numbers.clone();
            let mut holes = Holes::new();
            for &n in numbers.iter().rev() {
                holes.push(n, ());
            }
            holes.reverse_from(0);
            let mut marked: BTreeSet<u64> = BTreeSet::new();
            for cuts in frames {
                let cuts: Vec<u64> = cuts.into_iter().rev().collect();
                let mut sweep = holes.sweep();
                let mut taken = Vec::new();
                for pair in cuts.chunks_exact(2) {
                    holes.take(&mut sweep, pair[1], pair[0], |n, ()| taken.push(n));
                }
                holes.close(&sweep);
                let expected: Vec<u64> = set.iter().rev().copied()
                    .filter(|n| cuts.chunks_exact(2).any(|p| (p[1]..=p[0]).contains(n)))
                    .collect();
                prop_assert_eq!(&taken, &expected);
                for n in &taken {
                    set.remove(n);
                    marked.remove(n);
                }
                for n in taken {
                    marked.extend(set.range(n..).next());
                }
                if pop && let Some(first) = set.pop_first() {
                    prop_assert_eq!(holes.front().map(|(n, ..)| n), Some(first));
                    holes.pop();
                }
            }
            for n in set {
                prop_assert_eq!(holes.front(), Some((n, marked.contains(&n), &())));
                holes.pop();
            }
            prop_assert_eq!((holes.front(), holes.len(), holes.taken), (None, 0, 0));
        }
    }

    /// A peer that acknowledges holes one by one, in any order, doesn't cause walks over the
    /// whole queue.
    #[test]
    fn one_at_a_time_is_not_quadratic() {
        const N: u64 = 1 << 15;
        let orders: [fn(u64) -> u64; 4] = [
            |i| i,
            |i| N - 1 - i,
            |i| (i + N / 3) % N,
            |i| (i * 7919) % N,
        ];
        for order in orders {
            let mut holes = Holes::new();
            for n in 0..N {
                holes.push(2 * n, ());
            }
            let mut taken = 0;
            for i in 0..N {
                // A frame may repeat adjacent packets that were acknowledged before.
                let n = 2 * order(i);
                for from in [n, n.saturating_sub(2 * i)] {
                    let (first, last) = if i % 64 == 0 { (from, n) } else { (n, n) };
                    let mut sweep = holes.sweep();
                    holes.take(&mut sweep, first, last, |_, ()| taken += 1);
                    holes.close(&sweep);
                }
            }
            assert_eq!((taken, holes.len()), (N, 0));
            assert!(holes.steps.get() <= 16 * N, "{} steps", holes.steps.get());
        }
    }

    /// At most half of the queue is marks, and a burst's memory is released once all its losses
    /// are resolved.
    #[test]
    fn what_was_taken_takes_no_memory_for_long() {
        const N: u64 = 10_000;
        for open in [1, 10, 1000] {
            let mut holes = Holes::new();
            for n in 0..N {
                holes.push(n, ());
            }
            // The first holes stay open, so no mark is removed at the front.
            let mut taken = 0;
            for last in (0..(N - open) / 3).map(|n| N - 1 - 3 * n) {
                let mut sweep = holes.sweep();
                holes.take(&mut sweep, last - 2, last, |_, ()| taken += 1);
                holes.close(&sweep);
                assert!(holes.len() as u64 <= 2 * (N - taken) + 1);
            }
            assert_eq!(taken, (N - open) / 3 * 3);
            let mut sweep = holes.sweep();
            holes.take(&mut sweep, 0, N, |_, ()| taken += 1);
            holes.close(&sweep);
            assert_eq!((taken, holes.len()), (N, 0));
            assert!(holes.queue.capacity() <= KEPT);
        }
    }
}
