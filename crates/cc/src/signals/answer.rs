//! Answers that ports write into departing packets.

use super::{Carried, CloudAnswer, OwnWords, QuickStartAnswer, VcpAnswer, XcpAnswer};

/// Answer of a link half to a departing packet, to be written by the protocol's crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Leave the packet unchanged.
    #[default]
    None,
    /// Mark a VCP packet, which can only raise its code.
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

    /// Sets the corruption that the port declares for the link behind it, in 10^-6 of packets.
    #[inline]
    pub const fn declare(&mut self, ppm: u32) {
        match self {
            Self::None | Self::QuickStart(_) | Self::Own(_) => {}
            Self::Vcp(answer) => answer.corruption_ppm = ppm,
            Self::Xcp(answer) => answer.corruption_ppm = ppm,
        }
    }

    /// Completes the answer of a law that doesn't look for clouds: if the packet that `carried`
    /// this has a cloud that the answer ignores, the cloud is passed on.
    #[inline]
    pub const fn pass_cloud(&mut self, carried: &Carried) {
        if let (Self::Xcp(answer), Carried::Xcp(header)) = (self, carried)
            && let (CloudAnswer::None, Some(_)) = (answer.cloud, header.cloud)
        {
            answer.cloud = CloudAnswer::Passed;
        }
    }
}
