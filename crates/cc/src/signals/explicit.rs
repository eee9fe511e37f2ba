//! Kinds of signals.

use super::{Carrier, XcpForm};

/// Protocol that a law reads, and how it is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explicit {
    /// VCP's codes.
    Vcp(Carrier),
    /// XCP's headers.
    Xcp(XcpForm),
    /// Quick-Start, for a single question.
    QuickStart,
    /// Headers of the registered protocol with this number, from 0 to 7.
    Own(u8),
}
