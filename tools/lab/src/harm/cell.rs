//! Cells and their names.

use std::fmt;
use std::str::FromStr;

use super::axis::{BadAxis, Buffer, Burst, Count, Declared, Lossy, Mix, Percent, Rate, Size, Time};
use crate::named::named;

/// Error for a name that does not parse as a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCell {
    /// No such kind of cell.
    #[error(
        "no kind of cell begins `{0}`: names are GROUP/KIND-VALUE-…, \
         as in hidden/after-100M-5M-8p-2+2-80ms"
    )]
    Kind(String),
    /// A value in the name is wrong.
    #[error("{cell}: {source}")]
    Axis {
        /// The name.
        cell: String,
        /// The error.
        source: BadAxis,
    },
    /// Too many values, or too few.
    #[error("`{cell}` has {given} values: {form} has {wanted}")]
    Values {
        /// The name.
        cell: String,
        /// Its values.
        given: usize,
        /// The form of the name.
        form: &'static str,
        /// Number of values that the name needs.
        wanted: usize,
    },
}

/// Error for an unknown group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no group is called `{0}`: they are hidden, loss, outage, hops, jitter, flows")]
pub struct BadGroup(String);

named! {
    /// Subject of a cell.
    pub Group {
        /// A hop of less capacity without a control law.
        Hidden = "hidden",
        /// Packets lost at random, with and without a hidden hop.
        Loss = "loss",
        /// Outages, low rates, rates that vary.
        Outage = "outage",
        /// Several marked bottlenecks.
        Hops = "hops",
        /// Jitter, short paths, round trips that change.
        Jitter = "jitter",
        /// Many flows, small flows, mixed round trips, laws that share a port.
        Flows = "flows",
    }
}

impl FromStr for Group {
    type Err = BadGroup;

    fn from_str(text: &str) -> Result<Self, BadGroup> {
        let known = Self::ALL.into_iter().find(|group| group.name() == text);
        known.ok_or_else(|| BadGroup(text.to_owned()))
    }
}

/// Declares the values of all cells.
macro_rules! cell {
    ($($(#[$doc:meta])* $value:ident: $type:ty),+ $(,)?) => {
        /// A cell: a scenario without its law. The cell's name contains all its values:
        /// `hidden/after-100M-5M-8p-2+2-80ms`. Values that its kind does not name are not set.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Cell {
            pub(super) kind: Kind,
            $($(#[$doc])* pub(super) $value: $type),+
        }

        impl Cell {
            /// Returns the text of the value with this name.
            pub(super) fn text(&self, value: &str) -> String {
                match value {
                    $(stringify!($value) => self.$value.to_string(),)+
                    _ => String::new(),
                }
            }

            /// Parses the value with this name.
            pub(super) fn set(&mut self, value: &str, text: &str) -> Result<(), BadAxis> {
                match value {
                    $(stringify!($value) => self.$value = text.parse()?,)+
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

cell! {
    /// Rate of the only marked link, or of each, or of the first.
    rate: Rate,
    /// Rate of the marked link next to a plain one.
    marked: Rate,
    /// Rate of the plain link.
    hidden: Rate,
    /// Size of the plain link's queue, or of the marked one's if there is no other.
    buffer: Buffer,
    /// Share of packets that the marked link loses, or declares to lose.
    per: Percent,
    /// Distribution of losses.
    burst: Burst,
    /// Time of the losses.
    lossy: Lossy,
    /// Whether the port declares the loss.
    declared: Declared,
    /// Duration of an outage.
    outage: Time,
    /// Number of outages.
    times: Count,
    /// Number of links.
    hops: Count,
    /// Flows over all links.
    long: Count,
    /// Flows across each link.
    cross: Mix,
    /// Largest extra delay.
    jitter: Time,
    /// Flows of our law (or of the port's own law), and TCP flows; of each distance if there are
    /// two, of the near distance if the far one has `large` flows.
    flows: Mix,
    /// Files, one after the other.
    mice: Count,
    /// Size of each.
    size: Size,
    /// Far flows of ours.
    large: Count,
    /// Flows of the other law, or of each other law.
    guests: Count,
    /// UDP's share of the link's rate.
    share: Percent,
    /// Propagation round trip over all links, at first.
    rtt: Time,
    /// Propagation round trip afterwards.
    then: Time,
    /// Propagation round trip of near flows.
    near: Time,
    /// Propagation round trip of far flows.
    far: Time,
}

impl Cell {
    /// Returns the cell's group.
    pub const fn group(&self) -> Group {
        self.kind.group()
    }

    /// Returns a cell of this kind with those of this cell's values that the kind names.
    pub(super) fn of_kind(&self, kind: Kind) -> Self {
        let mut cell = Self {
            kind,
            ..Self::default()
        };
        for value in kind.values() {
            // A value's own text is valid.
            let _ = cell.set(value, &self.text(value));
        }
        cell
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group(), self.kind.word())?;
        let mut values = self.kind.values();
        values.try_for_each(|value| write!(f, "-{}", self.text(value)))
    }
}

impl FromStr for Cell {
    type Err = BadCell;

    fn from_str(text: &str) -> Result<Self, BadCell> {
        let mut parts = text.split('-');
        let first = parts.next().unwrap_or_default();
        let named = |kind: &Kind| first == format!("{}/{}", kind.group(), kind.word());
        let kind = Kind::ALL.into_iter().find(named);
        let kind = kind.ok_or_else(|| BadCell::Kind(first.to_owned()))?;
        let given: Vec<&str> = parts.collect();
        let count = || BadCell::Values {
            cell: text.to_owned(),
            given: given.len(),
            form: kind.name(),
            wanted: kind.values().count(),
        };
        let mut cell = Self {
            kind,
            ..Self::default()
        };
        for (index, value) in kind.values().enumerate() {
            let given = given.get(index).ok_or_else(count)?;
            cell.set(value, given).map_err(|source| BadCell::Axis {
                cell: text.to_owned(),
                source,
            })?;
        }
        if given.len() > kind.values().count() {
            return Err(count());
        }
        Ok(cell)
    }
}

named! {
    /// The kind of a cell. Its name is the form of the names of its cells, after their group: a
    /// word, and the names of the values.
    pub(super) Kind {
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
