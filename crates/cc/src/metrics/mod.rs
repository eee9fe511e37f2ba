//! State of laws, for reports. No law reads these types.

mod controller_shares;

use core::fmt;

use crate::base::Duration;
use crate::signals::VcpCode;
pub use controller_shares::{ControllerChange, ControllerShare, ControllerShares};

// State of a sender, for reports.

/// Phase of a controller, for reports. It must not be used for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Slow start, or the equivalent of another law.
    Startup,
    /// Multiplicative increase (VCP under LOW).
    MultiplicativeIncrease,
    /// Additive increase, congestion avoidance.
    Avoidance,
    /// Waiting for a recent cut to take effect.
    Recovery,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::MultiplicativeIncrease => "multiplicative increase",
            Self::Avoidance => "avoidance",
            Self::Recovery => "recovery",
        })
    }
}

/// The law that controls the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruler {
    /// Name of the law.
    pub law: &'static str,
    /// Reason why routers don't control the window although the sender's law asks them.
    pub fallback: Option<FallbackReason>,
}

/// State of a controller, for reports. It must not be used for control.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// Name of the law that currently controls the window (`cubic` while no router has answered
    /// `vcp`).
    pub ruling: &'static str,
    /// Current phase.
    pub phase: Phase,
    /// Window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, if the law has one.
    pub ssthresh: Option<u64>,
    /// True if the path's feedback controls the window, and false while the law falls back.
    pub explicit: bool,
    /// Reason why routers don't control the window, if the law asks them.
    pub fallback: Option<FallbackReason>,
    /// Results of questions for a starting rate, if the law asks for one.
    pub quick_start: Option<QuickStartMetrics>,
    /// Number of retransmission timeouts so far, if the law is a paper's sender, which has TCP's
    /// timer.
    pub timeouts: Option<u64>,
}

impl Metrics {
    /// Creates the state of a law without slow-start threshold that doesn't follow feedback. For
    /// others, set the public fields.
    pub const fn new(ruling: &'static str, phase: Phase, window: u64) -> Self {
        Self {
            ruling,
            phase,
            window,
            ssthresh: None,
            explicit: false,
            fallback: None,
            quick_start: None,
            timeouts: None,
        }
    }

    /// Returns the law that controls the window.
    pub const fn ruler(&self) -> Ruler {
        Ruler {
            law: self.ruling,
            fallback: self.fallback,
        }
    }
}

// Reasons for using standard congestion control with a law that asks routers.

/// Reason why CUBIC, or the law chosen instead, controls the window although the sender's law asks
/// routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// No router has answered yet, or none answers anymore.
    NoAnswer,
    /// An XCP-i router found hops that aren't XCP routers, and can't estimate their capacity: they
    /// aren't measured, the router before them doesn't answer, or others keep their queue full.
    NoEstimate,
    /// The IP TTL reveals a hop that doesn't answer, and no router covers it.
    PlainHop,
    /// Losses or a queue reveal a hop that doesn't answer. The IP TTL can't reveal it, because it
    /// is rewritten on the way: at the receiver, it is higher than in the header.
    TtlRewritten,
    /// Losses or a queue reveal a hop that doesn't answer, but the IP TTL doesn't: a switch, a
    /// modem, or a receiver that can't read TTLs.
    HiddenHop,
    /// A queue that doesn't belong to a router of the law set "congestion experienced" in the ECN
    /// field.
    EcnMark,
    /// A packet was lost while every loss is treated as congestion.
    Loss,
}

impl FallbackReason {
    /// All reasons.
    pub const ALL: &[Self] = &[
        Self::NoAnswer,
        Self::NoEstimate,
        Self::PlainHop,
        Self::TtlRewritten,
        Self::HiddenHop,
        Self::EcnMark,
        Self::Loss,
    ];

    /// Looks up a reason by its [name](Self::name).
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }

    /// Returns the name for reports: `no-answer`, `no-estimate`, `plain-hop`, `ttl-rewritten`,
    /// `hidden-hop`, `ecn-mark`, `loss`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoAnswer => "no-answer",
            Self::NoEstimate => "no-estimate",
            Self::PlainHop => "plain-hop",
            Self::TtlRewritten => "ttl-rewritten",
            Self::HiddenHop => "hidden-hop",
            Self::EcnMark => "ecn-mark",
            Self::Loss => "loss",
        }
    }

    /// Returns a description for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NoAnswer => "no router answers",
            Self::NoEstimate => "an XCP-i router has no estimate of the hops before it",
            Self::PlainHop => "the IP TTL shows a hop that does not answer",
            Self::TtlRewritten => "a hop does not answer, and the IP TTL is rewritten on the way",
            Self::HiddenHop => "losses or a queue show a hop that does not answer",
            Self::EcnMark => "a queue that does not answer set ECN marks",
            Self::Loss => "packets were lost",
        }
    }

    /// Returns advice for operators on how to let routers control the window.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NoAnswer => {
                "check that vcp-router is on the path, its port's `controller` and `shims`, and \
                 tunnels between"
            }
            Self::NoEstimate => "check `[xcp_i]` on both routers at the ends of the cloud",
            Self::PlainHop => "run vcp-router at that hop too, or use XCP-i across it",
            Self::TtlRewritten | Self::HiddenHop => {
                "find the queue, and lower `rate` of the router in front of it"
            }
            Self::EcnMark => {
                "find the queue that sets ECN marks, and put vcp-router in front of it"
            }
            Self::Loss => "use the default `loss`",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// State of a port, for reports.

/// State of a port for `show` and results. It must not be used for control.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LinkMetrics {
    /// Measuring interval.
    pub interval: Duration,
    /// Load factor ρ of the last interval, in 10^-9.
    pub load_ppb: u64,
    /// Code resulting from this load.
    pub code: VcpCode,
    /// BISE's r in 2^-32, if it is running.
    pub r_q32: Option<u64>,
    /// Persistent queue in bytes.
    pub persistent_queue: u64,
    /// Packets sent with each code: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
    /// Measurements and grants of an XCP port, if the port runs XCP.
    pub xcp: Option<XcpLinkMetrics>,
    /// Counters of requests for a starting rate, if the port handles these.
    pub grants: Option<GrantMetrics>,
    /// Counters of clouds, if the port looks for these.
    pub clouds: Option<CloudMetrics>,
}

// Report about an XCP port.

/// State of an XCP port after its last control interval. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct XcpLinkMetrics {
    /// Completed control intervals.
    pub intervals: u64,
    /// Length of the current control interval.
    pub interval: Duration,
    /// Mean RTT over the flows' packets, weighted as XCP does.
    pub mean_rtt: Duration,
    /// Capacity used in calculations.
    pub capacity: u64,
    /// Rate at which traffic of all kinds arrived.
    pub input: u64,
    /// Unused capacity. If negative, more traffic arrived than can be sent.
    pub spare: i64,
    /// Queue that didn't drain, in bytes.
    pub persistent_queue: u64,
    /// Resulting aggregate feedback F.
    pub aggregate: i64,
    /// Positive feedback that the current interval can still give.
    pub positive_left: u64,
    /// Negative feedback that the current interval can still give.
    pub negative_left: u64,
    /// Sum of positive feedback written so far.
    pub given: u64,
    /// Sum of negative feedback written so far.
    pub taken: u64,
    /// Packets with a header sent so far.
    pub stamped: u64,
    /// Packets refused by the policer so far.
    pub policed: u64,
}

// Counters of clouds at a port, for reports.

/// Counters of clouds at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudMetrics {
    /// Upstream routers currently remembered.
    pub upstreams: u32,
    /// Upstream routers among these whose cloud is known.
    pub known: u32,
    /// Packets that arrived through a known cloud.
    pub counted: u64,
    /// Packets that arrived through an unknown cloud, which their senders were informed about.
    pub unknown: u64,
    /// Packets whose upstream router couldn't be remembered because there was no room.
    pub refused: u64,
    /// Upstream routers that were forgotten.
    pub forgotten: u64,
    /// How often others were found to keep a cloud's queue full, so that senders had to compete
    /// with them like CUBIC.
    pub crowded: u64,
}

// Counters of a port's requests for a starting rate, for reports.

/// Counters of a port's requests for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantMetrics {
    /// Requests processed.
    pub requests: u64,
    /// Requests granted at least partially.
    pub granted: u64,
    /// Requests denied because used and granted rates didn't leave any capacity.
    pub denied_busy: u64,
    /// Requests denied because their source sent too many within a second, or left grants unused.
    pub denied_source: u64,
    /// Requests denied because the port's table of grants was full.
    pub denied_room: u64,
    /// Grants whose traffic didn't arrive in time, or amounted to less than an eighth.
    pub unused: u64,
    /// Grants partially withdrawn in favour of other flows that asked meanwhile.
    pub lowered: u64,
    /// Total rate of all grants that currently count as approved, in bytes per second.
    pub pending: u64,
    /// Part of this rate whose traffic hasn't arrived yet.
    pub outstanding: u64,
}

// Report about a connection's questions for a starting rate.

/// Results of a connection's questions for a starting rate so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuickStartMetrics {
    /// Questions sent.
    pub asked: u64,
    /// Rate requested by the last question, in bytes of IP packets per second.
    pub wanted: u64,
    /// Part of this rate that was approved and used; 0 if nothing was.
    pub granted: u64,
    /// Answers that approved a rate.
    pub approved: u64,
    /// Questions that were denied or not answered.
    pub denied: u64,
    /// Questions among these that were repeated because their packet was lost.
    pub repeated: u64,
    /// Answers that arrived too late, or answered an earlier question or none at all.
    pub late: u64,
    /// Answers that approved more than was requested.
    pub above: u64,
    /// Answers from a path on which not every hop participated, or whose receiver can't determine
    /// this.
    pub partial: u64,
    /// Answers with a wrong nonce. After receiving one, the connection never asks again.
    pub forged: u64,
    /// Grants abandoned because of a loss.
    pub revoked: u64,
    /// Grants partially withdrawn by routers in favour of others who asked.
    pub lowered: u64,
    /// Result of the last question.
    pub outcome: QuickStartOutcome,
}

/// Result of a question for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuickStartOutcome {
    /// There wasn't any question.
    #[default]
    Unasked,
    /// The answer hasn't arrived yet.
    Waiting,
    /// A router denied the question, or its packet was lost.
    Denied,
    /// No answer arrived in time.
    Unanswered,
    /// Not every hop participated, or the receiver can't determine this.
    Partial,
    /// The answer approved more than was requested, arrived too late, or had a wrong nonce.
    Refused,
    /// A rate was approved but not used, because the window is equally large without it, the first
    /// packets were lost, or nothing was sent in time.
    Unused,
    /// A rate was approved and used.
    Used,
    /// The rate was used, but routers later withdrew a part in favour of others who asked.
    Lowered,
    /// The rate was abandoned because of a loss.
    Revoked,
}

impl QuickStartOutcome {
    /// Returns the name used in JSON and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Waiting => "waiting",
            Self::Denied => "denied",
            Self::Unanswered => "unanswered",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Unused => "unused",
            Self::Used => "used",
            Self::Lowered => "lowered",
            Self::Revoked => "revoked",
        }
    }
}
