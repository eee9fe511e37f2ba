//! The part of its share that the class with feedback leaves to a waiting class.
//!
//! A control law aims at a little less than its capacity, and its flows' rates vary below that, so
//! that its queue stays empty. Alone on a link that is what a short queue costs. With another class
//! whose packets always wait, it makes the share smaller than it should be: the other class takes
//! the rest, and flows that obey have less than those that do not. So while the other class waits,
//! the law gets a bonus on its share: the part that it left unused recently, at most 1/16. The
//! bonus falls as soon as the law's own class has a queue.

use super::window::Rates;

/// The largest bonus is the share divided by this.
const MOST: u64 = 16;
/// Of what a window left unused this part is added: with windows of 50 ms 1.6 s together, longer
/// than a law's own interval on most paths.
const RISE: u64 = 32;
/// A window in which a queue stood, or the other class did not wait, takes this part back.
const FALL: u64 = 8;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unused {
    /// The bonus on the share, in bytes per second.
    more: u64,
    /// In the running window the class's own queue was empty once, and so was the other's.
    own_empty: bool,
    other_empty: bool,
}

impl Unused {
    /// A packet leaves while `own` packets wait in the class's queue, and `other` in the other one.
    #[inline]
    pub(super) fn on_departure(&mut self, own: u64, other: u64) {
        self.own_empty |= own == 0;
        self.other_empty |= other == 0;
    }

    /// A window is over. Returns what to tell on top of `owed` bytes per second.
    pub(super) fn turn(&mut self, owed: u64, rates: &Rates) -> u64 {
        let own_empty = core::mem::take(&mut self.own_empty);
        let other_empty = core::mem::take(&mut self.other_empty);
        if own_empty && !other_empty {
            let left = owed.saturating_sub(rates.heard);
            self.more = (self.more + left / RISE).min(owed / MOST);
        } else {
            self.more -= self.more.div_ceil(FALL);
        }
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWED: u64 = 1_000_000;

    fn windows(unused: &mut Unused, n: usize, (own, other): (u64, u64), heard: u64) -> u64 {
        let rates = Rates {
            heard,
            ..Rates::default()
        };
        let bonuses = (0..n).map(|_| {
            unused.on_departure(own, other);
            unused.turn(OWED, &rates)
        });
        bonuses.last().unwrap_or(0)
    }

    #[test]
    fn the_law_gets_a_bonus_while_another_class_waits() {
        let mut unused = Unused::default();
        assert_eq!(windows(&mut unused, 1, (0, 9), OWED - 32_000), 1000);
        assert_eq!(windows(&mut unused, 9, (0, 9), OWED - 32_000), 10_000);
        assert_eq!(windows(&mut unused, 100, (0, 9), OWED), 10_000, "used");
        // However much is left.
        assert_eq!(windows(&mut unused, 100, (0, 9), 0), OWED / 16);
        // A queue stands: back to the share itself.
        assert!(windows(&mut unused, 6, (1, 9), 0) < OWED / 32);
        assert_eq!(windows(&mut unused, 100, (1, 9), 0), 0);
    }

    #[test]
    fn no_bonus_while_no_other_class_waits() {
        let mut unused = Unused::default();
        assert_eq!(windows(&mut unused, 100, (0, 0), OWED / 2), 0);
        assert_eq!(windows(&mut unused, 100, (3, 0), OWED / 2), 0);
        // Nothing left at all, as on an idle port.
        assert_eq!(unused.turn(OWED, &Rates::default()), 0);
    }
}
