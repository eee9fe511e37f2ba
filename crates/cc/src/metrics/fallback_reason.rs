//! Why standard congestion control has the window of a law that asks routers.

use core::fmt;

/// Why CUBIC, or what was chosen in its place, has the window of a law that asks routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// No router has answered yet, or none does any more.
    NoAnswer,
    /// An XCP-i router found hops that are not XCP routers, and has no estimate of what they can
    /// carry: they are not measured, the router before them does not answer, or others keep their
    /// queue full.
    NoEstimate,
    /// The IP TTL shows a hop that does not answer, and no router covers it.
    PlainHop,
    /// Losses or a queue show a hop that does not answer. The IP TTL at the receiver is above that
    /// of the header: it is rewritten on the way, and cannot show the hop.
    TtlRewritten,
    /// Losses or a queue show a hop that does not answer, and the IP TTL does not: a switch, a
    /// modem, or a receiver that cannot read TTLs.
    HiddenHop,
    /// A queue that is not of a router of the law set "congestion experienced" in the ECN field.
    EcnMark,
    /// A loss, where each loss is taken for congestion.
    Loss,
}

impl FallbackReason {
    /// All that there are.
    pub const ALL: &[Self] = &[
        Self::NoAnswer,
        Self::NoEstimate,
        Self::PlainHop,
        Self::TtlRewritten,
        Self::HiddenHop,
        Self::EcnMark,
        Self::Loss,
    ];

    /// The one of that [name](Self::name).
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }

    /// Its name in reports: `no-answer`, `no-estimate`, `plain-hop`, `ttl-rewritten`,
    /// `hidden-hop`, `ecn-mark`, `loss`.
    #[must_use]
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

    /// The same for people.
    #[must_use]
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

    /// What an operator can do so that routers steer the window.
    #[must_use]
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
