//! Cells, their kinds and their names.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::Deserialize;

use super::axis::{BadAxis, read};
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
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
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

/// The contents of `scenes.toml`, which explains the keys. A test proves that it parses.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("scenes.toml")).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) lists: BTreeMap<String, String>,
    #[serde(rename = "group")]
    pub(super) groups: Vec<Kinds>,
}

/// The kinds of a group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kinds {
    pub(super) name: Group,
    pub(super) cells: usize,
    #[serde(default)]
    pub(super) draw: String,
    pub(super) kind: Vec<Kind>,
}

/// A kind of cell.
#[derive(Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kind {
    form: String,
    pub(super) weight: u64,
    #[serde(default)]
    pub(super) draw: String,
    pub(super) scene: Option<String>,
    pub(super) seconds: Option<u32>,
    pub(super) fastest: Option<String>,
    pub(super) links: Option<u32>,
}

impl Kind {
    /// Returns the first part of the names of cells.
    fn word(&self) -> &str {
        self.form.split('-').next().unwrap_or_default()
    }

    /// Returns the names of the values of a cell in the order of the cell's name.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.form.split('-').skip(1)
    }
}

/// A cell: a scenario without its law. The cell's name contains all its values:
/// `hidden/after-100M-5M-8p-2+2-80ms`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    group: Group,
    pub(super) kind: &'static Kind,
    /// The text of each value that the kind names.
    values: Vec<String>,
}

impl Cell {
    /// Creates a cell of this kind from the texts of its values.
    pub(super) fn new(
        group: Group,
        kind: &'static Kind,
        texts: impl Iterator<Item = impl Into<String>>,
    ) -> Result<Self, BadAxis> {
        let values: Vec<String> = texts.map(Into::into).collect();
        for (value, text) in kind.values().zip(&values) {
            read(value, text)?;
        }
        Ok(Self {
            group,
            kind,
            values,
        })
    }

    /// Returns the cell's group.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// Returns the text of the value with this name, or an empty one if the kind does not name it.
    pub(super) fn text(&self, value: &str) -> &str {
        let place = self.kind.values().position(|name| name == value);
        let text = place.and_then(|place| self.values.get(place));
        text.map_or("", String::as_str)
    }

    /// Returns the number of the value with this name in its smallest unit, or 0 if the kind does
    /// not name it.
    pub(super) fn number(&self, value: &str) -> u64 {
        read(value, self.text(value)).unwrap_or(0)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.kind.word())?;
        self.values.iter().try_for_each(|text| write!(f, "-{text}"))
    }
}

impl FromStr for Cell {
    type Err = BadCell;

    fn from_str(text: &str) -> Result<Self, BadCell> {
        let mut parts = text.split('-');
        let first = parts.next().unwrap_or_default();
        let kinds = TABLE.groups.iter();
        let mut kinds = kinds.flat_map(|group| group.kind.iter().map(|kind| (group.name, kind)));
        let found = kinds.find(|(group, kind)| first == format!("{group}/{}", kind.word()));
        let (group, kind) = found.ok_or_else(|| BadCell::Kind(first.to_owned()))?;
        let given = parts.clone().count();
        let wanted = kind.values().count();
        let cell = Self::new(group, kind, parts.take(wanted));
        let cell = cell.map_err(|source| BadCell::Axis {
            cell: text.to_owned(),
            source,
        })?;
        if given != wanted {
            return Err(BadCell::Values {
                cell: text.to_owned(),
                given,
                form: &kind.form,
                wanted,
            });
        }
        Ok(cell)
    }
}
