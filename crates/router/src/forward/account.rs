//! Accounts of packet buffers.

/// Identifies the account of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account(pub(super) u16);

impl Account {
    /// No account.
    pub(super) const NONE: Self = Self(u16::MAX);
}
