//! The runs of a grid: which there are.

use std::collections::BTreeSet;

use pathmark_lab::compare::{Cell, Contestant, Grid, Measured};

/// A cell and a law, to be run with each seed.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The cell's name and the law's.
    pub(super) name: String,
    pub(super) cell: Cell,
    law: Contestant,
    pub(super) seeds: u32,
    /// Packets that enter links in all of its runs, about.
    pub(super) packets: f64,
}

impl Job {
    /// The scenario of a seed.
    pub(super) fn scenario(&self, seed: u32) -> String {
        self.cell.scenario(&self.law, u64::from(seed))
    }
}

/// The name of the job that has the results of a law in a cell.
pub(super) fn name(grid: &Grid, cell: &Cell, law: usize) -> Option<String> {
    let law = grid.laws.get(law)?;
    Some(format!("{} {law}", cell.as_run_by(law)))
}

/// Every law in every cell, each scenario once.
pub(super) fn jobs(grid: &Grid) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut known = BTreeSet::new();
    for cell in grid.cells() {
        for law in &grid.laws {
            let cell = cell.as_run_by(law);
            let name = format!("{cell} {law}");
            if known.insert(name.clone()) {
                jobs.push(Job {
                    name,
                    packets: cell.packets() * f64::from(grid.seeds),
                    cell,
                    law: law.clone(),
                    seeds: grid.seeds,
                });
            }
        }
    }
    jobs
}

/// Results by job; `None`: an interrupt kept it from its end.
pub(super) type Done = Vec<Option<Vec<Measured>>>;
