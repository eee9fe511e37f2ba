//! Answers that ports write into departing packets.

use super::{Arrival, Carried, CloudAnswer, OwnWords, QuickStartAnswer, VcpAnswer, XcpAnswer};

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

/// The change of rate that an answer allows a flow ([`Answer::rate_change`]).
#[derive(Clone, Copy, Debug)]
pub struct RateChange {
    /// In 2^-16 bytes per second.
    pub delta: i64,
    /// The flow's round trip in µs, or 0 if unknown.
    pub rtt_us: u32,
}

impl Answer {
    /// Returns the change of rate that the answer to this packet allows the flow, if it states one.
    #[inline]
    pub fn rate_change(&self, arrival: &Arrival) -> Option<RateChange> {
        let (Self::Xcp(answer), Carried::Xcp(request)) = (self, &arrival.carried) else {
            return None;
        };
        Some(RateChange {
            delta: answer.delta,
            rtt_us: request.rtt_us,
        })
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
