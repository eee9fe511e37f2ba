//! The runs of a scenario, in groups.

use std::collections::BTreeMap;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

use crate::series::Series;
use crate::sweep::Case;

/// Runs that only differ in their seeds.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) variant: Option<String>,
    /// Values set by the sweeps, except seeds.
    pub(super) set: BTreeMap<String, String>,
    pub(super) results: Vec<RunResult>,
    /// Time series of the first seed.
    pub(super) series: Series,
}

impl Group {
    pub(super) fn results(&self) -> Vec<&RunResult> {
        self.results.iter().collect()
    }
}

/// A scenario and its results.
#[derive(Debug)]
pub struct Chapter {
    pub(super) scenario: Scenario,
    /// Number of seeds over which figures are averaged.
    pub(super) seeds: usize,
    pub(super) groups: Vec<Group>,
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
