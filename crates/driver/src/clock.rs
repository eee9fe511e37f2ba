//! Real time for the sans-I/O core, and sets of deadlines with fast access to the earliest: binary
//! heaps whose entries know their positions.

use std::sync::OnceLock;
use std::time;

use slab::Slab;

use pathmark_transport::{Duration, Instant};

/// Deadlines, each with an item that is returned once it has passed. Setting, clearing and taking a
/// deadline takes O(log n), and only allocates if there were never as many.
#[derive(Debug)]
pub(super) struct Deadlines<T> {
    /// Deadlines by key.
    registered: Slab<Registered<T>>,
    /// A heap of deadlines with their keys, beginning with the earliest.
    heap: Vec<(Instant, usize)>,
}

#[derive(Debug)]
struct Registered<T> {
    /// Position in the heap, if a deadline is set.
    at: Option<usize>,
    item: Option<T>,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self {
            registered: Slab::new(),
            heap: Vec::new(),
        }
    }
}

impl<T> Deadlines<T> {
    /// Returns a key for which deadlines can be set. The caller must [remove](Self::remove) it.
    pub(super) fn add(&mut self) -> usize {
        self.registered.insert(Registered {
            at: None,
            item: None,
        })
    }

    pub(super) fn remove(&mut self, key: usize) {
        self.clear(key);
        self.registered.try_remove(key);
    }

    pub(super) fn set(&mut self, key: usize, deadline: Instant, item: T) {
        let Some(known) = self.registered.get_mut(key) else {
            return;
        };
        known.item = Some(item);
        let at = match known.at {
            Some(at) => {
                if let Some(entry) = self.heap.get_mut(at) {
                    entry.0 = deadline;
                }
                at
            }
            None => {
                self.heap.push((deadline, key));
                self.heap.len() - 1
            }
        };
        self.settle(at);
    }

    /// Clears the deadline of `key`, which can be set again.
    pub(super) fn clear(&mut self, key: usize) {
        let Some(known) = self.registered.get_mut(key) else {
            return;
        };
        known.item = None;
        if let Some(at) = known.at.take() {
            self.take_out(at);
        }
    }

    /// Returns the earliest deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.heap.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the item of the earliest deadline if this has passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<T> {
        let (deadline, key) = *self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.take_out(0);
        let known = self.registered.get_mut(key)?;
        known.at = None;
        known.item.take()
    }

    /// Removes and returns the items of all deadlines, which can be set again.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.heap.clear();
        let registered = self.registered.iter_mut().map(|(_, known)| known);
        registered
            .filter_map(|known| {
                known.at = None;
                known.item.take()
            })
            .collect()
    }

    fn take_out(&mut self, at: usize) {
        if at < self.heap.len() {
            self.heap.swap_remove(at);
        }
        if at < self.heap.len() {
            self.settle(at);
        }
    }

    /// Moves the entry at `at` to its correct position.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.deadline(at) < self.deadline((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let child = if self.deadline(right) < self.deadline(left) {
                right
            } else {
                left
            };
            if self.deadline(child) >= self.deadline(at) {
                break;
            }
            self.swap(at, child);
            at = child;
        }
        self.note(at);
    }

    /// Returns the deadline at `at`. Positions beyond the end count as later than all others.
    fn deadline(&self, at: usize) -> Instant {
        self.heap
            .get(at)
            .map_or(Instant::from_nanos(u64::MAX), |(deadline, _)| *deadline)
    }

    fn swap(&mut self, at: usize, other: usize) {
        self.heap.swap(at, other);
        self.note(at);
        self.note(other);
    }

    /// Records the position of the entry at `at`.
    fn note(&mut self, at: usize) {
        if let Some((_, key)) = self.heap.get(at)
            && let Some(known) = self.registered.get_mut(*key)
        {
            known.at = Some(at);
        }
    }
}

/// Returns the time of the clock that drives this process's connections, which starts at 1 s with
/// the first call.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub fn now() -> Instant {
    static EPOCH: OnceLock<time::Instant> = OnceLock::new();
    let since = EPOCH.get_or_init(time::Instant::now).elapsed();
    // Starting above zero, the epoch, leaves room below for arithmetic.
    Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
        + Duration::from_secs(1)
}

/// Returns the Unix time, which tokens use for their expiry.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub(super) fn unix_time() -> Duration {
    time::SystemTime::now()
        .duration_since(time::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        Add,
        Remove(usize),
        Set(usize, u64),
        Clear(usize),
        Take(u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            2 => Just(Act::Add),
            1 => (0..20usize).prop_map(Act::Remove),
            6 => (0..20usize, 1..50u64).prop_map(|(key, at)| Act::Set(key, at)),
            1 => (0..20usize).prop_map(Act::Clear),
            2 => (1..50u64).prop_map(Act::Take),
        ];
        proptest::collection::vec(act, 0..300)
    }

    proptest! {
        /// Compares the heap with a table that is searched linearly.
        #[test]
        fn the_earliest_comes_first(acts in acts()) {
            let mut deadlines = Deadlines::default();
            let mut keys = Vec::new();
            let mut known: BTreeMap<usize, Instant> = BTreeMap::new();
            for act in acts {
                match act {
                    Act::Add => keys.push(deadlines.add()),
                    Act::Remove(n) if n < keys.len() => {
                        let key = keys.swap_remove(n);
                        deadlines.remove(key);
                        known.remove(&key);
                    }
                    Act::Set(n, at) if n < keys.len() => {
                        let at = Instant::from_millis(at);
                        deadlines.set(keys[n], at, keys[n]);
                        known.insert(keys[n], at);
                    }
                    Act::Clear(n) if n < keys.len() => {
                        deadlines.clear(keys[n]);
                        known.remove(&keys[n]);
                    }
                    Act::Take(now) => {
                        let now = Instant::from_millis(now);
                        while let Some(key) = deadlines.take_due(now) {
                            let first = known.values().min().copied();
                            let taken = known.remove(&key);
                            prop_assert!(taken.is_some_and(|at| at <= now));
                            prop_assert_eq!(taken, first);
                        }
                        prop_assert!(known.values().all(|at| *at > now));
                    }
                    _ => {}
                }
                prop_assert_eq!(deadlines.first(), known.values().min().copied());
                prop_assert_eq!(deadlines.registered.len(), keys.len());
            }
        }
    }
}
