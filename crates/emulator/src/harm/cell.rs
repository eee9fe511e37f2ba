//! Cells and their names.

use std::fmt;
use std::str::FromStr;

use super::axis::{BadAxis, Buffer, Burst, Count, Lossy, Mix, Percent, Rate, Size, Time, Told};

/// A name that is none of a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCell {
    /// No such kind of cell.
    #[error(
        "no kind of cell begins `{0}`: names are GROUP/KIND-VALUE-…, as in hidden/after-100M-5M-8p-2+2-80ms"
    )]
    Kind(String),
    /// A value of it is wrong.
    #[error("{cell}: {source}")]
    Axis {
        /// The name.
        cell: String,
        /// What is wrong.
        source: BadAxis,
    },
    /// Too many values, or too few.
    #[error("`{cell}` has {given} values: {form} has {wanted}")]
    Values {
        /// The name.
        cell: String,
        /// Its values.
        given: usize,
        /// How the name goes.
        form: &'static str,
        /// Values that it needs.
        wanted: usize,
    },
}

/// No group of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no group is called `{0}`: they are hidden, loss, outage, hops, jitter, flows")]
pub struct BadGroup(String);

/// What a cell is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A hop of less capacity that says nothing.
    Hidden,
    /// Packets lost at random, with and without a hidden hop.
    Loss,
    /// Outages, low rates, rates that vary.
    Outage,
    /// Several marked bottlenecks.
    Hops,
    /// Jitter, short paths, round trips that change.
    Jitter,
    /// Many flows, small flows, mixed round trips, laws that share a port.
    Flows,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Hidden,
        Self::Loss,
        Self::Outage,
        Self::Hops,
        Self::Jitter,
        Self::Flows,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Loss => "loss",
            Self::Outage => "outage",
            Self::Hops => "hops",
            Self::Jitter => "jitter",
            Self::Flows => "flows",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Group {
    type Err = BadGroup;

    fn from_str(text: &str) -> Result<Self, BadGroup> {
        let known = Self::ALL.into_iter().find(|group| group.name() == text);
        known.ok_or_else(|| BadGroup(text.to_owned()))
    }
}

/// The kinds of cells, each with its group, the first word of its name, and its values in the order
/// of the name.
macro_rules! cells {
    ($($(#[$about:meta])* $variant:ident = $group:ident $kind:literal { $($(#[$doc:meta])* $field:ident: $type:ty),+ $(,)? }),+ $(,)?) => {
        /// A cell: a scenario but for the law that it is run with. Its name says all of it:
        /// `hidden/after-100M-5M-8p-2+2-80ms`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cell {
            $($(#[$about])* $variant { $($(#[$doc])* $field: $type),+ }),+
        }

        impl Cell {
            /// Its group.
            #[must_use]
            pub const fn group(&self) -> Group {
                match self {
                    $(Self::$variant { .. } => Group::$group),+
                }
            }
        }

        impl fmt::Display for Cell {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/", self.group())?;
                match self {
                    $(Self::$variant { $($field),+ } => {
                        f.write_str($kind)?;
                        $(write!(f, "-{}", $field)?;)+
                    }),+
                }
                Ok(())
            }
        }

        impl FromStr for Cell {
            type Err = BadCell;

            fn from_str(text: &str) -> Result<Self, BadCell> {
                let mut parts = text.split('-');
                let kind = parts.next().unwrap_or_default();
                let values: Vec<&str> = parts.collect();
                let (group, word) = kind.split_once('/').unwrap_or_default();
                match (group.parse(), word) {
                    $((Ok(Group::$group), $kind) => {
                        let form = concat!($kind $(, "-", stringify!($field))+);
                        let wanted = [$(stringify!($field)),+].len();
                        let mut values = Values { cell: text, values: &values, form, wanted, next: 0 };
                        let cell = Self::$variant { $($field: values.take()?),+ };
                        values.end()?;
                        Ok(cell)
                    })+
                    _ => Err(BadCell::Kind(kind.to_owned())),
                }
            }
        }
    };
}

/// The values of a name, one after the other.
struct Values<'a> {
    cell: &'a str,
    values: &'a [&'a str],
    form: &'static str,
    wanted: usize,
    next: usize,
}

impl Values<'_> {
    fn take<T: FromStr<Err = BadAxis>>(&mut self) -> Result<T, BadCell> {
        let value = self.values.get(self.next).ok_or_else(|| self.count())?;
        self.next += 1;
        value.parse().map_err(|source| BadCell::Axis {
            cell: self.cell.to_owned(),
            source,
        })
    }

    fn end(&self) -> Result<(), BadCell> {
        if self.values.len() == self.wanted {
            Ok(())
        } else {
            Err(self.count())
        }
    }

    fn count(&self) -> BadCell {
        BadCell::Values {
            cell: self.cell.to_owned(),
            given: self.values.len(),
            form: self.form,
            wanted: self.wanted,
        }
    }
}

cells! {
    /// A marked link, then a plain one of less capacity.
    After = Hidden "after" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Room of the plain link's queue.
        buffer: Buffer,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A plain link, then a marked one of more capacity.
    Before = Hidden "before" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Room of the plain link's queue.
        buffer: Buffer,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss.
    Random = Loss "random" {
        /// Its rate.
        rate: Rate,
        /// Share of packets that it loses.
        per: Percent,
        /// How losses come.
        burst: Burst,
        /// When.
        lossy: Lossy,
        /// Whether the port says so.
        told: Told,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss, then a plain one of less capacity.
    Both = Loss "both" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Room of the plain link's queue.
        buffer: Buffer,
        /// Share of packets that the marked link loses.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// The same, but the plain link's capacity falls below the marked one's halfway through only.
    Late = Loss "late" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link in the second half.
        hidden: Rate,
        /// Room of the plain link's queue.
        buffer: Buffer,
        /// Share of packets that the marked link loses.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with random loss, which the TCPs join halfway through.
    Join = Loss "join" {
        /// Its rate.
        rate: Rate,
        /// Share of packets that it loses.
        per: Percent,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that loses nothing and whose port declares that it does, then a plain one of
    /// less capacity.
    Forged = Loss "forged" {
        /// Rate of the marked link.
        marked: Rate,
        /// Rate of the plain link.
        hidden: Rate,
        /// Room of the plain link's queue.
        buffer: Buffer,
        /// Share of packets that the marked link is said to lose.
        per: Percent,
        /// Flows across both.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that is out for a while.
    Cut = Outage "cut" {
        /// Its rate.
        rate: Rate,
        /// How long it is out.
        outage: Time,
        /// How often.
        times: Count,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link of a low rate.
    Low = Outage "low" {
        /// Its rate.
        rate: Rate,
        /// Room of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link whose rate wanders, as a cellular one's does.
    Trace = Outage "trace" {
        /// Its mean rate, about.
        rate: Rate,
        /// Room of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link that is handed from satellite to satellite: out for a while, then another
    /// delay and rate.
    Handover = Outage "handover" {
        /// Its rate, about.
        rate: Rate,
        /// How long a handover takes.
        outage: Time,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip, about.
        rtt: Time,
    },
    /// A half-duplex cell that both directions share, whose rate steps.
    Radio = Outage "radio" {
        /// Its best rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows over all of several equal marked links, and flows across each.
    Lot = Hops "lot" {
        /// Rate of each.
        rate: Rate,
        /// How many.
        hops: Count,
        /// Flows over all of them.
        long: Count,
        /// Flows across each.
        cross: Mix,
        /// Room of their queues.
        buffer: Buffer,
        /// Propagation round trip over all of them.
        rtt: Time,
    },
    /// The same, each link a tenth slower than the one before.
    Taper = Hops "taper" {
        /// Rate of the first.
        rate: Rate,
        /// How many.
        hops: Count,
        /// Flows over all of them.
        long: Count,
        /// Flows across each.
        cross: Mix,
        /// Room of their queues.
        buffer: Buffer,
        /// Propagation round trip over all of them.
        rtt: Time,
    },
    /// A marked link with jitter that keeps the order.
    Order = Jitter "order" {
        /// Its rate.
        rate: Rate,
        /// Largest extra delay.
        jitter: Time,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link with jitter that lets packets overtake.
    Reorder = Jitter "reorder" {
        /// Its rate.
        rate: Rate,
        /// Largest extra delay.
        jitter: Time,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link over a short distance.
    Short = Jitter "short" {
        /// Its rate.
        rate: Rate,
        /// Room of its queue.
        buffer: Buffer,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// A marked link whose delay steps after a third of the run.
    Step = Jitter "step" {
        /// Its rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip at first.
        rtt: Time,
        /// And then.
        then: Time,
    },
    /// Flows without an end over one marked link.
    Many = Flows "many" {
        /// Its rate.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Small files beside flows without an end.
    Mice = Flows "mice" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows without an end.
        flows: Mix,
        /// Files, one after the other.
        mice: Count,
        /// Size of each.
        size: Size,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows of two round trips.
    Rtts = Flows "rtts" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows over each of the two distances.
        flows: Mix,
        /// Propagation round trip of one half.
        near: Time,
        /// And of the other.
        far: Time,
    },
    /// Large packets from far beside small packets from near.
    Sizes = Flows "sizes" {
        /// Rate of the marked link.
        rate: Rate,
        /// Near flows of ours that send small packets, and TCPs.
        flows: Mix,
        /// Far flows of ours.
        large: Count,
        /// Propagation round trip of flows with small packets.
        near: Time,
        /// And of those with large ones.
        far: Time,
    },
    /// Flows of both laws at one port.
    Ports = Flows "ports" {
        /// Its rate.
        rate: Rate,
        /// Flows of the port's own law, and TCPs.
        flows: Mix,
        /// Flows of the other law.
        guests: Count,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows of all kinds at one port.
    Mixed = Flows "mixed" {
        /// Its rate.
        rate: Rate,
        /// Flows of the port's own law, and TCPs.
        flows: Mix,
        /// Flows of each other law: the other explicit one, NewReno, and CUBIC that asks for a
        /// starting rate.
        guests: Count,
        /// Propagation round trip.
        rtt: Time,
    },
    /// Flows beside UDP of 64-byte packets.
    Tiny = Flows "tiny" {
        /// Rate of the marked link.
        rate: Rate,
        /// Flows across it.
        flows: Mix,
        /// Share of the link's rate that the UDP has.
        share: Percent,
        /// Propagation round trip.
        rtt: Time,
    },
}
