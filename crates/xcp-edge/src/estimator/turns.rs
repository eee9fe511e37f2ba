//! Trains out of their turn, where one shows that the link is another one.
//!
//! A train in its turn is sent little faster than the link is known to carry, and over a link that
//! was slow there are seconds or minutes between two of them. So where one arrives faster than
//! that, the next one follows at once, as fast as it goes. What such trains cost is saved up by
//! those in their turn.

/// More than the known rate by this part of it, as a divisor, shows another link: half of what
/// trains are sent faster by, and a little more.
const FASTER: u64 = 32;
/// A train out of turn costs the savings of this many trains in turn. Savings are limited to two
/// trains, since the second highest rate counts.
const COST: u32 = 8;
const MOST_SAVED: u32 = 2 * COST;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// The next train is out of its turn.
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
    /// A train begins.
    pub(crate) fn begin(&mut self) {
        if !core::mem::take(&mut self.next) {
            self.saved = (self.saved + 1).min(MOST_SAVED);
        }
    }

    /// A train came at `rate` where the link is known to carry `capacity`, bytes per second. True
    /// if the next one is to follow at once.
    pub(crate) fn on_rate(&mut self, rate: u64, capacity: u64) -> bool {
        if rate > capacity.saturating_add(capacity / FASTER) && self.saved >= COST {
            self.saved -= COST;
            self.next = true;
            return true;
        }
        false
    }

    /// The next train is out of its turn.
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

    /// If every train seems fast, two trains are out of turn at first, then one for eight in turn.
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
