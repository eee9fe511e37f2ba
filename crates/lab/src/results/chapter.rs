//! The runs of a scenario, put together.

use std::collections::BTreeMap;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

use crate::series::Series;
use crate::sweep::Case;

/// Runs that differ in their seeds only.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) variant: Option<String>,
    /// What the sweeps set, seeds apart.
    pub(super) set: BTreeMap<String, String>,
    pub(super) results: Vec<RunResult>,
    /// Of the first seed.
    pub(super) series: Series,
}

impl Group {
    pub(super) fn results(&self) -> Vec<&RunResult> {
        self.results.iter().collect()
    }
}

/// A scenario and what came of it.
#[derive(Debug)]
pub struct Chapter {
    pub(super) scenario: Scenario,
    /// Seeds that its figures are means over.
    pub(super) seeds: usize,
    pub(super) groups: Vec<Group>,
    /// A picture of it stands next to the page.
    pub picture: bool,
}

impl Chapter {
    /// A chapter of these runs, without a picture.
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

    /// Number of its runs.
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
