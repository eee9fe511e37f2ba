//! Cells and their names.

use std::fmt;
use std::str::FromStr;

use super::axis::BadAxis;

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

/// Subject of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A hop of less capacity without a control law.
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
    /// All groups.
    pub const ALL: [Self; 6] = [
        Self::Hidden,
        Self::Loss,
        Self::Outage,
        Self::Hops,
        Self::Jitter,
        Self::Flows,
    ];

    /// Its name.
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

/// The kinds of cells, each with its group, the first part of its name, and its values in the order
/// of the name.
macro_rules! cells {
    ($(
        $(#[$about:meta])*
        $variant:ident = $group:ident $kind:literal {
            $($(#[$doc:meta])* $field:ident: $type:ty),+ $(,)?
        }
    ),+ $(,)?) => {
        /// A cell: a scenario without its law. The cell's name contains all its values:
        /// `hidden/after-100M-5M-8p-2+2-80ms`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cell {
            $($(#[$about])* $variant { $($(#[$doc])* $field: $type),+ }),+
        }

        impl Cell {
            /// Returns the cell's group.
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
                        let mut values = Values::new(text, &values, form, wanted);
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

/// Parser of a name's values, in order.
struct Values<'a> {
    cell: &'a str,
    values: &'a [&'a str],
    form: &'static str,
    wanted: usize,
    next: usize,
}

impl<'a> Values<'a> {
    const fn new(cell: &'a str, values: &'a [&'a str], form: &'static str, wanted: usize) -> Self {
        Self {
            cell,
            values,
            form,
            wanted,
            next: 0,
        }
    }

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

mod kinds;

pub use kinds::Cell;
