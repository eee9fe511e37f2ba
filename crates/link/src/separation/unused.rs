//! The part of its share that the class with feedback leaves unused while the other class waits.
//!
//! Because a control law aims slightly below its capacity, and its flows' rates vary below this
//! target, its queue usually stays empty. If the class has the link to itself, this is the price of
//! a short queue. However, if packets of the other class always wait, that class takes the rest, so
//! flows that obey would get less than flows that do not. Therefore, while the other class waits,
//! the law gets a bonus on its share: the part that it recently left unused, at most 1/16. The
//! bonus decreases as soon as the law's class has a queue.

use super::window::Rates;

/// The maximum bonus is the share divided by this number.
const MOST: u64 = 16;
/// The fraction of a window's unused part that is added. With windows of 50 ms, the time
/// constant is 1.6 s, longer than a law's interval on most paths.
const RISE: u64 = 32;
/// The fraction that is removed in a window in which a queue stood, or the other class did not
/// wait.
const FALL: u64 = 8;

/// The bonus on the share, as described in the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unused {
    /// The bonus on the share, in bytes per second.
    more: u64,
    /// True if the class's own queue was empty at some time in the current window; the same for
    /// the other's.
    own_empty: bool,
    other_empty: bool,
}

impl Unused {
    /// Records a departure, with `own` packets waiting in the class's queue and `other` in the
    /// other one.
    #[inline]
    pub(super) fn on_departure(&mut self, own: u64, other: u64) {
        self.own_empty |= own == 0;
        self.other_empty |= other == 0;
    }

    /// Ends a window. Returns the bonus on top of `owed` bytes per second.
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
        // Regardless of how much is left unused.
        assert_eq!(windows(&mut unused, 100, (0, 9), 0), OWED / 16);
        // A standing queue must reduce it to the share itself.
        assert!(windows(&mut unused, 6, (1, 9), 0) < OWED / 32);
        assert_eq!(windows(&mut unused, 100, (1, 9), 0), 0);
    }

    #[test]
    fn no_bonus_while_no_other_class_waits() {
        let mut unused = Unused::default();
        assert_eq!(windows(&mut unused, 100, (0, 0), OWED / 2), 0);
        assert_eq!(windows(&mut unused, 100, (3, 0), OWED / 2), 0);
        // No unused part on an idle port either.
        assert_eq!(unused.turn(OWED, &Rates::default()), 0);
    }
}
