//! Pages of results: tables and pictures of scenarios next to the papers' statements.

mod figure;
mod milestones;
mod page;

use std::collections::BTreeMap;

pub use figure::figure;
pub use page::{index, page};
use pathmark_cc::units::{RATE, Round, TIME, Units};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::Plot;

use crate::plot::{Line, Panel};
use crate::series::Series;
use crate::sweep::Case;

/// Runs that only differ in their seeds.
#[derive(Debug)]
struct Group {
    variant: Option<String>,
    /// Values set by the sweeps, except seeds.
    set: BTreeMap<String, String>,
    results: Vec<RunResult>,
    /// Time series of the first seed.
    series: Series,
}

impl Group {
    fn results(&self) -> Vec<&RunResult> {
        self.results.iter().collect()
    }
}

/// A scenario and its results.
#[derive(Debug)]
pub struct Chapter {
    scenario: Scenario,
    /// Number of seeds over which figures are averaged.
    seeds: usize,
    groups: Vec<Group>,
    /// True if there is a picture next to the page.
    pub picture: bool,
}

impl Chapter {
    /// Creates a chapter of these runs, without a picture.
    pub fn new(scenario: Scenario, done: Vec<(Case, RunResult, Series)>) -> Self {
        let groups = grouped(done);
        let seeds = groups.iter().map(|group| group.results.len()).max();
        Self {
            scenario,
            seeds: seeds.unwrap_or(0),
            groups,
            picture: false,
        }
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.groups.iter().map(|group| group.results.len()).sum()
    }
}

fn grouped(done: Vec<(Case, RunResult, Series)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (case, result, series) in done {
        let mut set = case.set;
        set.remove("seed");
        let known = |group: &&mut Group| group.variant == case.variant && group.set == set;
        match groups.iter_mut().find(known) {
            Some(group) => group.results.push(result),
            None => groups.push(Group {
                variant: case.variant,
                set,
                results: vec![result],
                series,
            }),
        }
    }
    groups
}

/// Returns the values that distinguish a line in its panel.
fn label(chapter: &Chapter, group: &Group, plot: &Plot, axis: Option<&String>) -> String {
    let fixed = |key: &String| Some(key) == axis || plot.only.contains_key(key);
    let set = group.set.iter().filter(|(key, _)| !fixed(key));
    let set = set.map(|(_, value)| value.clone());
    let mut others = chapter.groups.iter();
    let several = others.any(|other| other.variant != group.variant);
    let variant = group.variant.iter().filter(|_| several).cloned();
    variant.chain(set).collect::<Vec<_>>().join(", ")
}

/// Returns a swept key's quantity with its unit, or the key's last part if unknown.
fn axis_label(key: &str) -> &str {
    if key.ends_with("fec.rate") {
        return "code rate";
    }
    match key.rsplit('.').next().unwrap_or(key) {
        "per" => "packet error rate",
        "rate" => "rate [bit/s]",
        "count" => "flows",
        "limit" => "queue limit",
        "snr" => "SNR_G [dB]",
        "overhead" => "declared overhead [bytes]",
        other => other,
    }
}

/// Adds the unit if all values are times, because these are drawn in seconds.
fn x_label(key: &str, values: &[&str]) -> String {
    let is_time = |text: &&str| text.ends_with('s') && number(text).is_some();
    let label = axis_label(key);
    if !values.is_empty() && values.iter().all(is_time) {
        format!("{label} [s]")
    } else {
        label.to_owned()
    }
}

/// Parses a number, a rate in bit/s, or a time in seconds.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse().ok().filter(|n: &f64| n.is_finite());
    let round = Round::Nearest;
    let read = |units| Units { round, ..units }.read::<u64>(text).ok();
    let rate = || read(RATE).map(|bits| bits as f64);
    let time = || read(TIME).map(|nanos| nanos as f64 / 1e9);
    plain.or_else(rate).or_else(time)
}

/// Returns a panel with the plot's own title, if it has one.
fn panel(plot: &Plot, title: &str, [x, y]: [&str; 2], lines: Vec<Line>) -> Panel {
    Panel {
        title: plot.title.clone().unwrap_or_else(|| title.to_owned()),
        x_label: x.to_owned(),
        y_label: y.to_owned(),
        x_max: plot.x_max,
        y_max: plot.y_max,
        lines,
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_drawn_in_seconds() {
        assert_eq!(number("40ms"), Some(0.04));
        assert_eq!(number("2.5Gbit"), Some(2.5e9));
        assert_eq!(number("-1e3"), Some(-1000.0));
        assert_eq!(number("inf"), None);
        assert_eq!(x_label("path", &["40ms", "0.6s"]), "path [s]");
        assert_eq!(x_label("path", &["40ms-1", "600ms"]), "path");
        assert_eq!(x_label("link.l.rate", &["1Mbit", "1Gbit"]), "rate [bit/s]");
        assert_eq!(x_label("path", &[]), "path");
    }
}
