//! Table of fixed size with states of flows, selected by a hash of the flow.
//!
//! A hash selects a set of `WAYS` places. The table's owner decides which place belongs to a flow,
//! and when a place may be given to another flow. With one way, all flows of a set count as one.

/// Table with `SETS` sets, which must be a power of two, of `WAYS` places each. Bit `BIT` of the
/// mixed hash is the lowest bit of the set's number.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<T, const SETS: usize, const WAYS: usize, const BIT: u32> {
    sets: Box<[[T; WAYS]; SETS]>,
}

impl<T: Copy, const SETS: usize, const WAYS: usize, const BIT: u32> FlowTable<T, SETS, WAYS, BIT> {
    /// Creates a table in which each place is `empty`.
    pub(crate) fn new(empty: T) -> Self {
        const { assert!(SETS.is_power_of_two() && SETS.ilog2() + BIT <= u32::BITS) };
        let sets = vec![[empty; WAYS]; SETS].try_into();
        Self {
            // Allocated on the heap. The other branch would use the stack, but is never taken.
            sets: sets.unwrap_or_else(|_| Box::new([[empty; WAYS]; SETS])),
        }
    }

    pub(crate) const fn index(flow_hash: u32) -> usize {
        // Hashes may be weak in some bits, so mix every bit.
        (flow_hash.wrapping_mul(0x9E37_79B1) >> BIT) as usize % SETS
    }

    #[allow(clippy::indexing_slicing, reason = "an index is less than SETS")]
    pub(crate) const fn set(&self, flow_hash: u32) -> &[T; WAYS] {
        &self.sets[Self::index(flow_hash)]
    }

    #[allow(clippy::indexing_slicing, reason = "an index is less than SETS")]
    pub(crate) const fn set_mut(&mut self, flow_hash: u32) -> &mut [T; WAYS] {
        &mut self.sets[Self::index(flow_hash)]
    }

    /// Returns the first place of a hash for which `is` returns true, as an index into
    /// [`all`](Self::all).
    pub(crate) fn position(&self, flow_hash: u32, is: impl Fn(&T) -> bool) -> Option<usize> {
        let way = self.set(flow_hash).iter().position(is)?;
        Some(Self::index(flow_hash) * WAYS + way)
    }

    pub(crate) const fn all(&self) -> &[T] {
        self.sets.as_flattened()
    }

    pub(crate) const fn all_mut(&mut self) -> &mut [T] {
        self.sets.as_flattened_mut()
    }
}

impl<T: Copy, const SETS: usize, const BIT: u32> FlowTable<T, SETS, 1, BIT> {
    pub(crate) const fn get(&self, flow_hash: u32) -> &T {
        &self.set(flow_hash)[0]
    }

    pub(crate) const fn get_mut(&mut self, flow_hash: u32) -> &mut T {
        &mut self.set_mut(flow_hash)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows, and the interval in which each was last seen.
    type Aged = FlowTable<Option<(u32, u64)>, 4, 2, 30>;

    /// Returns the place of `flow` in interval `now`, which is its own, or the first that is free
    /// or wasn't seen for two intervals.
    fn enter(table: &mut Aged, flow: u32, now: u64) -> Option<usize> {
        let own = table.position(flow, |place| place.is_some_and(|(of, _)| of == flow));
        let old = |place: &Option<(u32, u64)>| place.is_none_or(|(_, seen)| seen + 2 < now);
        let place = own.or_else(|| table.position(flow, old))?;
        table.all_mut()[place] = Some((flow, now));
        Some(place)
    }

    fn of_set(set: usize) -> [u32; 4] {
        let mut flows = (0..).filter(|flow| Aged::index(*flow) == set);
        [(); 4].map(|()| flows.next().unwrap())
    }

    #[test]
    fn a_full_set_has_room_once_a_flow_has_aged_the_first_place_first() {
        let mut table = Aged::new(None);
        for set in 0..4 {
            let [a, b, c, d] = of_set(set);
            let turns = [
                (a, 10),
                (b, 10),
                (c, 12),
                (b, 12),
                (c, 13),
                (a, 13),
                (d, 16),
            ];
            let ways = turns.map(|(flow, now)| enter(&mut table, flow, now));
            let first = Some(2 * set);
            let second = Some(2 * set + 1);
            assert_eq!(ways, [first, second, None, second, first, None, first]);
            assert_eq!(table.set(a), &[Some((d, 16)), Some((b, 12))]);
        }
        assert!(table.all().iter().all(Option::is_some));
    }

    #[test]
    fn flows_of_one_set_share_its_only_place() {
        let mut table = FlowTable::<u64, 4, 1, 30>::new(7);
        for flow in of_set(3) {
            *table.get_mut(flow) += 1;
        }
        assert_eq!(table.all(), [7, 7, 7, 11]);
        assert_eq!(of_set(3).map(|flow| *table.get(flow)), [11; 4]);
    }

    /// Ports depend on which flows share a place. 2 · 0x9E3779B1 is 0x3C6EF362.
    #[test]
    fn the_bits_of_a_set_are_these() {
        let narrow = [1, 2].map(FlowTable::<u8, 1024, 1, 22>::index);
        assert_eq!(narrow, [0x278, 0xF1]);
        assert_eq!([1, 2].map(FlowTable::<u8, 256, 1, 8>::index), [0x79, 0xF3]);
        assert_eq!([1, 2].map(FlowTable::<u8, 32, 8, 16>::index), [0x17, 0x0E]);
    }
}
