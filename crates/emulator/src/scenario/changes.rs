//! Changes of keys, the lists of values that a sweep gives a key, and repetitions.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;

/// Values by key.
pub type Settings = BTreeMap<String, String>;

/// `KEY=VALUE`: a key of a scenario and what it is changed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As [`Scenario::set`](super::Scenario::set) takes it.
    pub key: String,
    /// As [`Scenario::set`](super::Scenario::set) takes it.
    pub value: String,
}

/// A change as it was written has no key, no value, or nothing between them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is incomplete: write KEY=VALUE, as in link.bottleneck.rate=100Mbit")]
pub struct BadChange(String);

impl FromStr for Change {
    type Err = BadChange;

    fn from_str(text: &str) -> Result<Self, BadChange> {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => Ok(Self {
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            }),
            _ => Err(BadChange(text.to_owned())),
        }
    }
}

/// The values that a key takes one after the other, or sets of changes under names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, or what the sets have in common.
    pub key: String,
    /// At least one.
    pub points: Vec<Point>,
}

/// One value of an [`Axis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is called: the value itself, where a key takes values.
    pub name: String,
    /// What it changes.
    pub set: Vec<Change>,
}

impl Axis {
    /// True if its points change other keys than its own.
    #[must_use]
    pub fn has_sets(&self) -> bool {
        let mut all = self.points.iter().flat_map(|point| &point.set);
        all.any(|change| change.key != self.key)
    }
}

impl Point {
    /// `key` takes `value`.
    #[must_use]
    pub fn value(key: &str, value: &str) -> Self {
        Self {
            name: value.to_owned(),
            set: vec![Change {
                key: key.to_owned(),
                value: value.to_owned(),
            }],
        }
    }
}

/// Number of seeds over which figures are means, for scenarios whose single runs scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// In a few minutes.
    #[serde(default = "once")]
    pub seeds: u32,
    /// As many as the paper took.
    #[serde(default = "once")]
    pub paper: u32,
}

const fn once() -> u32 {
    1
}

impl Default for Repeat {
    fn default() -> Self {
        Self { seeds: 1, paper: 1 }
    }
}
