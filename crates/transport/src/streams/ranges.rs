//! A set of byte offsets as disjoint, non-adjacent ranges.

use core::ops::Range;
use std::collections::BTreeMap;

/// Half-open ranges of offsets. Every operation takes O(log n) per affected range. Extending a
/// range in place, the common case, allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
    len: u64,
}

impl RangeSet {
    /// Returns the number of offsets in the set.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(s, e)| *s..*e)
    }

    /// Adds `range`, and returns the range of the set that now contains it.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        let Range { mut start, mut end } = range;
        if start >= end {
            return start..start;
        }
        if let Some((&before, before_end)) = self.ranges.range_mut(..=start).next_back()
            && *before_end >= start
        {
            if *before_end >= end {
                return before..*before_end;
            }
            self.len -= *before_end - before;
            start = before;
            *before_end = end;
        }
        while let Some((&next, &next_end)) = self
            .ranges
            .range((
                core::ops::Bound::Excluded(start),
                core::ops::Bound::Included(end),
            ))
            .next()
        {
            self.ranges.remove(&next);
            self.len -= next_end - next;
            end = end.max(next_end);
        }
        self.ranges.insert(start, end);
        self.len += end - start;
        start..end
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        if start >= end || self.ranges.is_empty() {
            return;
        }
        if let Some((&before, before_end)) = self.ranges.range_mut(..start).next_back()
            && *before_end > start
        {
            let old = *before_end;
            *before_end = start;
            debug_assert!(before < start);
            self.len -= old.min(end) - start;
            if old > end {
                self.ranges.insert(end, old);
                return;
            }
        }
        while let Some((&next, &next_end)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&next);
            self.len -= next_end.min(end) - next;
            if next_end > end {
                self.ranges.insert(end, next_end);
            }
        }
    }

    /// Removes at most `max` offsets from the front of the lowest range.
    pub(crate) fn pop_front(&mut self, max: u64) -> Option<Range<u64>> {
        let entry = self.ranges.first_entry()?;
        let (start, end) = (*entry.key(), *entry.get());
        let cut = end.min(start.saturating_add(max));
        if cut == start {
            return None;
        }
        entry.remove();
        if cut < end {
            self.ranges.insert(cut, end);
        }
        self.len -= cut - start;
        Some(start..cut)
    }

    /// Returns the ranges that overlap `within`, cut to it, in order.
    pub(crate) fn overlaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self
            .ranges
            .range(..within.start)
            .next_back()
            .filter(|(_, end)| **end > within.start);
        before
            .into_iter()
            .chain(
                self.ranges
                    .range(within.start..within.end.max(within.start)),
            )
            .map(move |(s, e)| (*s).max(within.start)..(*e).min(within.end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    fn covered(set: &RangeSet) -> BTreeSet<u64> {
        let mut last = None;
        for (s, e) in &set.ranges {
            assert!(s < e && last.is_none_or(|l| l < *s), "{set:?}");
            last = Some(*e);
        }
        set.ranges.iter().flat_map(|(s, e)| *s..*e).collect()
    }

    #[test]
    fn the_front_goes_first() {
        let mut set = RangeSet::default();
        assert!(set.is_empty() && set.first().is_none() && set.pop_front(5).is_none());
        set.insert(10..20);
        set.insert(30..40);
        assert!(!set.is_empty() && set.pop_front(0).is_none());
        assert_eq!(set.pop_front(4), Some(10..14));
        assert_eq!(set.first(), Some(14..20));
        assert_eq!(set.pop_front(100), Some(14..20));
        assert_eq!((set.pop_front(10), set.len()), (Some(30..40), 0));
        assert!(set.is_empty());
    }

    /// Overlapping and adjacent ranges are merged with it.
    #[test]
    fn an_insertion_says_which_range_it_is_in_now() {
        let mut set = RangeSet::default();
        assert_eq!(set.insert(10..20), 10..20);
        assert_eq!(set.insert(12..20), 10..20);
        assert_eq!(set.insert(20..25), 10..25);
        assert_eq!(set.insert(5..10), 5..25);
        assert_eq!(set.insert(40..50), 40..50);
        assert_eq!(set.insert(0..60), 0..60);
        assert_eq!((covered(&set).len(), set.len()), (60, 60));
        set.remove(60..70);
        set.remove(20..20);
        set.remove(20..60);
        assert_eq!((set.first(), set.len()), (Some(0..20), 20));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_offsets(
            ops in prop::collection::vec((0u8..4, 0u64..60, 0u64..20), 1..60)
        ) {
            let (mut set, mut oracle) = (RangeSet::default(), BTreeSet::new());
            for (op, start, len) in ops {
                let range = start..start + len;
                match op {
                    0 | 1 => {
                        let merged = set.insert(range.clone());
                        oracle.extend(range.clone());
                        prop_assert!(
                            range.is_empty() || (merged.start <= start && merged.end >= range.end),
                        );
                        prop_assert!(merged.clone().all(|i| oracle.contains(&i)));
                    }
                    2 => {
                        set.remove(range.clone());
                        oracle.retain(|i| !range.contains(i));
                    }
                    _ => {
                        let popped = set.pop_front(len).unwrap_or(0..0);
                        prop_assert!(popped.end - popped.start <= len);
                        for i in popped {
                            prop_assert_eq!(oracle.pop_first(), Some(i));
                        }
                    }
                }
                prop_assert_eq!(&covered(&set), &oracle);
                prop_assert_eq!(set.len(), oracle.len() as u64);
                prop_assert!(set.overlaps(10..30).all(|range| !range.is_empty()));
                let within: Vec<u64> = set.overlaps(10..30).flatten().collect();
                prop_assert_eq!(within, oracle.range(10..30).copied().collect::<Vec<_>>());
            }
        }
    }
}
