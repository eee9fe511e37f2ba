//! The grid: laws, seeds, and values of each axis.

use std::collections::BTreeMap;
use std::path::Path;

use pathmark_link::keys::{Fault, Source};
use serde::Deserialize;

use super::axis::{Axis, BadValue};
use super::cell::{BadContestant, Cell, Contestant};

/// Maximum number of seeds per cell and law.
const MOST_SEEDS: u32 = 1000;
/// Maximum number of runs, because more take days.
const MOST_RUNS: u64 = 200_000;
/// Approximate number of packets that enter links per second of one core, in an optimized build.
const SPEED: f64 = 0.8e6;

/// The laws that are compared by default.
const LAWS: [&str; 6] = [
    "auto",
    "vcp+bise+wlte",
    "xcp",
    "cubic",
    "cubic@codel",
    "bbr",
];
/// Default number of seeds.
const SEEDS: u32 = 3;
/// The default values of each axis: two cores need some minutes for the whole grid.
const VALUES: [(Axis, &[&str]); 6] = [
    (Axis::Rate, &["10Mbit", "100Mbit"]),
    (Axis::Rtt, &["20ms", "100ms", "500ms"]),
    (Axis::Buffer, &["0.1bdp", "1bdp"]),
    (Axis::Loss, &["0%", "0.1%", "1%"]),
    (Axis::Flows, &["1", "8"]),
    (Axis::Routers, &["none", "1"]),
];

/// A grid as written in a file or on a command line. Fields set by neither have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GridFile {
    /// Laws, each followed by `@` and a port's law if this is not its own: `cubic@codel`.
    pub algorithms: Option<Values>,
    /// Number of seeds with which each cell is run.
    pub seeds: Option<u32>,
    /// The bottleneck's rate.
    pub rate: Option<Values>,
    /// Propagation round trip.
    pub rtt: Option<Values>,
    /// Size of the bottleneck's queue.
    pub buffer: Option<Values>,
    /// Share of data packets that are lost at random.
    pub loss: Option<Values>,
    /// Files that share the bottleneck.
    pub flows: Option<Values>,
    /// `none`, `hidden`, or how many routers answer.
    pub routers: Option<Values>,
}

/// A list of values. A single value needs no brackets, and numbers need no quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Values(pub Vec<String>);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a value or a list of values, such as [\"10Mbit\", \"1Gbit\"]"
)]
enum OneOrMany {
    One(Value),
    Many(Vec<Value>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl From<OneOrMany> for Values {
    fn from(given: OneOrMany) -> Self {
        let text = |value: Value| match value {
            Value::Whole(number) => number.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text,
        };
        Self(match given {
            OneOrMany::One(value) => vec![text(value)],
            OneOrMany::Many(values) => values.into_iter().map(text).collect(),
        })
    }
}

/// Error for a grid that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGrid {
    /// The file is not TOML, or has unknown keys.
    #[error("{0}")]
    File(Fault),
    /// A value does not fit its axis.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// An axis has no values.
    #[error("{0} has no values: write one at least, or leave the key out for its default")]
    Empty(Axis),
    /// A value occurs twice.
    #[error("{axis} has `{value}` twice: keep one")]
    Twice {
        /// The axis.
        axis: Axis,
        /// The value.
        value: String,
    },
    /// A law or a port is unknown.
    #[error(transparent)]
    Law(#[from] BadContestant),
    /// No law.
    #[error("there is nothing to compare: name a law at least, such as vcp+bise+wlte,cubic")]
    NoLaws,
    /// A law occurs twice.
    #[error("`{0}` stands twice among the laws: keep one")]
    LawTwice(String),
    /// No seeds, or too many.
    #[error("{0} seeds cannot be: write 1 to {MOST_SEEDS}")]
    Seeds(u32),
    /// More than `MOST_RUNS` runs.
    #[error(
        "{cells} cells, {laws} laws and {seeds} seeds make {runs} runs, about {hours} hours of one \
         core: at most {MOST_RUNS} runs go; take fewer values, laws or seeds, or several grids"
    )]
    TooMany {
        /// Cells.
        cells: u64,
        /// Laws.
        laws: u64,
        /// Seeds.
        seeds: u32,
        /// Their product, or `u64::MAX` if it is larger.
        runs: u64,
        /// Approximate hours of one core.
        hours: u64,
    },
}

impl From<Fault> for BadGrid {
    fn from(fault: Fault) -> Self {
        Self::File(fault)
    }
}

/// A checked grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Laws.
    pub laws: Vec<Contestant>,
    /// Seeds 1 to this are run.
    pub seeds: u32,
    /// At least one valid value of each axis.
    values: BTreeMap<Axis, Vec<String>>,
}

impl GridFile {
    /// Parses a file's text, with `path` for messages.
    ///
    /// # Errors
    /// [`BadGrid::File`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, BadGrid> {
        let source = Source { path, text };
        toml::from_str(text)
            .map_err(|error| source.locate(error.span(), error.message().trim()).into())
    }

    /// Returns the fields that `other` sets, and this value's other fields.
    #[must_use]
    pub fn changed_by(self, other: Self) -> Self {
        Self {
            algorithms: other.algorithms.or(self.algorithms),
            seeds: other.seeds.or(self.seeds),
            rate: other.rate.or(self.rate),
            rtt: other.rtt.or(self.rtt),
            buffer: other.buffer.or(self.buffer),
            loss: other.loss.or(self.loss),
            flows: other.flows.or(self.flows),
            routers: other.routers.or(self.routers),
        }
    }

    /// Checks the grid.
    ///
    /// # Errors
    /// [`BadGrid`].
    pub fn grid(self) -> Result<Grid, BadGrid> {
        let names = self.algorithms.map(|names| names.0);
        let names = names.unwrap_or_else(|| LAWS.map(str::to_owned).into());
        let mut laws: Vec<Contestant> = Vec::new();
        for name in &names {
            let law: Contestant = name.parse()?;
            let name = law.to_string();
            if laws.iter().any(|known| known.to_string() == name) {
                return Err(BadGrid::LawTwice(name));
            }
            laws.push(law);
        }
        if laws.is_empty() {
            return Err(BadGrid::NoLaws);
        }
        let seeds = self.seeds.unwrap_or(SEEDS);
        if !(1..=MOST_SEEDS).contains(&seeds) {
            return Err(BadGrid::Seeds(seeds));
        }
        let given = [
            self.rate,
            self.rtt,
            self.buffer,
            self.loss,
            self.flows,
            self.routers,
        ];
        let each = VALUES.into_iter().zip(given);
        let each = each.map(|((axis, default), given)| Ok((axis, values(axis, default, given)?)));
        let grid = Grid {
            laws,
            seeds,
            values: each.collect::<Result<_, BadGrid>>()?,
        };
        grid.bounded()
    }
}

/// Checks the values of an axis, and returns them in their only spelling.
fn values(axis: Axis, default: &[&str], given: Option<Values>) -> Result<Vec<String>, BadGrid> {
    let default = || default.iter().map(|text| (*text).to_owned()).collect();
    let texts: Vec<String> = given.map_or_else(default, |values| values.0);
    if texts.is_empty() {
        return Err(BadGrid::Empty(axis));
    }
    if texts.len() as u64 > MOST_RUNS {
        let runs = texts.len() as u64;
        return Err(too_many(runs, 1, 1, runs, 0));
    }
    let mut values = Vec::with_capacity(texts.len());
    let mut seen = std::collections::HashSet::new();
    for text in &texts {
        let value = Cell::default().with(axis, text)?.value(axis);
        if !seen.insert(value.clone()) {
            return Err(BadGrid::Twice { axis, value });
        }
        values.push(value);
    }
    Ok(values)
}

fn too_many(cells: u64, laws: u64, seeds: u32, runs: u64, hours: u64) -> BadGrid {
    BadGrid::TooMany {
        cells,
        laws,
        seeds,
        runs,
        hours,
    }
}

impl Grid {
    /// Returns the values of an axis as text.
    pub fn values(&self, axis: Axis) -> &[String] {
        self.values.get(&axis).map_or(&[], Vec::as_slice)
    }

    /// Returns all cells. The last axis varies fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for axis in Axis::ALL {
            let with = |cell: Cell| {
                let values = self.values(axis).iter();
                values.filter_map(move |value| cell.with(axis, value).ok())
            };
            cells = cells.into_iter().flat_map(with).collect();
        }
        cells
    }

    /// Estimates the seconds of one core for a number of packets.
    pub fn core_seconds(packets: f64) -> f64 {
        packets / SPEED
    }

    /// Refuses a grid that would take days, before making any cell.
    fn bounded(self) -> Result<Self, BadGrid> {
        let lengths = self.values.values().map(|values| values.len() as u64);
        let cells = lengths.fold(1, u64::saturating_mul);
        let laws = self.laws.len() as u64;
        let runs = cells
            .saturating_mul(laws)
            .saturating_mul(u64::from(self.seeds));
        if runs <= MOST_RUNS {
            return Ok(self);
        }
        let each = self.mean_packets();
        let hours = Self::core_seconds(each * runs as f64) / 3600.0;
        Err(too_many(cells, laws, self.seeds, runs, hours.ceil() as u64))
    }

    /// Estimates the mean packets per run from the rates and round trips of a grid that is too
    /// large to be made.
    fn mean_packets(&self) -> f64 {
        let few = |axis| self.values(axis).iter().take(100);
        let with_rtt = |rate: &String| {
            let cell = Cell::default().with(Axis::Rate, rate);
            let cells = few(Axis::Rtt).map(move |rtt| cell.clone()?.with(Axis::Rtt, rtt));
            cells.filter_map(Result::ok)
        };
        let packets = few(Axis::Rate)
            .flat_map(with_rtt)
            .map(|cell| cell.packets());
        let (sum, count) = packets.fold((0.0, 0.0), |(sum, n), packets| (sum + packets, n + 1.0));
        sum / f64::max(count, 1.0)
    }
}
