//! Scenarios of several runs: variants, sweeps of their own, and what a paper says of them.

use std::collections::HashSet;

use pathmark_router::config::{Fault, Source};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::schema::File;
use crate::sweep::{Change, Sweep};

/// Keys that are changed together, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What it changes.
    pub set: Vec<Change>,
}

/// `[[paper]]`: what a paper says about this scenario.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Of what.
    pub says: String,
    /// The same here. Absent: a claim that no single number stands for.
    pub metric: Option<Metric>,
    /// The paper's number as it stands in its text. Absent: it is in a plot only.
    pub value: Option<String>,
    /// The variant that it is about; absent: all.
    pub variant: Option<String>,
    /// The flows that it is about: this one, or those numbered under this name; absent: all.
    pub flow: Option<String>,
}

/// What is compared with a paper. Links: the one used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Metric {
    /// Mean completion of the flows, seconds.
    Completion,
    /// Goodput of the flows together.
    Goodput,
    /// Packets that the flows lost.
    Lost,
    /// Utilization of the link.
    Utilization,
    /// When the link was first used to 80 %, seconds.
    #[serde(rename = "time-to-80")]
    TimeTo80,
    /// Mean queue while it is not empty, packets.
    QueueNonempty,
}

/// What a file says of several runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Several {
    pub(super) variants: Vec<Variant>,
    pub(super) sweeps: Vec<Sweep>,
    pub(super) paper: Vec<Reference>,
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
            let set = given.set.iter().map(|(key, value)| Change {
                key: key.clone(),
                value: text(value),
            });
            variants.push(Variant {
                name,
                set: set.collect(),
            });
        }
        let mut sweeps = Vec::new();
        for (key, list) in &file.sweep {
            let values: Vec<String> = list.as_array().into_iter().flatten().map(text).collect();
            if values.is_empty() {
                let message =
                    format!("sweep: `{key}` needs a list of values, as in [\"10Mbit\", \"1Gbit\"]");
                return Err(source.locate(None, message));
            }
            sweeps.push(Sweep {
                key: key.clone(),
                values,
            });
        }
        for given in &file.paper {
            if let Some(variant) = &given.get_ref().variant
                && !names.contains(variant)
            {
                return fail(given.span(), "there is no variant of that name");
            }
        }
        Ok(Self {
            variants,
            sweeps,
            paper: file.paper.iter().map(Spanned::get_ref).cloned().collect(),
        })
    }
}

/// A value as `KEY=VALUE` has it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
