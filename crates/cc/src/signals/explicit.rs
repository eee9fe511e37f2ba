//! The kinds of signals.

use super::{Carrier, XcpForm};

/// The protocol that a law reads, and its carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explicit {
    /// VCP's codes.
    Vcp(Carrier),
    /// XCP's headers.
    Xcp(XcpForm),
    /// Quick-Start's, to one question.
    QuickStart,
    /// The headers of the registered protocol with this number, 0 to 7.
    Own(u8),
}
