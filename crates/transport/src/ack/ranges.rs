//! Received packet numbers, as ranges (RFC 9000 §13.2.3).

use core::ops::RangeInclusive;
use std::collections::VecDeque;

/// Default limit on ranges: a window of gaps on a long, lossy path, and at worst 64 KiB.
const DEFAULT_LIMIT: usize = 4096;
/// Capacity for ranges that is always kept.
const KEPT: usize = 16;

/// The set of packet numbers received in one packet number space.
///
/// Ranges ascend and never touch. All numbers below the [`floor`](Self::floor) count as
/// received, because pruned numbers can be neither acknowledged again nor accepted twice.
#[derive(Clone, Debug)]
pub struct ReceivedRanges {
    /// First and last number of each range.
    ranges: VecDeque<(u64, u64)>,
    floor: u64,
    largest: Option<u64>,
    limit: usize,
}

impl Default for ReceivedRanges {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl ReceivedRanges {
    /// Creates an empty set that keeps at most the `limit` newest ranges (at least 1).
    pub fn new(limit: usize) -> Self {
        Self {
            ranges: VecDeque::new(),
            floor: 0,
            largest: None,
            limit: limit.max(1),
        }
    }

    /// Adds `number`. Returns false for a duplicate to be dropped, which is in the set already
    /// or below the floor.
    #[inline]
    pub fn insert(&mut self, number: u64) -> bool {
        let fresh = match self.ranges.back_mut() {
            Some((_, last)) if number == last.wrapping_add(1) => {
                *last = number;
                true
            }
            Some((_, last)) if number > *last => self.push(number),
            None if number >= self.floor => self.push(number),
            _ => self.insert_below(number),
        };
        if fresh {
            self.largest = self.largest.max(Some(number));
        }
        fresh
    }

    fn push(&mut self, number: u64) -> bool {
        self.bound_to(self.limit - 1);
        self.ranges.push_back((number, number));
        true
    }

    /// Adds a late arrival, which is usually near the newest range.
    fn insert_below(&mut self, number: u64) -> bool {
        if number < self.floor {
            return false;
        }
        // Ranges before `next` start at or below `number`.
        let next = self.position(number);
        let touches_next = self
            .ranges
            .get(next)
            .is_some_and(|&(first, _)| first == number + 1);
        if let Some(before) = next.checked_sub(1)
            && let Some((_, last)) = self.ranges.get_mut(before)
        {
            if number <= *last {
                return false;
            }
            if number == *last + 1 {
                *last = number;
                if touches_next
                    && let Some((_, end)) = self.ranges.remove(next)
                    && let Some((_, last)) = self.ranges.get_mut(before)
                {
                    *last = end;
                }
                return true;
            }
        }
        match self.ranges.get_mut(next) {
            Some((first, _)) if touches_next => *first = number,
            _ => {
                self.ranges.insert(next, (number, number));
                self.bound_to(self.limit);
            }
        }
        true
    }

    /// Returns how many ranges start at or below `number`.
    fn position(&self, number: u64) -> usize {
        self.ranges.partition_point(|&(first, _)| first <= number)
    }

    fn bound_to(&mut self, limit: usize) {
        while self.ranges.len() > limit {
            if let Some((_, last)) = self.ranges.pop_front() {
                // [9000 13.2.3 ranges-kept]
                self.floor = last + 1;
            }
        }
    }

    /// Removes all numbers up to `number`. The peer knows that these packets arrived, because
    /// it acknowledged an ACK for them (RFC 9000 §13.2.4).
    pub fn prune(&mut self, number: u64) {
        self.floor = self.floor.max(number.saturating_add(1));
        while let Some((first, last)) = self.ranges.front_mut() {
            if *last >= self.floor {
                *first = self.floor.max(*first);
                break;
            }
            self.ranges.pop_front();
        }
        if self.ranges.len() < 8 && self.ranges.capacity() > 256 {
            self.ranges.shrink_to(KEPT);
        }
    }

    /// Returns true if `number` was received or is below the floor.
    pub fn contains(&self, number: u64) -> bool {
        number < self.floor
            || self
                .position(number)
                .checked_sub(1)
                .and_then(|index| self.ranges.get(index))
                .is_some_and(|&(_, last)| number <= last)
    }

    /// Returns the largest number received, even if it was pruned.
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Returns the smallest missing number that is at least `from` and below the largest.
    #[inline]
    pub fn first_missing(&self, from: u64) -> Option<u64> {
        let &(first, _) = self.ranges.back()?;
        let from = from.max(self.floor);
        if first <= from {
            return None;
        }
        match self.position(from).checked_sub(1) {
            None => Some(from),
            Some(index) => {
                let &(_, last) = self.ranges.get(index)?;
                Some(from.max(last + 1))
            }
        }
    }

    /// Returns the floor, below which all numbers count as received.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the maximum number of ranges.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the maximum number of ranges (at least 1). The newest are kept, and memory is
    /// released.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
        self.bound_to(self.limit);
        self.ranges.shrink_to(self.limit.max(KEPT));
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns true if there is nothing to acknowledge.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges in descending order, as listed in an ACK frame.
    pub fn descending(
        &self,
    ) -> impl DoubleEndedIterator<Item = RangeInclusive<u64>> + ExactSizeIterator + Clone + '_ {
        self.ranges.iter().rev().map(|&(first, last)| first..=last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn list(r: &ReceivedRanges) -> Vec<(u64, u64)> {
        r.descending().map(RangeInclusive::into_inner).collect()
    }

    #[test]
    fn merges_and_prunes() {
        // [9000 13.2.3 ranges-kept]
        let mut r = ReceivedRanges::default();
        for n in [0, 1, 5, 3, 9, 4] {
            assert!(r.insert(n), "{n}");
        }
        assert_eq!(list(&r), [(9, 9), (3, 5), (0, 1)]);
        assert!(!r.insert(4) && !r.insert(9) && !r.insert(0));
        assert!(r.insert(2));
        assert_eq!(list(&r), [(9, 9), (0, 5)]);
        assert_eq!((r.first_missing(0), r.first_missing(7)), (Some(6), Some(7)));
        assert_eq!((r.first_missing(9), r.first_missing(20)), (None, None));
        r.prune(3);
        assert_eq!(list(&r), [(9, 9), (4, 5)]);
        assert!(!r.insert(1), "below the floor everything is a duplicate");
        r.prune(20);
        assert_eq!((list(&r), r.largest()), (vec![], Some(9)));
        assert!(!r.insert(15));
        assert!(r.insert(21));
    }

    #[test]
    fn holds_five_hundred_gaps_and_no_more_than_its_limit() {
        // [9000 13.2.3 ranges-kept]
        let mut r = ReceivedRanges::new(512);
        for n in 0..10_000u64 {
            assert!(r.insert(2 * n));
            assert!(r.len() <= 512);
        }
        assert_eq!((r.len(), r.floor()), (512, 2 * (10_000 - 512) - 1));
        assert!(!r.insert(3) && !r.contains(r.floor()) && r.contains(r.floor() - 1));
    }

    #[test]
    fn one_range_is_kept_whatever_the_limit() {
        let mut r = ReceivedRanges::new(0);
        assert!(r.is_empty() && r.insert(3) && r.insert(5));
        assert_eq!((list(&r), r.is_empty()), (vec![(5, 5)], false));
        r.set_limit(0);
        assert!(r.insert(9));
        assert_eq!(list(&r), [(9, 9)]);
    }

    #[test]
    fn ranges_contain_their_ends() {
        let mut r = ReceivedRanges::default();
        for n in [3, 4, 5, 8] {
            assert!(r.insert(n));
        }
        let contained: Vec<u64> = (0..10).filter(|n| r.contains(*n)).collect();
        assert_eq!(contained, [3, 4, 5, 8]);
        r.prune(3);
        let contained: Vec<u64> = (0..10).filter(|n| r.contains(*n)).collect();
        assert_eq!(contained, [0, 1, 2, 3, 4, 5, 8]);
    }

    /// The number at the floor is the first one that was not pruned.
    #[test]
    fn all_may_be_forgotten_and_more_come() {
        let mut r = ReceivedRanges::default();
        assert!(r.insert(5));
        r.prune(9);
        assert!(r.is_empty() && !r.insert(9) && r.insert(10));
        assert_eq!(list(&r), [(10, 10)]);
    }

    /// A late range between others also removes the oldest one at the limit.
    #[test]
    fn the_limit_holds_for_what_comes_late() {
        let mut r = ReceivedRanges::new(3);
        for n in [0, 10, 20] {
            assert!(r.insert(n));
        }
        assert!(r.insert(15));
        assert_eq!(list(&r), [(20, 20), (15, 15), (10, 10)]);
        assert_eq!(r.floor(), 1);
    }

    #[test]
    fn pruning_gives_memory_back_once_little_is_left() {
        let mut r = ReceivedRanges::default();
        for n in 0..1000u64 {
            assert!(r.insert(2 * n));
        }
        r.prune(2 * 991);
        assert_eq!(r.len(), 8);
        assert!(r.ranges.capacity() >= 1000);
        r.prune(2 * 992);
        assert_eq!(r.len(), 7);
        assert!(r.ranges.capacity() < 256);
    }

    #[test]
    fn a_lower_limit_keeps_the_newest_and_gives_memory_back() {
        let mut r = ReceivedRanges::default();
        for n in 0..4000u64 {
            assert!(r.insert(2 * n));
        }
        r.set_limit(100);
        assert_eq!((r.limit(), r.len(), r.floor()), (100, 100, 2 * 3900 - 1));
        assert!(r.ranges.capacity() < 200);
        assert!(!r.insert(5) && r.insert(2 * 3950 + 1) && r.insert(20_000));
        assert_eq!(r.len(), 100);
        r.set_limit(200);
        assert!(r.insert(30_000));
        assert_eq!((r.len(), r.largest()), (101, Some(30_000)));
        assert!(r.ranges.capacity() <= 256);
    }

    proptest! {
        /// A set of numbers is the reference.
        #[test]
        fn equals_a_set(steps in prop::collection::vec((0u64..120, 0u8..20), 1..300)) {
            let mut r = ReceivedRanges::new(usize::MAX);
            let mut set = BTreeSet::new();
            let mut floor = 0;
            for (n, kind) in steps {
                if kind == 0 {
                    r.prune(n / 2);
                    floor = floor.max(n / 2 + 1);
                } else {
                    prop_assert_eq!(r.insert(n), n >= floor && set.insert(n));
                }
                let expected: Vec<u64> = set.range(floor..).copied().collect();
                let got: Vec<u64> = r.descending().rev().flatten().collect();
                prop_assert_eq!(got, expected);
                let touching = list(&r).windows(2).any(|w| w[0].0 <= w[1].1 + 1);
                prop_assert!(!touching);
                let missing = set.last().and_then(|&last| {
                    (n.max(floor)..last).find(|m| !set.contains(m))
                });
                prop_assert_eq!(r.first_missing(n), missing);
            }
        }
    }
}
