//! Packets that were opened and are not acknowledged, since there was no memory for their data.
//!
//! No packet may be processed twice (RFC 9000 §12.3): a copy would deliver an unreliable datagram
//! again, and keep a connection alive whose peer is gone. The latest are remembered by number; what
//! is older than those counts as one of them, and the peer sends it again in another packet.

use std::collections::VecDeque;

/// Numbers that are remembered.
const REMEMBERED: usize = 64;

/// Numbers of refused packets.
#[derive(Debug, Default)]
pub(super) struct Refused {
    numbers: VecDeque<u64>,
    /// Smaller numbers have been forgotten.
    below: u64,
    /// The largest, and one more.
    end: u64,
}

impl Refused {
    /// Packet `number` was refused.
    pub(super) fn insert(&mut self, number: u64) {
        self.end = self.end.max(number + 1);
        let at = self.numbers.partition_point(|&kept| kept < number);
        self.numbers.insert(at, number);
        if self.numbers.len() > REMEMBERED
            && let Some(least) = self.numbers.pop_front()
        {
            self.below = self.below.max(least + 1);
        }
    }

    /// True if packet `number` was refused, or is older than what is remembered.
    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.below || (number < self.end && self.numbers.binary_search(&number).is_ok())
    }

    /// One more than the largest number.
    #[inline]
    pub(super) const fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_older_ones_count_as_refused() {
        let mut refused = Refused::default();
        assert!(!refused.contains(0));
        for number in [7, 3, 12, 5] {
            refused.insert(number);
        }
        let known: Vec<u64> = (0..20).filter(|&n| refused.contains(n)).collect();
        assert_eq!((known, refused.end()), (vec![3, 5, 7, 12], 13));
        for number in 100..100 + REMEMBERED as u64 {
            refused.insert(number);
        }
        assert!((0..=12).all(|n| refused.contains(n)));
        assert!((13..100).all(|n| !refused.contains(n)), "never seen");
        assert!((100..164).all(|n| refused.contains(n)) && !refused.contains(164));
        assert_eq!(refused.numbers.len(), REMEMBERED);
    }
}
