//! The cells of one seed, the number of cells that each law harms, and the report of trials.

use std::fmt;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use pathmark_cc::{Mechanism, asked, remove};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Group, Roles, draw, judge, split};
use serde_json::{Value, json};

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
    pub(super) cells: Vec<Cell>,
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
    /// Draws cells using `seed`, and keeps those whose names begin with one of `only`, if any.
    pub(super) fn draw(seed: u64, cells: usize, only: &[String]) -> Result<Self> {
        let drawn = split(cells).into_iter();
        let mut cells: Vec<Cell> = drawn.flat_map(|(group, n)| draw(group, seed, n)).collect();
        cells.retain(|cell| {
            let name = cell.to_string();
            only.is_empty() || only.iter().any(|start| name.starts_with(start))
        });
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

/// Trials with the same seeds.
#[derive(Debug)]
pub(super) struct Report {
    cells: usize,
    seeds: Vec<u64>,
    /// Results with all mechanisms, by seed.
    pub(super) with: Vec<Harmed>,
    pub(super) trials: Vec<Trial>,
}

/// A trial without one or several mechanisms.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) name: String,
    /// Results by seed.
    pub(super) without: Vec<Harmed>,
}

impl Trial {
    pub(super) const fn new(name: String) -> Self {
        Self {
            name,
            without: Vec::new(),
        }
    }
}

/// Mean, minimum and maximum over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    least: i64,
    most: i64,
    /// The standard error of the mean.
    error: f64,
}

impl Spread {
    fn of(values: &[i64]) -> Self {
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<i64>() as f64 / n;
        let squares: f64 = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
        Self {
            mean,
            least: values.iter().copied().min().unwrap_or(0),
            most: values.iter().copied().max().unwrap_or(0),
            error: (squares / (n - 1.0).max(1.0) / n).sqrt(),
        }
    }

    fn json(self) -> Value {
        let Self {
            mean,
            least,
            most,
            error,
        } = self;
        json!({ "mean": mean, "min": least, "max": most, "standard_error": error })
    }
}

/// Selects the cells to count.
type Count = fn(&Harmed) -> [usize; LAWS.len()];

const ALL: Count = |harmed| harmed.all;
const HIDDEN: Count = |harmed| harmed.hidden;

fn column(runs: &[Harmed], count: Count, law: usize) -> Vec<i64> {
    let of = |harmed: &Harmed| count(harmed).get(law).copied().unwrap_or(0);
    let counts = runs.iter().map(of);
    counts
        .map(|n| i64::try_from(n).unwrap_or(i64::MAX))
        .collect()
}

impl Report {
    pub(super) fn new(cells: usize, seeds: &[u64]) -> Self {
        Self {
            cells,
            seeds: seeds.to_vec(),
            with: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// Returns by seed how many cells a mechanism saves a law from harming.
    fn saved(&self, trial: &Trial, count: Count, law: usize) -> Spread {
        let with = column(&self.with, count, law);
        let without = column(&trial.without, count, law);
        let pairs = without.iter().zip(&with);
        Spread::of(
            &pairs
                .map(|(without, with)| without - with)
                .collect::<Vec<_>>(),
        )
    }

    /// Formats a Markdown table: the number of cells that each law harms with all mechanisms,
    /// then the changes by each trial.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let _ = writeln!(
            text,
            "Cells, of {} drawn, that a law harms: mean over seeds {} (least to most); then the \
             cells that a mechanism saves, mean ± standard error of the differences by seed. \
             `silent hops`: the same of the cells of that group.\n",
            self.cells,
            seeds.join(", ")
        );
        text.push_str("| trial |");
        for (law, ..) in LAWS {
            let _ = write!(text, " `{law}` | silent hops |");
        }
        text.push_str("\n|---|");
        text.push_str(&"---|".repeat(2 * LAWS.len()));
        text.push_str("\n| all mechanisms |");
        for law in 0..LAWS.len() {
            for count in [ALL, HIDDEN] {
                let Spread {
                    mean, least, most, ..
                } = Spread::of(&column(&self.with, count, law));
                let _ = write!(text, " {mean:.1} ({least} to {most}) |");
            }
        }
        text.push('\n');
        for trial in &self.trials {
            let _ = write!(text, "| `{}` saves |", trial.name);
            for law in 0..LAWS.len() {
                for count in [ALL, HIDDEN] {
                    let Spread { mean, error, .. } = self.saved(trial, count, law);
                    let _ = write!(text, " {mean:+.1} ± {error:.1} |");
                }
            }
            text.push('\n');
        }
        text
    }

    /// Returns the same by seed.
    pub(super) fn json(&self) -> Value {
        let laws = |runs: &[Harmed], count: Count| -> Value {
            let pairs = LAWS.iter().enumerate().map(|(law, (name, ..))| {
                let counts = column(runs, count, law);
                let spread = Spread::of(&counts).json();
                (
                    (*name).to_owned(),
                    json!({ "by_seed": counts, "spread": spread }),
                )
            });
            Value::Object(pairs.collect())
        };
        let saved = |trial: &Trial| -> Value {
            let pairs = LAWS.iter().enumerate();
            let pairs = pairs
                .map(|(law, (name, ..))| ((*name).to_owned(), self.saved(trial, ALL, law).json()));
            Value::Object(pairs.collect())
        };
        let trials: Vec<Value> = self
            .trials
            .iter()
            .map(|trial| {
                json!({
                    "without": trial.name,
                    "harmed": laws(&trial.without, ALL),
                    "harmed_silent_hops": laws(&trial.without, HIDDEN),
                    "saved": saved(trial),
                })
            })
            .collect();
        json!({
            "cells": self.cells,
            "seeds": self.seeds,
            "harmed": laws(&self.with, ALL),
            "harmed_silent_hops": laws(&self.with, HIDDEN),
            "trials": trials,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_result_and_a_mechanism_that_did_not_act_changes_no_run() {
        let _alone = super::super::REMOVING.lock().unwrap();
        let grid = Grid::draw(7, 2, &[]).unwrap();
        assert_eq!(grid.cells.len(), 2);
        let only = |start: &str| Grid::draw(7, 150, &[start.to_owned()]);
        let hidden = only("hidden/").unwrap().cells;
        assert!(hidden.len() == 40 && hidden.iter().all(|cell| cell.group() == Group::Hidden));
        assert!(only("nowhere/").is_err());
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

    fn report() -> Report {
        let harmed = |all: [usize; 3]| Harmed {
            all,
            hidden: [1, 0, 0],
        };
        let mut report = Report::new(150, &[3, 5]);
        report.with = vec![harmed([10, 8, 7]), harmed([14, 8, 9])];
        report.trials.push(Trial {
            name: "growth".to_owned(),
            without: vec![harmed([12, 8, 6]), harmed([20, 8, 8])],
        });
        report
    }

    #[test]
    fn differences_are_paired_by_seed() {
        let report = report();
        let auto = report.saved(&report.trials[0], ALL, 0);
        assert_eq!(
            (auto.mean, auto.least, auto.most, auto.error),
            (4.0, 2, 6, 2.0)
        );
        let xcp = report.saved(&report.trials[0], ALL, 2);
        assert_eq!((xcp.mean, xcp.error), (-1.0, 0.0));
    }

    #[test]
    fn the_table_and_the_json_have_all_laws() {
        let report = report();
        let table = report.table();
        assert!(
            table.contains("| all mechanisms | 12.0 (10 to 14) |"),
            "{table}"
        );
        assert!(table.contains("| `growth` saves | +4.0 ± 2.0 |"), "{table}");
        let json = report.json();
        assert_eq!(json["trials"][0]["saved"]["auto"]["mean"], 4.0);
        assert_eq!(json["harmed"]["xcp"]["by_seed"], json!([7, 9]));
        assert_eq!(json["harmed_silent_hops"]["auto"]["by_seed"], json!([1, 1]));
    }
}
