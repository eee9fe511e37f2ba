//! Results of the cells.

use std::collections::BTreeMap;

use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Compared, Condition, Group, judge};
use serde::Serialize;

use super::{Law, MOST_PACKETS};

/// The complete report in its JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The seed for drawing cells and for the randomness of their runs.
    pub(super) seed: u64,
    /// Requested cells.
    pub(super) cells: usize,
    /// Requested pairs of cell and law.
    pub(super) wanted: usize,
    /// Summaries for groups and laws.
    pub(super) summary: Vec<Summary>,
    /// Results of pairs of cell and law whose runs are complete.
    pub(super) results: Vec<Judged>,
}

/// A law's summary for a group.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// The group, or `None` for all groups together.
    pub(super) group: Option<&'static str>,
    pub(super) law: String,
    /// Cells in which it was judged.
    pub(super) cells: usize,
    /// Cells that it harms.
    pub(super) harmed: usize,
    /// Numbers of these cells by condition. A cell can count several times.
    pub(super) conditions: BTreeMap<Condition, usize>,
    /// The figure that exceeds its bound the most, if any does.
    pub(super) worst: Option<Worst>,
    /// Cells that it doesn't harm only because the smallest flow gets more than with
    /// `cubic`.
    pub(super) excused: usize,
    /// The figure that exceeds its bound the most in these cells.
    pub(super) worst_excused: Option<Worst>,
}

/// A figure and its cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Worst {
    pub(super) cell: String,
    #[serde(flatten)]
    pub(super) figure: Compared,
}

/// A law in a cell, compared with `cubic`.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    pub(super) cell: String,
    pub(super) group: &'static str,
    pub(super) law: String,
    /// The law of marked ports.
    pub(super) port: String,
    /// Whether it does harm.
    pub(super) harm: bool,
    /// Whether one of the two runs was ended early because of its many packets.
    pub(super) cut: bool,
    pub(super) figures: Vec<Compared>,
}

impl Judged {
    /// Returns a figure whose excess is excused, if all others are within their bounds.
    fn excused(&self) -> Option<&Compared> {
        let excused = self.figures.iter().find(|figure| figure.excused);
        excused.filter(|_| !self.harm)
    }

    /// Returns the figures that exceed their bounds without an excuse.
    pub(super) fn harmful(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|figure| figure.harm)
    }
}

impl Report {
    /// Compares the results of every cell and law with those of `cubic` in the same cell.
    pub(super) fn new<'a>(
        seed: u64,
        cells: &[Cell],
        laws: &[Vec<Law>],
        result: impl Fn(usize, &Law) -> Option<&'a RunResult>,
    ) -> Self {
        let mut results = Vec::new();
        for (index, (cell, laws)) in cells.iter().zip(laws).enumerate() {
            for law in laws {
                let runs = result(index, law).zip(result(index, &law.baseline()));
                let Some((run, cubic)) = runs else {
                    continue;
                };
                let figures = judge(run, cubic);
                results.push(Judged {
                    cell: cell.to_string(),
                    group: cell.group().name(),
                    law: law.name.clone(),
                    port: law.port.clone(),
                    harm: figures.iter().any(|figure| figure.harm),
                    cut: run.packets.max(cubic.packets) >= MOST_PACKETS,
                    figures,
                });
            }
        }
        // All cells have the same laws. Only the ports differ.
        let names: Vec<&str> = laws
            .first()
            .into_iter()
            .flatten()
            .map(|l| l.name.as_str())
            .collect();
        let groups = Group::ALL.map(|group| Some(group.name()));
        let groups = groups.into_iter().chain([None]);
        let summary = groups
            .flat_map(|group| names.iter().map(move |law| (group, *law)))
            .map(|(group, law)| Summary::new(group, law, &results))
            .filter(|summary| summary.cells > 0)
            .collect();
        Self {
            seed,
            cells: cells.len(),
            wanted: cells.len() * names.len(),
            summary,
            results,
        }
    }

    pub(super) fn progress(&self) -> String {
        format!("{} of {} were judged", self.results.len(), self.wanted)
    }

    /// Returns the group and law with the largest share of harmed cells, if it exceeds `most`.
    pub(super) fn above(&self, most: f64) -> Option<String> {
        let share = |summary: &&Summary| summary.harmed as f64 / summary.cells as f64;
        let groups = self.summary.iter().filter(|s| s.group.is_some());
        let worst = groups.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        (share(&worst) > most).then(|| {
            format!(
                "{} harms {} of {} cells of {}, more than {:.1} %",
                worst.law,
                worst.harmed,
                worst.cells,
                worst.group.unwrap_or_default(),
                most * 100.0
            )
        })
    }
}

impl Summary {
    fn new(group: Option<&'static str>, law: &str, results: &[Judged]) -> Self {
        let mine =
            |judged: &&Judged| judged.law == law && group.is_none_or(|group| judged.group == group);
        let mut summary = Self {
            group,
            law: law.to_owned(),
            cells: 0,
            harmed: 0,
            conditions: BTreeMap::new(),
            worst: None,
            excused: 0,
            worst_excused: None,
        };
        for judged in results.iter().filter(mine) {
            summary.cells += 1;
            summary.harmed += usize::from(judged.harm);
            for figure in judged.harmful() {
                *summary.conditions.entry(figure.condition).or_default() += 1;
                summary.worst = worse(summary.worst.take(), judged, figure);
            }
            if let Some(figure) = judged.excused() {
                summary.excused += 1;
                summary.worst_excused = worse(summary.worst_excused.take(), judged, figure);
            }
        }
        summary
    }
}

/// Returns the worse of the worst figure so far and a cell's figure.
fn worse(worst: Option<Worst>, judged: &Judged, figure: &Compared) -> Option<Worst> {
    worst
        .filter(|worst| worst.figure.beyond >= figure.beyond)
        .or_else(|| {
            Some(Worst {
                cell: judged.cell.clone(),
                figure: *figure,
            })
        })
}
