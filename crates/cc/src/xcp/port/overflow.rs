//! Tail drops of the port's queue.

/// Whether the queue overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    No,
    /// In the current interval.
    Now,
    /// In the previous interval: nothing is given until an interval without drops has passed.
    Before,
}

impl Overflow {
    /// The state in the next interval.
    pub(crate) const fn turn(self) -> Self {
        match self {
            Self::Now => Self::Before,
            Self::Before | Self::No => Self::No,
        }
    }
}
