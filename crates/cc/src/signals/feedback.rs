//! What the receiver returned since the last time, as differences of its cumulative counters.

use super::{QuickStartFeedback, VcpFeedback, XcpFeedback};

/// One difference between two states of the receiver's counters (see the FEEDBACK frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// VCP codes counted by the receiver.
    Vcp(VcpFeedback),
    /// XCP rate changes summed by the receiver.
    Xcp(XcpFeedback),
    /// A starting rate that routers left of the one asked for.
    QuickStart(QuickStartFeedback),
}

/// The most that a receiver can have counted in a path epoch: what its sender sent with the signal
/// since the epoch began, and has not been told of in an epoch before. The receiver's totals are
/// its word; this is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countable {
    /// Packets.
    pub packets: u64,
    /// Their bytes of UDP payload, shim included.
    pub bytes: u64,
    /// Bytes of the longest packet that was sent with the signal on the path.
    pub longest: u64,
}

impl Feedback {
    /// Packets that it tells of, and their bytes.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        let sum = |of: &[u64; 4]| of.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        match self {
            Self::Vcp(vcp) => (sum(&vcp.packets), sum(&vcp.bytes)),
            Self::Xcp(xcp) => (xcp.packets, xcp.bytes),
            Self::QuickStart(answer) => (answer.packets, answer.bytes),
        }
    }
}
