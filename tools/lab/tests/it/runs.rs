//! Runs of built-in scenarios, with their variants and sweeps.

use std::ops::ControlFlow;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::{LinkResult, RunResult};
use pathmark_lab::sweep::{Case, cases};

/// A run with its variant, the values that the sweep set, and its result.
pub(crate) struct Run {
    pub(crate) variant: String,
    /// Values in the order of the page's columns.
    pub(crate) set: Vec<String>,
    pub(crate) result: RunResult,
}

impl Run {
    pub(crate) fn is(&self, variant: &str, set: &[&str]) -> bool {
        self.variant == variant && self.set == set
    }

    pub(crate) fn bottleneck(&self) -> &LinkResult {
        let known = ["bottleneck", "there"];
        let mut links = self.result.links.iter();
        let found = links.find(|link| known.contains(&link.name.as_str()));
        found.unwrap_or_else(|| panic!("{} has no bottleneck", self.result.scenario))
    }

    pub(crate) fn jain(&self) -> f64 {
        self.result.jain_windows.unwrap_or(self.result.jain)
    }

    pub(crate) fn goodput(&self) -> f64 {
        self.result.flows.iter().map(|flow| flow.goodput_bps).sum()
    }

    pub(crate) fn utilization(&self) -> f64 {
        self.bottleneck().utilization.unwrap()
    }

    pub(crate) fn queue(&self) -> f64 {
        self.bottleneck().queue_packets.mean
    }

    /// Returns the number of files that have arrived, and their mean time.
    pub(crate) fn files(&self) -> (usize, f64) {
        let times = self
            .result
            .flows
            .iter()
            .filter_map(|flow| flow.completion_s);
        let times: Vec<f64> = times.collect();
        (
            times.len(),
            times.iter().sum::<f64>() / times.len().max(1) as f64,
        )
    }
}

/// Returns the runs of a scenario for which `wanted` returns true, given variant and values.
pub(crate) fn runs(
    name: &str,
    changes: &[&str],
    wanted: impl Fn(&str, &[String]) -> bool,
) -> Vec<Run> {
    swept(name, changes, &[], wanted)
}

/// Like [`runs`], once for each value of the sweeps.
pub(crate) fn swept(
    name: &str,
    changes: &[&str],
    sweeps: &[&str],
    wanted: impl Fn(&str, &[String]) -> bool,
) -> Vec<Run> {
    let scenario = Scenario::load(name).unwrap();
    of(&scenario, changes, sweeps, wanted)
}

pub(crate) fn of(
    scenario: &Scenario,
    changes: &[&str],
    sweeps: &[&str],
    wanted: impl Fn(&str, &[String]) -> bool,
) -> Vec<Run> {
    let name = scenario.id();
    let sweeps: Vec<_> = sweeps.iter().map(|text| text.parse().unwrap()).collect();
    let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
    let all = cases(scenario, &changes, &sweeps).unwrap();
    let runs = all.into_iter().filter_map(|(case, scenario)| {
        let Case { variant, set, .. } = case;
        let variant = variant.unwrap_or_default();
        let set: Vec<String> = set.values().cloned().collect();
        wanted(&variant, &set).then(|| {
            let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
            println!("{name} {variant} {set:?}: {} flows", result.flows.len());
            Run {
                variant,
                set,
                result,
            }
        })
    });
    let runs: Vec<Run> = runs.collect();
    assert!(!runs.is_empty(), "{name} has no such run");
    runs
}

pub(crate) fn the<'a>(runs: &'a [Run], variant: &str, set: &[&str]) -> &'a Run {
    let found = runs.iter().find(|run| run.is(variant, set));
    let all: Vec<_> = runs.iter().map(|run| (&run.variant, &run.set)).collect();
    found.unwrap_or_else(|| panic!("no run of {variant} {set:?} in {all:?}"))
}
