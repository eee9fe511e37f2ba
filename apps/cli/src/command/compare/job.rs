//! The runs of a grid.

use std::collections::BTreeSet;

use pathmark_lab::compare::{Cell, Contestant, Grid, Measured};

/// A cell and a law to run with each seed.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The names of the cell and the law.
    pub(super) name: String,
    pub(super) cell: Cell,
    law: Contestant,
    pub(super) seeds: u32,
    /// Approximate number of packets that enter links in all runs.
    pub(super) packets: f64,
}

impl Job {
    pub(super) fn scenario(&self, seed: u32) -> String {
        self.cell.scenario(&self.law, u64::from(seed))
    }
}

/// Returns the name of the job for a law in a cell.
pub(super) fn name(grid: &Grid, cell: &Cell, law: usize) -> Option<String> {
    let law = grid.laws.get(law)?;
    Some(format!("{} {law}", cell.as_run_by(law)))
}

/// Returns a job for every law in every cell, without duplicate scenarios.
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

/// Results by job, with `None` for jobs that aren't complete.
pub(super) type Done = Vec<Option<Vec<Measured>>>;
