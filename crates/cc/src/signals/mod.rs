//! Contents of packets between senders, ports and receivers, regardless of their encoding.
//!
//! A sender writes a [`Request`] into a packet. A port reads the packet's contents ([`Carried`])
//! and writes an [`Answer`]. The receiver counts answers, and the sender receives the differences
//! as [`Feedback`].

mod quick_start;
mod vcp;
mod xcp;

use crate::base::Duration;
pub use quick_start::{
    KnownPath, QuickStartAnswer, QuickStartCarried, QuickStartFeedback, QuickStartPurpose,
    QuickStartRequest,
};
pub use vcp::{Carrier, VcpAnswer, VcpCarried, VcpCode, VcpFeedback};
pub use xcp::{
    Cloud, CloudAnswer, CloudEstimate, Upstream, XcpAnswer, XcpCarried, XcpFeedback, XcpForm,
    XcpRequest,
};

// The field of IP packets in which hops without a protocol of their own announce congestion.

/// ECN field of the IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the sender doesn't support ECN.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced (CE).
    Ce = 3,
}

impl Ecn {
    /// Reads the field from the two low bits of `bits`; other bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

// Requests from senders to routers.

/// Request from a sender to the routers, which is written into the next packet's shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Signal that should carry the request, for laws that read several. With `None`, or if the
    /// peer doesn't know this signal, the connection's own is used.
    pub signal: Option<Explicit>,
    /// VCP: true if the sender supports BISE's large ε.
    pub bise: bool,
    /// Minimum RTT of this path, including standing queues on the way back, for routers that derive
    /// their interval from it. With `None`, the controller doesn't have a sample yet, and the
    /// transport writes the handshake's.
    pub min_rtt: Option<Duration>,
    /// True if the path uses IPv6, so that addresses of its routers take 16 bytes. Set by the
    /// transport.
    pub ipv6: bool,
    /// XCP: fields of the next packet's header. With `None`, the packet carries no header, or one
    /// that routers ignore.
    pub xcp: Option<XcpRequest>,
    /// Quick-Start: question for a starting rate. With `None`, the next packet doesn't ask for one.
    pub quick_start: Option<QuickStartRequest>,
    /// A registered protocol: fields of the next packet's header.
    pub own: Option<OwnWords>,
}

// Contents of arriving packets.

/// Fields of an arriving packet that control laws read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carried {
    /// Nothing that any law reads, as in TCP, plain UDP or ACK-only packets.
    #[default]
    Foreign,
    /// A VCP shim, or VCP's code in the ECN field.
    Vcp(VcpCarried),
    /// An XCP header.
    Xcp(XcpCarried),
    /// A request for a starting rate, in a flow of any kind.
    QuickStart(QuickStartCarried),
    /// A header of a registered protocol.
    Own(OwnWords),
}

impl Carried {
    /// Returns true if the packet carries feedback of a law, so that its sender follows a port's
    /// answer. A request for a starting rate doesn't show this.
    pub const fn is_feedback(&self) -> bool {
        matches!(self, Self::Vcp(_) | Self::Xcp(_) | Self::Own(_))
    }
}

/// A packet that arrives at a port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Size in bytes that the link will carry, which is the IP packet plus the configured frame
    /// overhead.
    pub bytes: u32,
    /// Hash of the packet's flow (addresses, ports, protocol), for sketches of bounded size.
    pub flow_hash: u32,
    /// Contents of the packet.
    pub carried: Carried,
}

impl Arrival {
    /// Returns the packets of a run one by one. Their sizes are equal, except that the last
    /// includes the remainder.
    pub fn each(&self, packets: u32) -> impl Iterator<Item = Self> {
        let packets = packets.max(1);
        let size = self.bytes / packets;
        let last = self.bytes - size * (packets - 1);
        let run = *self;
        (1..=packets).map(move |n| Self {
            bytes: if n == packets { last } else { size },
            ..run
        })
    }
}

// Answers that ports write into departing packets.

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
    pub const fn declare(&mut self, ppm: u32) {
        match self {
            Self::None | Self::QuickStart(_) | Self::Own(_) => {}
            Self::Vcp(answer) => answer.corruption_ppm = ppm,
            Self::Xcp(answer) => answer.corruption_ppm = ppm,
        }
    }

    /// Completes the answer of a law that doesn't look for clouds: if the packet that `carried`
    /// this has a cloud that the answer ignores, the cloud is passed on.
    pub const fn pass_cloud(&mut self, carried: &Carried) {
        if let (Self::Xcp(answer), Carried::Xcp(header)) = (self, carried)
            && let (CloudAnswer::None, Some(_)) = (answer.cloud, header.cloud)
        {
            answer.cloud = CloudAnswer::Passed;
        }
    }
}

// Reports of the receiver, as differences between its cumulative counters.

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

// Contents of packets of registered protocols. Only the protocol knows the meaning of their words.

/// Fields of a header in a packet, in a port's answer, or in a sender's request.
///
/// In a [`Request`](super::Request), these are written by the sender. In
/// [`Carried`](super::Carried), they are read by a port, and in an [`Answer`](super::Answer), they
/// are written by the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnWords {
    /// The protocol's number, from 0 to 7, as in its shims.
    pub kind: u8,
    /// The protocol's fields.
    pub words: [u64; 3],
}

/// Contents of a registered protocol's headers received since the previous feedback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnFeedback {
    /// The protocol's number, from 0 to 7.
    pub kind: u8,
    /// Packets with its header.
    pub packets: u64,
    /// Bytes of UDP payload of these packets.
    pub bytes: u64,
    /// Identity of the router that limits the flow, or 0 if there is none.
    pub router: u16,
    /// Time between two decisions of this router's port, or 0 if unknown.
    pub interval: Duration,
    /// The protocol's fields.
    pub words: [u64; 3],
}

// Kinds of signals.

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
