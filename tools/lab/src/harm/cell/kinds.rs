//! The kinds of cells.

use super::Group;
use crate::named::named;

named! {
    /// The kind of a cell. Its name is the form of the names of its cells, after their group: a
    /// word, and the names of the values.
    pub(in super::super) Kind {
        /// A marked link, then a plain one of less capacity.
        After = "after-marked-hidden-buffer-flows-rtt",
        /// A plain link, then a marked one of more capacity.
        Before = "before-marked-hidden-buffer-flows-rtt",
        /// A marked link with random loss.
        Random = "random-rate-per-burst-lossy-declared-flows-rtt",
        /// A marked link with random loss, then a plain one of less capacity.
        Both = "both-marked-hidden-buffer-per-flows-rtt",
        /// The same, but the plain link's capacity falls below the marked one's only halfway
        /// through.
        Late = "late-marked-hidden-buffer-per-flows-rtt",
        /// A marked link with random loss, which TCP flows join halfway through.
        Join = "join-rate-per-flows-rtt",
        /// A marked link that loses nothing and whose port declares that it does, then a plain one
        /// of less capacity.
        Forged = "forged-marked-hidden-buffer-per-flows-rtt",
        /// A marked link that is out for a while.
        Cut = "cut-rate-outage-times-flows-rtt",
        /// A marked link of a low rate.
        Low = "low-rate-buffer-flows-rtt",
        /// A marked link whose rate wanders like that of a cellular link around this rate.
        Trace = "trace-rate-buffer-flows-rtt",
        /// A marked link that is handed over between satellites: an outage, then another delay and
        /// rate, around these.
        Handover = "handover-rate-outage-flows-rtt",
        /// A half-duplex cell that both directions share, whose rate steps down from this one.
        Radio = "radio-rate-flows-rtt",
        /// Flows over all of several equal marked links, and flows across each.
        Lot = "lot-rate-hops-long-cross-buffer-rtt",
        /// The same, each link a tenth slower than the one before.
        Taper = "taper-rate-hops-long-cross-buffer-rtt",
        /// A marked link with jitter that keeps the order.
        Order = "order-rate-jitter-flows-rtt",
        /// A marked link with jitter that lets packets overtake.
        Reorder = "reorder-rate-jitter-flows-rtt",
        /// A marked link over a short distance.
        Short = "short-rate-buffer-flows-rtt",
        /// A marked link whose delay steps after a third of the run.
        Step = "step-rate-flows-rtt-then",
        /// Flows without an end over one marked link.
        Many = "many-rate-flows-rtt",
        /// Small files next to flows without an end.
        Mice = "mice-rate-flows-mice-size-rtt",
        /// Flows of two round trips.
        Rtts = "rtts-rate-flows-near-far",
        /// Far flows of large packets against near flows of small packets.
        Sizes = "sizes-rate-flows-large-near-far",
        /// Flows of both laws at one port.
        Ports = "ports-rate-flows-guests-rtt",
        /// Flows of all kinds at one port: of the port's own law and TCP, and of each other law:
        /// the other explicit one, NewReno, and CUBIC that asks for a starting rate.
        Mixed = "mixed-rate-flows-guests-rtt",
        /// Flows against UDP of 64-byte packets.
        Tiny = "tiny-rate-flows-share-rtt",
    }
}

impl Default for Kind {
    fn default() -> Self {
        let [first, ..] = Self::ALL;
        first
    }
}

impl Kind {
    pub(super) const fn group(self) -> Group {
        match self {
            Self::After | Self::Before => Group::Hidden,
            Self::Random | Self::Both | Self::Late | Self::Join | Self::Forged => Group::Loss,
            Self::Cut | Self::Low | Self::Trace | Self::Handover | Self::Radio => Group::Outage,
            Self::Lot | Self::Taper => Group::Hops,
            Self::Order | Self::Reorder | Self::Short | Self::Step => Group::Jitter,
            Self::Many
            | Self::Mice
            | Self::Rtts
            | Self::Sizes
            | Self::Ports
            | Self::Mixed
            | Self::Tiny => Group::Flows,
        }
    }

    /// Returns the first part of the names of cells.
    pub(super) fn word(self) -> &'static str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// Returns the names of the values of a cell in the order of the cell's name.
    pub(super) fn values(self) -> impl Iterator<Item = &'static str> {
        self.name().split('-').skip(1)
    }
}
