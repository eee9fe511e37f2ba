//! Reports of the receiver, as differences between its cumulative counters.

use crate::base::Duration;

use super::{OwnFeedback, QuickStartFeedback, VcpFeedback, XcpFeedback};

/// Difference between two states of the receiver's counters (see the FEEDBACK frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// VCP codes counted by the receiver.
    Vcp(VcpFeedback),
    /// XCP rate changes summed by the receiver.
    Xcp(XcpFeedback),
    /// The part of a requested starting rate that routers have left.
    QuickStart(QuickStartFeedback),
    /// Contents of a registered protocol's headers.
    Own(OwnFeedback),
}

/// Maximum that a receiver can have counted in a path epoch: the packets that its sender has sent
/// with the signal since the epoch began, except those reported for an earlier epoch. Because the
/// receiver's totals are only claims, senders check them against this count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countable {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes of UDP payload, including the shim.
    pub bytes: u64,
    /// Size in bytes of the longest packet sent with the signal on the path.
    pub longest: u64,
}

/// Reason why a receiver's counters are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// There are too few or too many counters, or a field is out of range.
    Form,
    /// A total decreased.
    Backwards,
    /// The receiver claims more packets than were sent.
    Packets,
    /// Bytes or sums don't match the number of packets.
    Sum,
}

/// A receiver returned impossible counters, which the sender ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("impossible feedback counters: {message}")]
pub struct BadFeedback {
    /// The rule that the counters violate.
    pub breach: Breach,
    /// The reason as human-readable text.
    pub message: &'static str,
}

impl BadFeedback {
    /// Creates an error with this reason.
    pub const fn new(breach: Breach, message: &'static str) -> Self {
        Self { breach, message }
    }
}

impl Feedback {
    /// Returns the numbers of reported packets and of their bytes.
    pub fn counted(&self) -> (u64, u64) {
        let sum = |of: &[u64; 4]| of.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        match self {
            Self::Vcp(vcp) => (sum(&vcp.packets), sum(&vcp.bytes)),
            Self::Xcp(xcp) => (xcp.packets, xcp.bytes),
            Self::QuickStart(answer) => (answer.packets, answer.bytes),
            Self::Own(own) => (own.packets, own.bytes),
        }
    }

    /// Returns the identity of the router that limits the flow, if it's known.
    pub const fn router(&self) -> Option<u16> {
        let router = match self {
            Self::Vcp(vcp) => vcp.router,
            Self::Xcp(xcp) => xcp.router,
            Self::Own(own) => own.router,
            Self::QuickStart(_) => 0,
        };
        if router == 0 { None } else { Some(router) }
    }

    /// Returns the longest time between two decisions of a router on the path, if it's known.
    /// Senders react once per such interval.
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

    /// Calls `number` for each number that says what routers wrote, with its name, for logs. Sums
    /// cover the counted packets; rates are in bytes per second.
    pub fn describe(&self, mut number: impl FnMut(&'static str, i64)) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            Self::Vcp(vcp) => {
                for (name, packets) in ["none", "low", "high", "over"].into_iter().zip(vcp.packets)
                {
                    number(name, whole(packets));
                }
                number("load_128", vcp.load_128.into());
                number("hops", vcp.hops.into());
            }
            Self::Xcp(xcp) => {
                number("packets", whole(xcp.packets));
                number("stamped", whole(xcp.stamped));
                number("delta", xcp.delta);
                number("hops", xcp.hops.into());
            }
            Self::QuickStart(answer) => {
                number("rate", whole(answer.rate));
                number("answered", answer.answered.into());
            }
            Self::Own(own) => {
                number("kind", own.kind.into());
                number("packets", whole(own.packets));
            }
        }
        number("router", self.router().map_or(0, Into::into));
    }

    /// Returns true for an answer to a single request, which accompanies feedback about all
    /// packets.
    pub const fn is_answer(&self) -> bool {
        matches!(self, Self::QuickStart(_))
    }
}
