//! Changes of keys, the values of sweeps, and repetitions.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;

/// Values, by key.
pub type Settings = BTreeMap<String, String>;

/// `KEY=VALUE`: a key of a scenario with its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, in the form of [`Scenario::set`](super::Scenario::set).
    pub key: String,
    /// The value, in the form of [`Scenario::set`](super::Scenario::set).
    pub value: String,
}

/// A change without a key, a value, or a `=` between them.
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

/// Values for a key, or named sets of changes, that are run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, or a common name for the sets.
    pub key: String,
    /// The points, at least one.
    pub points: Vec<Point>,
}

/// One value of an [`Axis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name, which is the value itself if a key takes values.
    pub name: String,
    /// The changes.
    pub set: Vec<Change>,
}

impl Axis {
    /// Returns true if its points change other keys than its own.
    pub fn has_sets(&self) -> bool {
        let mut all = self.points.iter().flat_map(|point| &point.set);
        all.any(|change| change.key != self.key)
    }
}

impl Point {
    /// Creates a point that sets `key` to `value`.
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

/// Number of seeds to average over, for scenarios whose single runs vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// For a run of a few minutes.
    #[serde(default = "once")]
    pub seeds: u32,
    /// As many as in the paper.
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
