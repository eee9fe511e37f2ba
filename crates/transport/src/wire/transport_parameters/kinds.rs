//! The value of explicit_feedback: the signals that an endpoint reads and writes.

use core::fmt;

/// At most 16 different kinds of signals, in the order of preference in which they were
/// offered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalKinds {
    kinds: [u8; Self::MAX],
    len: u8,
}

/// An invalid list of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKinds {
    /// More than 16.
    #[error("more than 16 signal kinds")]
    TooMany,
    /// A duplicate kind.
    #[error("signal kind {0} twice")]
    Twice(u8),
}

impl SignalKinds {
    /// Maximum number of kinds in a list.
    pub const MAX: usize = 16;

    /// Creates a list of these kinds.
    ///
    /// # Errors
    /// [`BadKinds`] if there are more than 16, or if one is duplicated.
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

    /// Returns the kinds, in order.
    pub fn as_slice(&self) -> &[u8] {
        self.kinds.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns true if the list contains `kind`.
    pub fn contains(&self, kind: u8) -> bool {
        self.as_slice().contains(&kind)
    }
}

impl fmt::Debug for SignalKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}
