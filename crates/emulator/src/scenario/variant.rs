//! Scenarios with several runs: variants, sweeps, repetitions.
//!
//! Built-in scenarios.
//!
//! `[[paper]]`: a paper's statements about a scenario, for comparison with the results.

use std::collections::HashSet;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::document::{Metric, Plot, Quantity};
use super::schema::{Axis, Change, File, FileFlow, Point, Repeat, Settings};
use pathmark_link::keys::{Fault, Source, Span};

/// Maximum number of seeds.
const MOST_SEEDS: u32 = 10_000;

/// A named set of changed keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The changes.
    pub set: Vec<Change>,
}

/// The sections of a file about several runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Several {
    pub(super) variants: Vec<Variant>,
    pub(super) sweeps: Vec<Axis>,
    pub(super) repeat: Repeat,
    pub(super) paper: Vec<Reference>,
    pub(super) plots: Vec<Plot>,
    pub(super) note: Option<String>,
}

impl Several {
    pub(super) fn new(source: &Source<'_>, file: &File) -> Result<Self, Fault> {
        let fail = |span, message: &str| Err(source.locate(Some(span), message));
        let mut names = HashSet::new();
        let mut variants = Vec::new();
        for given in &file.variant {
            let name = given.name.get_ref().clone();
            if name.is_empty() || !names.insert(name.clone()) {
                return fail(given.name.span(), "variants need names of their own");
            }
            variants.push(Variant {
                name,
                set: changes(&given.set).collect(),
            });
        }
        let mut sweeps = Vec::new();
        for (key, list) in &file.sweep {
            let points = list.as_array().into_iter().flatten().map(|v| point(key, v));
            let Some(points) = points.collect::<Option<Vec<_>>>().filter(|p| !p.is_empty()) else {
                let message = format!(
                    "sweep: `{key}` needs a list of values, as in [\"10Mbit\", \"1Gbit\"], or of \
                     sets of keys, as in [{{ name = \"low\", set = {{ KEY = VALUE }} }}]"
                );
                return Err(source.locate(None, message));
            };
            sweeps.push(Axis {
                key: key.clone(),
                points,
            });
        }
        let repeat = file
            .repeat
            .as_ref()
            .map_or_else(Repeat::default, |r| *r.get_ref());
        if let Some(given) = &file.repeat
            && [repeat.seeds, repeat.paper]
                .iter()
                .any(|n| !(1..=MOST_SEEDS).contains(n))
        {
            return fail(given.span(), "repeat with 1 to 10000 seeds");
        }
        for given in &file.paper {
            if let Some(variant) = &given.get_ref().variant
                && !names.contains(variant)
            {
                return fail(given.span(), "there is no variant of that name");
            }
            if let Some(flow) = &given.get_ref().flow
                && !file.flow.iter().any(|known| names_flows(flow, known))
            {
                let message = format!("there is no flow `{flow}`, and none that is numbered so");
                return fail(given.span(), &message);
            }
            if let Some(message) = unknown(&given.get_ref().only, &sweeps) {
                return fail(given.span(), &message);
            }
            let measured = |window: &[Span; 2]| file.measure.iter().any(|w| w.get_ref() == window);
            if given
                .get_ref()
                .during
                .is_some_and(|window| !measured(&window))
            {
                return fail(given.span(), "during: `measure` has no such window");
            }
            let is_share = |share: f64| share > 0.0 && share <= 1.0;
            if given
                .get_ref()
                .payload_share
                .is_some_and(|share| !is_share(share))
            {
                return fail(
                    given.span(),
                    "payload_share: a number above 0, and at most 1",
                );
            }
        }
        for plot in &file.plot {
            if let Some(message) = unknown(&plot.only, &sweeps) {
                return Err(source.locate(None, format!("plot: {message}")));
            }
            if let Some(key) = &plot.over
                && !sweeps.iter().any(|axis| axis.key == *key)
            {
                let message = format!("plot: over: there is no sweep of `{key}`");
                return Err(source.locate(None, message));
            }
            if let Some(flow) = &plot.flow
                && !file.flow.iter().any(|known| names_flows(flow, known))
            {
                let message = format!("plot: there is no flow `{flow}`");
                return Err(source.locate(None, message));
            }
            let mut wanted = plot.variants.iter().flatten();
            if let Some(name) = wanted.find(|name| !names.contains(*name)) {
                let message = format!("plot: there is no variant `{name}`");
                return Err(source.locate(None, message));
            }
        }
        Ok(Self {
            variants,
            sweeps,
            repeat,
            paper: file.paper.iter().map(Spanned::get_ref).cloned().collect(),
            plots: file.plot.clone(),
            note: file.note.clone(),
        })
    }
}

/// Whether `name` selects flows of this table: it is their name, one of theirs, or the name that
/// they are numbered under.
fn names_flows(name: &str, flow: &FileFlow) -> bool {
    let known = flow.name.get_ref().as_str();
    let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    known.strip_prefix(name).is_some_and(numbered) || name.strip_prefix(known).is_some_and(numbered)
}

/// The error in a `where`: it may only have keys and values of the sweeps.
fn unknown(only: &Settings, sweeps: &[Axis]) -> Option<String> {
    only.iter().find_map(|(key, value)| {
        let Some(axis) = sweeps.iter().find(|axis| axis.key == *key) else {
            return Some(format!("where: there is no sweep of `{key}`"));
        };
        let known = axis.points.iter().any(|point| point.name == *value);
        (!known).then(|| format!("where: the sweep of `{key}` has no value `{value}`"))
    })
}

fn changes(set: &Table) -> impl Iterator<Item = Change> {
    set.iter().map(|(key, value)| Change {
        key: key.clone(),
        value: text(value),
    })
}

/// A value for the key, or a named set of keys: `{ name = "low", set = { KEY = VALUE } }`.
fn point(key: &str, value: &Value) -> Option<Point> {
    let named = value.as_table().and_then(|table| {
        let name = table.get("name")?.as_str()?;
        let set = table.get("set")?.as_table()?;
        (table.len() == 2).then_some((name, set))
    });
    match named {
        Some((name, set)) => Some(Point {
            name: name.to_owned(),
            set: changes(set).collect(),
        }),
        None if value.as_table().is_some_and(|t| t.contains_key("set")) => None,
        None => Some(Point::value(key, &text(value))),
    }
}

/// A value in the form for `KEY=VALUE`.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A scenario that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// Lists scenarios by the names of their files.
macro_rules! built_in {
    ($($name:literal)+) => {
        /// All built-in scenarios.
        pub const BUILT_IN: &[BuiltIn] = &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }),+];
    };
}

built_in! {
    "auto-start" "auto-files" "auto-mice" "auto-loss"
    "arrivals" "five-files" "plain-hop" "parking-lot"
    "vcp-ext-fig2" "vcp-ext-fig4" "vcp-ext-fig5" "vcp-ext-fig5-10g" "vcp-ext-epsilon" "vcp-ext-fig6"
    "vcp-ext-fig7"
    "vcp-linux-fig3" "vcp-linux-fig10" "vcp-linux-bursts" "vcp-linux-fig11"
    "vcp-linux-fig11-antennas"
    "vcp-beside-tcp"
    "xcp-linux-fig3" "xcp-linux-fig5" "xcp-linux-fig6" "xcp-linux-fig7" "xcp-linux-fig8-9"
    "xcp-linux-fig10" "xcp-linux-fig11" "xcp-linux-fig13" "xcp-linux-fig14" "xcp-linux-eq5"
    "xcp-cubic-fig1" "xcp-cubic-fig2" "xcp-cubic-fig3" "xcp-cubic-fig4" "xcp-cubic-fig5"
    "xcp-cubic-fig6" "xcp-cubic-fig7" "xcp-cubic-startup" "xcp-cubic-buffers"
    "xcp-i-fig2" "xcp-i-cells" "xcp-i-fig4" "xcp-i-fig6" "xcp-i-fig8" "xcp-i-fig10" "xcp-i-fig12"
    "xcp-i-fig13" "xcp-i-fig14" "xcp-i-tcp"
}

pub(super) fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|known| known.name == name)
}

/// One statement in a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The quantity that it concerns.
    pub says: String,
    /// The corresponding metric. Absent: no single number expresses the claim.
    pub metric: Option<Metric>,
    /// The paper's number, as printed in the text. Absent: it only appears in a plot.
    pub value: Option<String>,
    /// The variant that it concerns; absent: all.
    pub variant: Option<String>,
    /// The flows that it concerns: the one with this name, or those numbered under it; absent:
    /// all.
    pub flow: Option<String>,
    /// The measuring window that it concerns; absent: the whole run. Useful for `goodput`,
    /// `lost`, `drops`, `utilization` and the queue.
    pub during: Option<[Span; 2]>,
    /// The payload's share of IP bytes, above 0 and at most 1, by which goodput is divided. For
    /// papers that count IP bytes if the metric counts payload.
    pub payload_share: Option<f64>,
    /// The values of the sweeps that it concerns; absent: all, from the lowest to the highest.
    #[serde(default, rename = "where")]
    pub only: Settings,
    /// Points (x, y) of a curve from the paper's equations, drawn in the plots along with the
    /// results.
    pub curve: Option<Vec<(f64, f64)>>,
    /// The plot for the curve, by its quantity; absent: the first.
    pub show: Option<Quantity>,
}
