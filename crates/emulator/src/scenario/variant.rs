//! Scenarios with several runs: variants, sweeps, repetitions.

use std::collections::HashSet;

use pathmark_link::keys::{Fault, Source, Span};
use toml::{Spanned, Table, Value};

use super::changes::{Axis, Change, Point, Repeat, Settings};
use super::metric::{Plot, Reference};
use super::schema::{File, FileFlow};

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
