//! The grid's axes.

use std::fmt;

use crate::named::named;

named! {
    /// An axis of the grid, with its key in a grid's file. The order is that of a cell's name.
    pub Axis {
        /// The bottleneck's rate.
        Rate = "rate",
        /// The path's propagation round trip.
        Rtt = "rtt",
        /// Size of the bottleneck's queue.
        Buffer = "buffer",
        /// Share of data packets that are lost at random.
        Loss = "loss",
        /// Files that share the bottleneck.
        Flows = "flows",
        /// The routers that answer.
        Routers = "routers",
    }
}

/// Error for text that does not parse as a value of an axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{axis} cannot be `{given}`: write {expects}")]
pub struct BadValue {
    /// The axis.
    pub axis: Axis,
    /// The given text.
    pub given: String,
    /// Description of valid values.
    pub expects: &'static str,
}

impl BadValue {
    pub(super) fn new(axis: Axis, given: &str) -> Self {
        let expects = match axis {
            Axis::Rate => "a rate such as 100Mbit, 32kbit to 100Gbit",
            Axis::Rtt => "a time such as 80ms, 100us to 20s",
            Axis::Buffer => {
                "a queue's room such as 1bdp, 0.1bdp, 100p or 64KiB, for a packet at least"
            }
            Axis::Loss => "a share of packets such as 0, 1e-3 or 0.1%, in steps of 1e-6 up to 50%",
            Axis::Flows => "how many files share the path, 1 to 10000",
            Axis::Routers => "`none`, `hidden`, or how many answer, 1 to 8",
        };
        Self {
            axis,
            given: given.to_owned(),
            expects,
        }
    }
}

/// The routers on the path that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routers {
    /// None: the bottleneck is a plain hop.
    None,
    /// A router with twice the rate. The bottleneck behind it is a plain hop.
    Hidden,
    /// This number of routers in a row with the same rate, including the bottleneck.
    Answer(u8),
}

impl Routers {
    /// Returns the number of links between the ends.
    pub(super) const fn hops(self) -> u8 {
        match self {
            Self::None => 1,
            Self::Hidden => 2,
            Self::Answer(number) => number,
        }
    }
}

impl fmt::Display for Routers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hidden => f.write_str("hidden"),
            Self::Answer(number) => write!(f, "{number}"),
        }
    }
}
