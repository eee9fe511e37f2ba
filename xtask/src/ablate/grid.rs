//! The cells of one seed, and how many each law harms.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Group, Roles, draw, judge, split};

use crate::cores::on_all_cores;

/// A run ends after this number of packets, as in `pathmark emulate --harm`.
const MOST_PACKETS: u64 = 5_000_000;
/// The laws of the grid, each with the port that serves it and the law of guests there.
pub(super) const LAWS: [(&str, &str, &str); 3] = [
    ("auto", "vcp+bise", "xcp"),
    ("vcp+bise+wlte", "vcp+bise", "xcp"),
    ("xcp", "xcp", "vcp+bise+wlte"),
];
/// Runs of `cubic` in the place of those laws, by port; the first serves two laws.
const BASELINES: [(&str, &str); 2] = [("vcp+bise", "xcp"), ("xcp", "vcp+bise+wlte")];

/// Cells.
pub(super) struct Grid {
    seed: u64,
    cells: Vec<Cell>,
}

/// Cells that laws harm, in the order of [`LAWS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Harmed {
    pub(super) all: [usize; LAWS.len()],
    /// Of the group of silent hops.
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
    /// The cells that `seed` draws.
    pub(super) fn draw(seed: u64, cells: usize) -> Result<Self> {
        let drawn = split(cells).into_iter();
        let cells: Vec<Cell> = drawn.flat_map(|(group, n)| draw(group, seed, n)).collect();
        anyhow::ensure!(!cells.is_empty(), "seed {seed} draws no cells");
        Ok(Self { seed, cells })
    }

    /// Runs all cells on all cores.
    pub(super) fn run(&self) -> Result<Harmed> {
        let judged = on_all_cores(&self.cells, |cell| self.judge(cell))?;
        let mut harmed = Harmed::default();
        for (cell, laws) in self.cells.iter().zip(judged) {
            let hidden = cell.group() == Group::Hidden;
            for (law, harms) in laws.into_iter().enumerate() {
                let count = |to: &mut [usize; LAWS.len()]| {
                    if let Some(count) = to.get_mut(law) {
                        *count += usize::from(harms);
                    }
                };
                count(&mut harmed.all);
                if hidden {
                    count(&mut harmed.hidden);
                }
            }
        }
        Ok(harmed)
    }

    /// Which laws harm in this cell.
    fn judge(&self, cell: &Cell) -> Result<[bool; LAWS.len()]> {
        let mut baselines = Vec::with_capacity(BASELINES.len());
        for (port, guest) in BASELINES {
            baselines.push((port, self.one(cell, "cubic", port, guest)?));
        }
        let mut harms = [false; LAWS.len()];
        for ((law, port, guest), harm) in LAWS.into_iter().zip(&mut harms) {
            let run = self.one(cell, law, port, guest)?;
            let baseline = baselines.iter().find(|(at, _)| *at == port);
            let (_, cubic) = baseline.context("each port has a baseline")?;
            *harm = judge(&run, cubic).iter().any(|figure| figure.harm);
        }
        Ok(harms)
    }

    fn one(&self, cell: &Cell, law: &str, port: &str, guest: &str) -> Result<RunResult> {
        let text = cell.scenario(self.seed, Roles { law, port, guest });
        let scenario = Scenario::parse(Path::new(&cell.to_string()), &text)?;
        let result = scenario.run(|progress| match progress.packets >= MOST_PACKETS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        result.with_context(|| format!("{law} in {cell}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_result() {
        let grid = Grid::draw(7, 6).unwrap();
        assert_eq!(grid.cells.len(), 6);
        let first = grid.run().unwrap();
        assert_eq!(first, grid.run().unwrap(), "a seed gives one result");
        for (all, hidden) in first.all.into_iter().zip(first.hidden) {
            assert!(hidden <= all && all <= 6, "{first}");
        }
    }
}
