//! Builds scenarios from a few words, and returns figures of flows and links.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::{LinkResult, RunResult, WindowLink};

/// Returns a link in both directions. `rate` can be empty, and `more` contains more lines of its
/// table.
pub(crate) fn link(
    name: &str,
    [from, to]: [&str; 2],
    rate: &str,
    delay: &str,
    more: &str,
) -> String {
    let rate = match rate {
        "" => String::new(),
        rate => format!("rate = \"{rate}\"\n"),
    };
    format!(
        "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\n{rate}\
         delay = \"{delay}\"\n{more}\n"
    )
}

/// Returns flows with the same name. `more` contains more lines of their table.
pub(crate) fn flow(name: &str, [from, to]: [&str; 2], algorithm: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
         algorithm = \"{algorithm}\"\n{more}\n"
    )
}

pub(crate) fn run(text: &str) -> RunResult {
    changed(text, &[])
}

/// Runs the scenario in this text with changed keys.
pub(crate) fn changed(text: &str, changes: &[(&str, &str)]) -> RunResult {
    of(
        Scenario::parse(Path::new("test.toml"), text).unwrap(),
        changes,
    )
}

pub(crate) fn built_in(name: &str, changes: &[(&str, &str)]) -> RunResult {
    of(Scenario::load(name).unwrap(), changes)
}

fn of(mut scenario: Scenario, changes: &[(&str, &str)]) -> RunResult {
    for (key, value) in changes {
        scenario.set(key, value).unwrap();
    }
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// Returns the goodputs in Mbit/s of flows whose names begin with `name`, in the last window.
pub(crate) fn goodputs(result: &RunResult, name: &str) -> Vec<f64> {
    let flows = result.windows.last().unwrap().flows.iter();
    let own = flows.filter(|flow| flow.name.starts_with(name));
    own.map(|flow| flow.goodput_bps / 1e6).collect()
}

/// Returns a link's figures over the whole run.
pub(crate) fn over_all<'a>(result: &'a RunResult, link: &str) -> &'a LinkResult {
    let mut links = result.links.iter();
    links.find(|known| known.name == link).unwrap()
}

/// Returns a link's figures in the last window.
pub(crate) fn in_the_end<'a>(result: &'a RunResult, link: &str) -> &'a WindowLink {
    let mut links = result.windows.last().unwrap().links.iter();
    links.find(|known| known.name == link).unwrap()
}

/// Returns the packets that the queues of all links dropped.
pub(crate) fn drops(result: &RunResult) -> u64 {
    result.links.iter().map(|link| link.drops).sum()
}

pub(crate) fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Returns Jain's index of fairness.
pub(crate) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}
