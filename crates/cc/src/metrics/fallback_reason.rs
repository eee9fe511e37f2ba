//! Reasons for using standard congestion control with a law that asks routers.

use core::fmt;

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
