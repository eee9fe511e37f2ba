//! Additional trains, after a train has shown that the link changed.
//!
//! A regular train is only sent slightly faster than the known capacity, and on a link that was
//! slow, seconds or minutes pass between two trains. Therefore, if a train arrives faster than the
//! known capacity, the next train follows immediately, as fast as possible. Regular trains save up
//! the cost of these additional trains.

/// A rate shows another link if it exceeds the known rate by more than this rate divided by this
/// number. That is slightly more than half of the excess rate of trains.
const FASTER: u64 = 32;
/// An additional train costs the savings of this number of regular trains. Savings are limited to
/// two additional trains, because the second highest rate counts.
const COST: u32 = 8;
const MOST_SAVED: u32 = 2 * COST;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// True if the next train is an additional train.
    next: bool,
    saved: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            next: false,
            saved: MOST_SAVED,
        }
    }
}

impl Turns {
    pub(crate) fn begin(&mut self) {
        if !core::mem::take(&mut self.next) {
            self.saved = (self.saved + 1).min(MOST_SAVED);
        }
    }

    /// Records that a train arrived at `rate`, on a link of known `capacity`, both in bytes per
    /// second. Returns true if the next train should follow immediately.
    pub(crate) fn on_rate(&mut self, rate: u64, capacity: u64) -> bool {
        if rate > capacity.saturating_add(capacity / FASTER) && self.saved >= COST {
            self.saved -= COST;
            self.next = true;
            return true;
        }
        false
    }

    /// Returns true if the next train is an additional train.
    pub(crate) const fn is_next(&self) -> bool {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_are_known_ask_for_none() {
        let mut turns = Turns::default();
        assert!(!turns.on_rate(3300, 3200) && !turns.is_next());
        assert!(turns.on_rate(3301, 3200) && turns.is_next());
        turns.begin();
        assert!(!turns.is_next(), "once");
    }

    /// If every train seems fast, two additional trains are sent at first, then one after eight
    /// regular ones.
    #[test]
    fn always_faster() {
        let mut turns = Turns::default();
        let mut extra = Vec::new();
        for train in 0..100 {
            if turns.is_next() {
                extra.push(train);
            }
            turns.begin();
            let _ = turns.on_rate(u64::MAX, 1000);
        }
        assert_eq!(extra[..4], [1, 2, 11, 20]);
        assert!(extra.len() <= 2 + 100 / 9, "{extra:?}");
    }
}
