//! The results of trials.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::grid::{Harmed, LAWS};

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
            "Cells of {} that a law harms, mean over seeds {} (least to most); then the cells \
             that a mechanism saves, mean ± standard error of the differences by seed. \
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
