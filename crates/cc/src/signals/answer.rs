//! What a port writes into a departing packet.

use super::{Carried, CloudAnswer, OwnWords, QuickStartAnswer, VcpAnswer, XcpAnswer};

/// What the link half wants written into a departing packet; the protocol's crate does the writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Leave the packet alone.
    #[default]
    None,
    /// Mark a VCP packet (only ever raising what it finds).
    Vcp(VcpAnswer),
    /// Stamp an XCP packet.
    Xcp(XcpAnswer),
    /// Approve a starting rate, or deny it.
    QuickStart(QuickStartAnswer),
    /// Write into a header of a registered protocol.
    Own(OwnWords),
}

impl Answer {
    /// Returns the change of rate that the answer allows the flow, if it states one, in 2^-16 bytes
    /// per second.
    #[inline]
    pub const fn rate_change(&self) -> Option<i64> {
        match self {
            Self::Xcp(answer) => Some(answer.delta),
            _ => None,
        }
    }

    /// Adds what the port declares of the link behind it: loss by corruption, in 10^-6 of packets.
    #[inline]
    pub const fn declare(&mut self, ppm: u32) {
        match self {
            Self::None | Self::QuickStart(_) | Self::Own(_) => {}
            Self::Vcp(answer) => answer.corruption_ppm = ppm,
            Self::Xcp(answer) => answer.corruption_ppm = ppm,
        }
    }

    /// Completes a law's answer to a packet that `carried` this if the answer leaves the packet's
    /// cloud out: such a law does not look for clouds.
    #[inline]
    pub const fn pass_cloud(&mut self, carried: &Carried) {
        if let (Self::Xcp(answer), Carried::Xcp(header)) = (self, carried)
            && let (CloudAnswer::None, Some(_)) = (answer.cloud, header.cloud)
        {
            answer.cloud = CloudAnswer::Passed;
        }
    }
}
