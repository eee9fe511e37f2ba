//! Deadlines, one per component, in a heap with an index of each component's position.

use pathmark_cc::Instant;

/// Deadlines of components numbered from 0, at most one each.
///
/// Memory depends only on the number of components. If several are due at the same time, the one
/// with the lowest number comes first, so that the order never depends on history.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: Vec<Entry>,
    /// Each component's position in the heap, or [`ABSENT`].
    position: Vec<u32>,
}

type Entry = (Instant, u32);

const ABSENT: u32 = u32::MAX;

impl Agenda {
    /// Creates an agenda without deadlines, for components 0 to `components` - 1.
    pub(super) fn new(components: usize) -> Self {
        Self {
            heap: Vec::with_capacity(components),
            position: vec![ABSENT; components],
        }
    }

    /// The earliest deadline and its component.
    pub(super) fn next(&self) -> Option<Entry> {
        self.heap.first().copied()
    }

    /// Sets, moves or removes the deadline of a component.
    pub(super) fn set(&mut self, component: u32, at: Option<Instant>) {
        let Some(&position) = self.position.get(component as usize) else {
            return;
        };
        match (position, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                self.heap.push((at, component));
                self.rise(self.heap.len() - 1);
            }
            (position, Some(at)) => {
                let position = position as usize;
                let Some(entry) = self.heap.get_mut(position) else {
                    return;
                };
                if entry.0 == at {
                    return;
                }
                let sooner = at < entry.0;
                entry.0 = at;
                if sooner {
                    self.rise(position);
                } else {
                    self.sink(position);
                }
            }
            (position, None) => self.remove(position as usize),
        }
    }

    fn remove(&mut self, position: usize) {
        let last = self.heap.len().saturating_sub(1);
        let (_, component) = self.heap.swap_remove(position);
        if let Some(slot) = self.position.get_mut(component as usize) {
            *slot = ABSENT;
        }
        if position < last {
            self.note(position);
            self.sink(position);
            self.rise(position);
        }
    }

    fn rise(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.precedes(position, parent) {
                break;
            }
            self.swap(position, parent);
            position = parent;
        }
        self.note(position);
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let (left, right) = (2 * position + 1, 2 * position + 2);
            let mut least = position;
            for child in [left, right] {
                if child < self.heap.len() && self.precedes(child, least) {
                    least = child;
                }
            }
            if least == position {
                break;
            }
            self.swap(position, least);
            position = least;
        }
        self.note(position);
    }

    fn precedes(&self, a: usize, b: usize) -> bool {
        match (self.heap.get(a), self.heap.get(b)) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
    }

    /// Updates the index for the entry at `position`.
    fn note(&mut self, position: usize) {
        if let Some(&(_, component)) = self.heap.get(position)
            && let Some(slot) = self.position.get_mut(component as usize)
        {
            *slot = u32::try_from(position).unwrap_or(ABSENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the agenda with a plain table, searched linearly.
        #[test]
        fn agrees_with_a_table(
            steps in prop::collection::vec((0u32..20, prop::option::of(0u64..50)), 1..300),
        ) {
            let mut agenda = Agenda::new(20);
            let mut table = [None; 20];
            for (component, at) in steps {
                let at = at.map(Instant::from_nanos);
                agenda.set(component, at);
                table[component as usize] = at;
                let expected = (0..20u32)
                    .filter_map(|c| table[c as usize].map(|at| (at, c)))
                    .min();
                prop_assert_eq!(agenda.next(), expected);
            }
        }
    }

    #[test]
    fn equals_come_in_order_of_number() {
        let mut agenda = Agenda::new(3);
        for component in [2, 0, 1] {
            agenda.set(component, Some(Instant::from_millis(5)));
        }
        let mut order = Vec::new();
        while let Some((_, component)) = agenda.next() {
            order.push(component);
            agenda.set(component, None);
        }
        assert_eq!(order, [0, 1, 2]);
        agenda.set(7, Some(Instant::ZERO));
        assert_eq!(agenda.next(), None, "unknown components are ignored");
    }
}
