//! The cells of one seed, and the number of cells that each law harms.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pathmark_cc::{Mechanism, asked, remove};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Group, Roles, draw, judge, split};

use crate::cores::on_all_cores;

/// Maximum number of packets in a run, the same as in `pathmark emulate --harm`.
const MOST_PACKETS: u64 = 5_000_000;
/// The laws of the grid with their port's law and their guests' law, the same as in `pathmark
/// emulate --harm`.
pub(super) const LAWS: [(&str, &str, &str); 3] = [
    ("auto", "xcp", "vcp+bise+wlte"),
    ("vcp+bise+wlte", "vcp+bise", "xcp"),
    ("xcp", "xcp", "vcp+bise+wlte"),
];
/// Runs of `cubic` instead of these laws, by port. The second is compared with two laws.
const BASELINES: [(&str, &str, &str); 2] = [
    ("cubic", "vcp+bise", "xcp"),
    ("cubic", "xcp", "vcp+bise+wlte"),
];
/// Runs per cell: the laws, then the baselines.
const RUNS: usize = LAWS.len() + BASELINES.len();

/// The cells drawn by one seed.
pub(super) struct Grid {
    seed: u64,
    cells: Vec<Cell>,
}

/// A run and the mechanisms that were active in it.
#[derive(Clone)]
struct Ran {
    result: Arc<RunResult>,
    asked: Arc<[Mechanism]>,
}

/// The runs of all cells.
pub(super) struct Runs(Vec<[Ran; RUNS]>);

/// Numbers of harmed cells in the order of [`LAWS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Harmed {
    pub(super) all: [usize; LAWS.len()],
    /// Those in the group of hops without feedback.
    pub(super) hidden: [usize; LAWS.len()],
}

impl fmt::Display for Harmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, ((law, ..), harmed)) in LAWS.iter().zip(self.all).enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{law} harms {harmed}")?;
        }
        f.write_str(" cells")
    }
}

impl Grid {
    /// Draws cells using `seed`.
    pub(super) fn draw(seed: u64, cells: usize) -> Result<Self> {
        let drawn = split(cells).into_iter();
        let cells: Vec<Cell> = drawn.flat_map(|(group, n)| draw(group, seed, n)).collect();
        anyhow::ensure!(!cells.is_empty(), "seed {seed} draws no cells");
        Ok(Self { seed, cells })
    }

    /// Runs all cells with all mechanisms on all cores.
    pub(super) fn run(&self) -> Result<Runs> {
        let all = on_all_cores(&self.cells, |cell| self.runs(cell, |_| None))?;
        Ok(Runs(all))
    }

    /// Runs all cells without some mechanisms. A run is reused if none of these was active
    /// `before`.
    pub(super) fn run_without(&self, removed: &[Mechanism], before: &Runs) -> Result<Runs> {
        let pairs: Vec<_> = self.cells.iter().zip(&before.0).collect();
        remove(removed);
        let all = on_all_cores(&pairs, |(cell, before)| {
            self.runs(cell, |index| {
                let ran: &Ran = before.get(index)?;
                let same = !removed.iter().any(|each| ran.asked.contains(each));
                same.then(|| ran.clone())
            })
        });
        remove(&[]);
        Ok(Runs(all?))
    }

    /// Counts the cells that each law harms.
    pub(super) fn judge(&self, runs: &Runs) -> Harmed {
        let mut harmed = Harmed::default();
        for (cell, [auto, vcp, xcp, at_vcp, at_xcp]) in self.cells.iter().zip(&runs.0) {
            let pairs = [(auto, at_xcp), (vcp, at_vcp), (xcp, at_xcp)];
            let counts = harmed.all.iter_mut().zip(&mut harmed.hidden);
            for ((law, cubic), (all, hidden)) in pairs.into_iter().zip(counts) {
                let figures = judge(&law.result, &cubic.result);
                let harms = usize::from(figures.iter().any(|figure| figure.harm));
                *all += harms;
                *hidden += if cell.group() == Group::Hidden {
                    harms
                } else {
                    0
                };
            }
        }
        harmed
    }

    /// Performs the runs of a cell, except for those that `known` returns.
    fn runs(&self, cell: &Cell, known: impl Fn(usize) -> Option<Ran>) -> Result<[Ran; RUNS]> {
        let roles = LAWS.into_iter().chain(BASELINES);
        let mut runs = Vec::with_capacity(RUNS);
        for (index, (law, port, guest)) in roles.enumerate() {
            runs.push(match known(index) {
                Some(ran) => ran,
                None => self.one(cell, law, port, guest)?,
            });
        }
        runs.try_into().ok().context("one run of each role")
    }

    fn one(&self, cell: &Cell, law: &str, port: &str, guest: &str) -> Result<Ran> {
        let text = cell.scenario(self.seed, Roles { law, port, guest });
        let scenario = Scenario::parse(Path::new(&cell.to_string()), &text)?;
        let (result, asked) = asked(|| {
            scenario.run(|progress| match progress.packets >= MOST_PACKETS {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        });
        Ok(Ran {
            result: Arc::new(result.with_context(|| format!("{law} in {cell}"))?),
            asked: asked.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_result_and_a_mechanism_that_did_not_act_changes_no_run() {
        let _alone = super::super::REMOVING.lock().unwrap();
        let grid = Grid::draw(7, 2).unwrap();
        assert_eq!(grid.cells.len(), 2);
        let with = grid.run().unwrap();
        let harmed = grid.judge(&with);
        assert_eq!(harmed, grid.judge(&grid.run().unwrap()));
        for (all, hidden) in harmed.all.into_iter().zip(harmed.hidden) {
            assert!(hidden <= all && all <= 2, "{harmed}");
        }
        let mut quiet = Mechanism::ALL.to_vec();
        for ran in with.0.iter().flatten() {
            quiet.retain(|each| !ran.asked.contains(each));
        }
        assert!(!quiet.is_empty(), "in two cells some mechanism doesn't act");
        remove(&quiet);
        let without = grid.run();
        remove(&[]);
        let figures = |runs: &Runs| -> Vec<String> {
            let all = runs.0.iter().flatten();
            all.map(|ran| format!("{:?}", ran.result)).collect()
        };
        assert!(figures(&with) == figures(&without.unwrap()));
    }
}
