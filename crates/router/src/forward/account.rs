//! Accounts of packet buffers.

/// Names the account of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(pub(super) u32);

impl Account {
    /// No account.
    pub(super) const NONE: Self = Self(u32::MAX);
}
