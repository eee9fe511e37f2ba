//! Next deadlines of ports, so that idle ports cost nothing.

use pathmark_cc::Instant;

/// Up to this many ports, scanning all of them is cheaper than keeping order.
const FEW: usize = 8;

/// Stores one time per port, with quick access to the earliest: a binary heap that tracks the
/// place of each port.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Ports in heap order, the earliest first.
    heap: Vec<usize>,
    /// By port: its place in the heap, and its time.
    ports: Vec<(usize, Instant)>,
}

impl Deadlines {
    /// Replaces everything by these times, one per port.
    pub(super) fn reset(&mut self, times: impl Iterator<Item = Instant>) {
        self.ports = times.enumerate().collect();
        self.heap = (0..self.ports.len()).collect();
        for place in (0..self.heap.len() / 2).rev() {
            self.sink(place);
        }
    }

    /// The earliest time and its port.
    pub(super) fn first(&self) -> Option<(usize, Instant)> {
        if self.ports.len() <= FEW {
            let times = self.ports.iter().enumerate();
            return times
                .map(|(port, (_, at))| (port, *at))
                .min_by_key(|(_, at)| *at);
        }
        let port = *self.heap.first()?;
        Some((port, self.ports.get(port)?.1))
    }

    /// Sets the time of a port.
    pub(super) fn set(&mut self, port: usize, at: Instant) {
        let Some((place, known)) = self.ports.get_mut(port) else {
            return;
        };
        let (place, before) = (*place, std::mem::replace(known, at));
        if self.ports.len() <= FEW {
            return;
        }
        if at < before {
            self.rise(place);
        } else if at > before {
            self.sink(place);
        }
    }

    fn at(&self, place: usize) -> Option<Instant> {
        Some(self.ports.get(*self.heap.get(place)?)?.1)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            if let Some(port) = self.heap.get(place)
                && let Some(known) = self.ports.get_mut(*port)
            {
                known.0 = place;
            }
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.at(place) < self.at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter();
            let below = below
                .filter_map(|below| Some((self.at(below)?, below)))
                .min();
            match below {
                Some((at, below)) if Some(at) < self.at(place) => {
                    self.swap(place, below);
                    place = below;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The first entry is the earliest of all, regardless of earlier changes.
        #[test]
        fn agrees_with_a_list(
            start in prop::collection::vec(0u64..50, 1..40),
            changes in prop::collection::vec((0usize..50, 0u64..50), 0..200),
        ) {
            let mut list = start.clone();
            let mut deadlines = Deadlines::default();
            deadlines.reset(start.into_iter().map(Instant::from_millis));
            for (port, at) in changes {
                deadlines.set(port, Instant::from_millis(at));
                if let Some(known) = list.get_mut(port) {
                    *known = at;
                }
                let (first, at) = deadlines.first().unwrap();
                let earliest = list.iter().min().copied().map(Instant::from_millis);
                prop_assert_eq!(Some(at), earliest);
                prop_assert_eq!(Instant::from_millis(list[first]), at);
                for (port, (place, _)) in deadlines.ports.iter().enumerate() {
                    prop_assert_eq!(deadlines.heap[*place], port);
                }
            }
        }
    }
}
