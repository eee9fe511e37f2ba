//! Tail drops of the port's queue.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    No,
    /// In the current interval.
    Now,
    /// In the previous interval: nothing is given until an interval without drops has passed.
    Before,
}

impl Overflow {
    pub(crate) const fn turn(self) -> Self {
        match self {
            Self::Now => Self::Before,
            Self::Before | Self::No => Self::No,
        }
    }
}
