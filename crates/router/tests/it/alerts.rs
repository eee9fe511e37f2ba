//! The shipped alert rules and the board, compared with the metrics of a router that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cards::Cards;
use crate::watched::Watched;

/// Labels that Prometheus itself adds.
const ADDED: [&str; 2] = ["instance", "job"];

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The labels with their values of each metric in an exposition or an expression: names before
/// `=`, `=~`, `!=` in braces.
fn selected(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let starts = text.match_indices("vcp_router_").map(|(at, _)| at);
    let metric = |at: usize| {
        let rest = &text[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let braces = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let braces = braces.map_or("", |(braces, _)| braces);
        let labels = braces.split(',').filter_map(|pair| pair.split_once('='));
        let labels = labels.map(|(label, value)| {
            let value = value.trim_start_matches('~').trim_matches('"');
            (label.trim_end_matches('!').to_owned(), value.to_owned())
        });
        (name.to_owned(), labels.collect())
    };
    starts.map(metric).collect()
}

/// The labels in `by (…)`.
fn grouped(text: &str) -> impl Iterator<Item = &str> {
    let lists = text.split("by (").skip(1);
    let lists = lists.filter_map(|rest| rest.split_once(')'));
    lists.flat_map(|(list, _)| list.split(',').map(str::trim))
}

/// The words that follow `before` in templates, up to `after`.
fn shown<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(before).skip(1);
    parts.filter_map(|rest| rest.split(|c| !is_name(c)).next())
}

/// The expressions of the rules, each with what its annotations show.
fn rules() -> Vec<(String, Vec<String>)> {
    let file = include_str!("../../packaging/alerts.yml");
    let rules = file.split("- alert: ").skip(1).map(|rule| {
        let (_, rest) = rule.split_once("expr: ").unwrap();
        // A folded expression ends at the next key.
        let key = |line: &str| line.starts_with("        ") && !line.starts_with("         ");
        let lines = rest.lines().enumerate();
        let lines = lines.take_while(|(at, line)| *at == 0 || !key(line));
        let expression: Vec<_> = lines.map(|(_, line)| line.trim()).collect();
        let labels = shown(rest, "$labels.").map(str::to_owned);
        (expression.join(" "), labels.collect())
    });
    rules.collect()
}

/// The expressions of the board, each with what its legend shows.
fn panels() -> Vec<(String, Vec<String>)> {
    let board = include_str!("../../packaging/grafana.json");
    let board: Value = serde_json::from_str(board).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let targets = targets.map(|target| {
        let text = |key: &str| target[key].as_str().unwrap();
        let labels = shown(text("legendFormat"), "{{").map(str::to_owned);
        (text("expr").to_owned(), labels.collect())
    });
    targets.collect()
}

/// Rules and panels only use metrics, labels and values that the router has, and never add up
/// several routers.
#[test]
fn rules_and_panels_use_what_a_router_exports() {
    let cards = Cards::new();
    cards.let_ping();
    let wan = "rate = \"20Mbit\"\ncontroller = \"vcp\"\nprobe = \"203.0.113.2\"";
    cards.configure("", wan);
    let watched = Watched::new(cards);
    // Until the first probe is answered.
    let start = Instant::now();
    let behind = "vcp_router_link_delay_behind_seconds{";
    while !watched.show(&["--metrics"]).contains(behind) {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let mut exported: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let metrics = watched.show(&["--metrics"]);
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    for (name, labels) in samples.flat_map(selected) {
        let known = exported.entry(name).or_default();
        for (label, value) in labels {
            known.entry(label).or_default().insert(value);
        }
    }
    let (rules, panels) = (rules(), panels());
    assert!(rules.len() >= 11 && panels.len() >= 18, "{rules:?}");
    for (expression, shown) in rules.iter().chain(&panels) {
        let metrics = selected(expression);
        assert!(!metrics.is_empty(), "{expression}");
        let groups: Vec<_> = grouped(expression).collect();
        let sums = expression.matches("sum by (").count();
        assert_eq!(expression.matches("sum").count(), sums, "{expression}");
        let instances = groups.iter().filter(|label| **label == "instance").count();
        assert_eq!(instances, sums, "{expression}");
        for (name, labels) in metrics {
            let known = exported.get(&name);
            let known = known.unwrap_or_else(|| panic!("{name} of {expression}"));
            for (label, value) in labels {
                let added = ADDED.contains(&label.as_str());
                let has = known.get(&label).is_some_and(|set| set.contains(&value));
                assert!(added || has, "{label}={value} of {name} in {expression}");
            }
            let shown = shown.iter().map(String::as_str);
            for label in groups.iter().copied().chain(shown) {
                let has = ADDED.contains(&label) || known.contains_key(label);
                assert!(has, "{label} of {name} in {expression}");
            }
        }
    }
    // What the thresholds compare with is measured.
    let bounds = &exported["vcp_router_queue_delay_seconds_bucket"]["le"];
    let above = |bound: &String| (0.5..60.0).contains(&bound.parse().unwrap_or(f64::INFINITY));
    assert!(bounds.iter().any(above), "{bounds:?}");
}
