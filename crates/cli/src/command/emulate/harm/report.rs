//! The results of the cells.

use std::collections::BTreeMap;

use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Compared, Condition, Group, judge};
use serde::Serialize;

use super::{Law, MOST_PACKETS};

/// All of it; its JSON form.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The seed by which cells were drawn, and from which their runs' randomness comes.
    pub(super) seed: u64,
    /// Cells that were wanted.
    pub(super) cells: usize,
    /// Pairs of cell and law that were wanted.
    pub(super) wanted: usize,
    /// Groups and laws.
    pub(super) summary: Vec<Summary>,
    /// Pairs of cell and law whose runs came to their end.
    pub(super) results: Vec<Judged>,
}

/// A law in a group.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// `None`: all groups together.
    pub(super) group: Option<&'static str>,
    pub(super) law: String,
    /// Cells that it was judged in.
    pub(super) cells: usize,
    /// Cells that it harms.
    pub(super) harmed: usize,
    /// The number of them by condition. A cell may count more than once.
    pub(super) conditions: BTreeMap<Condition, usize>,
    /// The figure farthest beyond its bound, if any is beyond it.
    pub(super) worst: Option<Worst>,
    /// Cells that it does not harm only because the least flow has more than with `cubic`.
    pub(super) excused: usize,
    /// The figure farthest beyond its bound in these.
    pub(super) worst_excused: Option<Worst>,
}

/// A figure and where it is from.
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
    /// It does harm.
    pub(super) harm: bool,
    /// One of the two runs was ended for its many packets; its figures are of the time until then.
    pub(super) cut: bool,
    pub(super) figures: Vec<Compared>,
}

impl Judged {
    /// A figure that is beyond its bound, where that is excused and all others are within theirs.
    fn excused(&self) -> Option<&Compared> {
        let excused = self.figures.iter().find(|figure| figure.excused);
        excused.filter(|_| !self.harm)
    }

    /// The figures that are beyond their bounds, and are not excused.
    pub(super) fn harmful(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|figure| figure.harm)
    }
}

impl Report {
    /// Judges every cell and law with results against `cubic`'s results in that cell.
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
        // The laws are those of each cell; only their ports differ.
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

    /// How far it came.
    pub(super) fn progress(&self) -> String {
        format!("{} of {} were judged", self.results.len(), self.wanted)
    }

    /// The group and law with the largest share of harmed cells, if it is more than this.
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

/// The worse one of the worst so far and a figure of a cell.
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
