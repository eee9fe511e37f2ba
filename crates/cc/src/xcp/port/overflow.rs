//! Tail drops of the port's queue.

/// Whether the queue overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    No,
    /// In the running interval.
    Now,
    /// In the one before: nothing is given until an interval without drops has passed.
    Before,
}

impl Overflow {
    /// The next interval begins.
    pub(crate) const fn turn(self) -> Self {
        match self {
            Self::Now => Self::Before,
            Self::Before | Self::No => Self::No,
        }
    }
}
