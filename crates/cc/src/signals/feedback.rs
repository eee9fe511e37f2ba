//! The receiver's report since the last one, as differences of its cumulative counters.

use crate::base::Duration;

use super::{OwnFeedback, QuickStartFeedback, VcpFeedback, XcpFeedback};

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
    /// What headers of a registered protocol brought.
    Own(OwnFeedback),
}

/// The most that a receiver can have counted in a path epoch: what its sender sent with the signal
/// since the epoch began, without what an earlier epoch reported. The receiver's totals are its
/// claim; this is the sender's own count.
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
    /// Packets that it reports, and their bytes.
    pub fn counted(&self) -> (u64, u64) {
        let sum = |of: &[u64; 4]| of.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        match self {
            Self::Vcp(vcp) => (sum(&vcp.packets), sum(&vcp.bytes)),
            Self::Xcp(xcp) => (xcp.packets, xcp.bytes),
            Self::QuickStart(answer) => (answer.packets, answer.bytes),
            Self::Own(own) => (own.packets, own.bytes),
        }
    }

    /// Identity of the router that limits the flow, if the feedback names one.
    pub const fn router(&self) -> Option<u16> {
        let router = match self {
            Self::Vcp(vcp) => vcp.router,
            Self::Xcp(xcp) => xcp.router,
            Self::Own(own) => own.router,
            Self::QuickStart(_) => 0,
        };
        if router == 0 { None } else { Some(router) }
    }

    /// The longest time between two decisions of a router on the path, if the feedback has it: a
    /// sender acts once per such an interval.
    pub const fn measuring_interval(&self) -> Option<Duration> {
        let interval = match self {
            Self::Vcp(vcp) => vcp.t_rho,
            Self::Own(own) => own.interval,
            Self::Xcp(_) | Self::QuickStart(_) => Duration::ZERO,
        };
        if interval.is_zero() {
            None
        } else {
            Some(interval)
        }
    }

    /// True if it answers one request, so that it stands next to feedback of all packets.
    pub const fn is_answer(&self) -> bool {
        matches!(self, Self::QuickStart(_))
    }
}
