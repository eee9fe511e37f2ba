//! The text of a scenario, and the changes made to it.
//!
//! Errors in scenarios.
//!
//! Metrics of runs, as named in `[[paper]]` and `[[plot]]`.
//!
//! `[[plot]]`: plots of several runs.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::schema::{File, Settings};
use super::variant::{BUILT_IN, find};
use pathmark_link::keys::{Fault, LinkKeys, Source, nearest};

/// The source of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// For messages.
    path: PathBuf,
    text: String,
    /// The last changed key and its value. Without this change, the text was valid.
    changed: Option<(String, String)>,
}

impl Document {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            changed: None,
        }
    }

    pub(super) fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some(known) = find(name_or_path) {
            return Ok(Self::new(Path::new(known.name), known.text));
        }
        let path = Path::new(name_or_path);
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::new(path, &text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let names = BUILT_IN.iter().map(|known| known.name);
                Err(ScenarioError::Unknown {
                    given: name_or_path.to_owned(),
                    nearest: nearest(name_or_path, names).map(str::to_owned),
                })
            }
            Err(source) => Err(ScenarioError::Unreadable {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn id(&self) -> &str {
        let stem = self.path.file_stem().and_then(|stem| stem.to_str());
        stem.unwrap_or("scenario")
    }

    /// The text and its path, for messages.
    pub(super) fn source(&self) -> Source<'_> {
        Source {
            path: &self.path,
            text: &self.text,
        }
    }

    /// Parses the text.
    pub(super) fn file(&self) -> Result<File, toml::de::Error> {
        toml::from_str(&self.text)
    }

    /// The last changed key and its value.
    pub(super) const fn changed(&self) -> Option<&(String, String)> {
        self.changed.as_ref()
    }

    /// Returns this document with one key changed.
    pub(super) fn with(&self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        let fail = |message: String| ScenarioError::Set {
            key: key.to_owned(),
            value: value.to_owned(),
            message,
        };
        let mut table: Table = toml::from_str(&self.text).map_err(|e| fail(e.to_string()))?;
        if LinkKeys::NAMES.contains(&key) {
            return Err(fail(format!("links have this key: write link.NAME.{key}")));
        }
        let parts: Vec<&str> = key.split('.').collect();
        change(&mut table, &parts, &parse_value(value)).map_err(fail)?;
        let text = toml::to_string(&table).map_err(|e| fail(e.to_string()))?;
        Ok(Self {
            path: self.path.clone(),
            text,
            changed: Some((key.to_owned(), value.to_owned())),
        })
    }
}

/// Keys that also apply to the other direction of a duplex link.
const OF_BOTH: [&str; 3] = ["rate", "delay", "frame_overhead"];

impl Document {
    /// The keys of the link with this name, in the form for a router's port.
    pub(super) fn port(&self, name: &str) -> Option<Table> {
        let file: Table = toml::from_str(&self.text).ok()?;
        let links = file
            .get("link")?
            .as_array()?
            .iter()
            .filter_map(Value::as_table);
        let called =
            |link: &Table, wanted: &str| link.get("name").and_then(Value::as_str) == Some(wanted);
        let mut port = Table::new();
        for link in links {
            if called(link, name) {
                port.extend(link.clone());
            } else if let Some(forward) = name.strip_suffix(".reverse")
                && called(link, forward)
            {
                let both = link
                    .iter()
                    .filter(|(key, _)| OF_BOTH.contains(&key.as_str()));
                port.extend(both.map(|(key, value)| (key.clone(), value.clone())));
                let own = link.get("reverse").and_then(Value::as_table);
                port.extend(own.cloned().unwrap_or_default());
            }
        }
        port.retain(|key, _| LinkKeys::NAMES.contains(&key));
        (!port.is_empty()).then_some(port)
    }
}

/// Parses a TOML value; anything else becomes a string.
fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn change(table: &mut Table, key: &[&str], value: &Value) -> Result<(), String> {
    match key {
        [] | [""] => Err("a key is needed: KEY=VALUE".to_owned()),
        [list @ ("link" | "flow"), name, rest @ ..] if !rest.is_empty() => {
            let entries = table.get_mut(*list).and_then(Value::as_array_mut);
            let entries = entries.map_or(&mut [][..], Vec::as_mut_slice);
            change_named(entries, list, name, rest, value)
        }
        [list @ ("link" | "flow"), ..] => Err(format!(
            "say which {list} and which of its keys: {list}.NAME.KEY, or {list}.*.KEY for each"
        )),
        [key] => {
            table.insert((*key).to_owned(), value.clone());
            Ok(())
        }
        [key, rest @ ..] => {
            let inner = table.entry(*key).or_insert(Value::Table(Table::new()));
            let inner = inner.as_table_mut();
            let inner = inner.ok_or_else(|| format!("`{key}` is no table"))?;
            change(inner, rest, value)
        }
    }
}

fn change_named(
    entries: &mut [Value],
    list: &str,
    name: &str,
    rest: &[&str],
    value: &Value,
) -> Result<(), String> {
    let mut found = false;
    let mut names = Vec::new();
    for entry in entries {
        let Some(entry) = entry.as_table_mut() else {
            continue;
        };
        let own = entry.get("name").and_then(Value::as_str).unwrap_or("");
        names.push(own.to_owned());
        if name == "*" || name == own {
            found = true;
            change(entry, rest, value)?;
        }
    }
    if found {
        return Ok(());
    }
    let meant = nearest(name, names.iter().map(String::as_str));
    let hint = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
    Err(format!("no {list} is called `{name}`{hint}"))
}

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// Neither a built-in scenario nor an existing file.
    #[error(
        "no built-in scenario is called `{given}`, and there is no such file{}; `--list` shows all \
         names",
        hint(.nearest.as_deref())
    )]
    Unknown {
        /// The given name.
        given: String,
        /// The built-in scenario with the most similar name.
        nearest: Option<String>,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Its contents are invalid.
    #[error("{0}")]
    Invalid(Fault),
    /// A changed key is invalid.
    #[error("{key}={value}: {message}")]
    Set {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The error and its remedy.
        message: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

impl From<Fault> for ScenarioError {
    fn from(fault: Fault) -> Self {
        Self::Invalid(fault)
    }
}

/// A metric that is compared with a paper. Metrics of links refer to the link used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Metric {
    /// Mean completion time of the flows, seconds.
    Completion,
    /// Median completion time of the flows, seconds.
    CompletionMedian,
    /// 95th percentile of the flows' completion times, seconds: the smallest value that 95 % do
    /// not exceed.
    CompletionP95,
    /// Total goodput of the flows.
    Goodput,
    /// Total goodput of the flows in the last measuring window.
    LateGoodput,
    /// Jain's index over the flows' goodputs.
    Jain,
    /// Packets that the flows lost.
    Lost,
    /// Packets that the link's queue dropped.
    Drops,
    /// Packets that the link's queue dropped, in relation to those that the flows sent and it
    /// didn't drop.
    OverTransmission,
    /// Utilization of the link.
    Utilization,
    /// Utilization of the link in the last measuring window.
    LateUtilization,
    /// When the link was first used to 80 %, seconds after the first flow's start.
    #[serde(rename = "time-to-80")]
    TimeTo80,
    /// Mean queue, packets.
    Queue,
    /// Mean queue while it is not empty, packets.
    QueueNonempty,
    /// Longest queue, packets.
    QueueMax,
    /// Largest congestion window of a flow, bytes.
    WindowMax,
}

/// One plot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Headline; absent: the name of its quantity.
    pub title: Option<String>,
    /// A quantity over time, or a metric over the values of a sweep.
    pub show: Shown,
    /// The sweep on the horizontal axis; absent: the scenario's first. Ignored for quantities
    /// over time.
    pub over: Option<String>,
    /// Only this flow; absent: all.
    pub flow: Option<String>,
    /// Only runs with these values.
    #[serde(default, rename = "where")]
    pub only: Settings,
    /// Only these variants, in this order; absent: all.
    pub variants: Option<Vec<String>>,
    /// End of the horizontal axis; absent: the last point.
    pub x_max: Option<f64>,
    /// End of the vertical axis; absent: the highest point.
    pub y_max: Option<f64>,
}

/// The contents of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Shown {
    /// Over time.
    Quantity(Quantity),
    /// Over a sweep.
    Metric(Metric),
}

/// A quantity over time. Quantities of links refer to the link used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Quantity {
    /// Congestion windows in packets.
    Windows,
    /// Goodput of each flow, Mbit/s, averaged over a round trip.
    Goodputs,
    /// Smoothed round trips, milliseconds.
    RoundTrips,
    /// Packets that flows declare lost, per second.
    Losses,
    /// When flows reached their milestones, in seconds from their start. The axis shows bytes
    /// instead of time.
    Milestones,
    /// The link's utilization, averaged over a round trip.
    Use,
    /// The link's queue, packets.
    Queues,
    /// The load that the link's law measured.
    Load,
}

impl Quantity {
    /// Headline of a plot.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Windows => "Congestion windows",
            Self::Goodputs => "Goodput of flows",
            Self::RoundTrips => "Round trips",
            Self::Losses => "Losses of flows",
            Self::Milestones => "Time until milestones were reached",
            Self::Use => "Utilization of links",
            Self::Queues => "Queues",
            Self::Load => "Load",
        }
    }

    /// Label of its axis, with the unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Windows => "window [packets]",
            Self::Goodputs => "goodput [Mbit/s]",
            Self::RoundTrips => "smoothed RTT [ms]",
            Self::Losses => "packets lost [1/s]",
            Self::Milestones => "time [s]",
            Self::Use => "share of the rate",
            Self::Queues => "queue [packets]",
            Self::Load => "load",
        }
    }

    /// Upper end of its axis, if fixed.
    pub const fn most(self) -> Option<f64> {
        match self {
            Self::Use => Some(1.05),
            _ => None,
        }
    }

    /// Returns true if this is a quantity of links, not of flows.
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Use | Self::Queues | Self::Load)
    }
}
