//! A flow's record, and the time for which it is set aside.

/// A flow with one strike is set aside after half of the time, with more strikes after a
/// quarter.
const LEAST_PART: u8 = 2;
/// Number of epochs for which a flow is first set aside, and the maximum number of doublings:
/// from 2 to 64 s.
const FIRST_ASIDE: u16 = 10;
pub(super) const MOST_STRIKES: u8 = 5;
/// A flow that is set aside returns if its points are below this value.
pub(super) const PERSISTS: u8 = 6;

/// A flow's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Points for epochs above its share: two or more up, one down.
    pub(super) over: u8,
    /// Number of times that it was set aside, minus forgiven ones.
    pub(super) strikes: u8,
    /// Remaining epochs for which it is set aside.
    pub(super) aside: u16,
}

impl Record {
    /// Ends an epoch, with `over` points if it was above the share and 0 otherwise. Returns true
    /// if the flow reaches `limit` and is now set aside.
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
