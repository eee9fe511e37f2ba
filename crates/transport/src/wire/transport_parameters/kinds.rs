//! The value of explicit_feedback: which signals a side reads and fills.

use core::fmt;

/// Kinds of signals, in the order of preference in which they were offered; at most 16, none twice.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalKinds {
    kinds: [u8; Self::MAX],
    len: u8,
}

/// A list of kinds that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKinds {
    /// More than 16.
    #[error("more than 16 signal kinds")]
    TooMany,
    /// One of them twice.
    #[error("signal kind {0} twice")]
    Twice(u8),
}

impl SignalKinds {
    /// Most kinds that one side may name.
    pub const MAX: usize = 16;

    /// These kinds.
    ///
    /// # Errors
    /// [`BadKinds`] if there are more than 16, or one twice.
    pub fn new(kinds: &[u8]) -> Result<Self, BadKinds> {
        let mut new = Self::default();
        for &kind in kinds {
            if new.contains(kind) {
                return Err(BadKinds::Twice(kind));
            }
            *new.kinds
                .get_mut(usize::from(new.len))
                .ok_or(BadKinds::TooMany)? = kind;
            new.len += 1;
        }
        Ok(new)
    }

    /// The kinds, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.kinds.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// True if `kind` is among them.
    #[must_use]
    pub fn contains(&self, kind: u8) -> bool {
        self.as_slice().contains(&kind)
    }
}

impl fmt::Debug for SignalKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}
