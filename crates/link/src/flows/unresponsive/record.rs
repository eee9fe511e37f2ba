//! What is held against a flow, and for how long it is aside for it.

/// A flow with a record needs a half, then a quarter of the time.
const LEAST_PART: u8 = 2;
/// Epochs aside at first, and how often they double: from 2 to 64 s.
const FIRST_ASIDE: u16 = 10;
pub(super) const MOST_STRIKES: u8 = 5;
/// A flow that is aside comes back if the last epochs beyond its share count less than this.
pub(super) const PERSISTS: u8 = 6;

/// What is held against a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Epochs beyond its share, two up and one down.
    pub(super) over: u8,
    /// How often it was set aside, less what is forgiven.
    pub(super) strikes: u8,
    /// Epochs for which it is aside yet.
    pub(super) aside: u16,
}

impl Record {
    /// An epoch is over, beyond the share with this weight if it is more than 0. True if the flow
    /// is set aside now that it has come to `limit`.
    pub(super) fn turn(&mut self, over: u8, limit: u8) -> bool {
        self.over = match over {
            0 => self.over.saturating_sub(1),
            _ => self.over.saturating_add(over),
        };
        if self.aside == 0 {
            let limit = limit >> self.strikes.min(LEAST_PART);
            let set_aside = self.over >= limit.max(PERSISTS);
            if set_aside {
                self.set_aside();
            }
            return set_aside;
        }
        self.aside -= 1;
        if self.aside == 0 && self.over >= PERSISTS {
            self.set_aside();
        } else if self.aside == 0 {
            self.over = 0;
        }
        false
    }

    pub(super) const fn set_aside(&mut self) {
        self.over = 0;
        self.aside = FIRST_ASIDE << self.strikes;
        if self.strikes < MOST_STRIKES {
            self.strikes += 1;
        }
    }

    pub(super) fn forgive(&mut self) {
        if self.aside == 0 && self.over == 0 {
            self.strikes = self.strikes.saturating_sub(1);
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}
