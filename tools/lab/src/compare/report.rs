//! All cells with all laws, the best law of each, and a sentence for each figure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::cell::Cell;
use super::figure::{Figure, Measured, Tally, tallies};
use super::grid::Grid;
use crate::text::capitalized;

/// A sentence mentions a value of an axis if the law is best in a share of this value's cells that
/// differs by at least this from its share of all cells.
const REMARKABLE: f64 = 0.2;

/// Values of each axis by its name.
type Axes = BTreeMap<String, Vec<String>>;

/// The results of a grid, with a JSON form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Laws, in the order of all lists here.
    pub laws: Vec<String>,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// Values of each axis.
    pub axes: BTreeMap<String, Vec<String>>,
    /// The cells in which all runs were completed.
    pub cells: Vec<CellReport>,
    /// Number of requested cells.
    pub wanted: usize,
    /// Summary of the figures, with one sentence per figure.
    pub sentences: Vec<String>,
}

impl Report {
    /// Makes a report on the cells with all results. `result` returns a law's runs in a cell.
    pub fn new(grid: &Grid, mut result: impl FnMut(&Cell, usize) -> Option<Vec<Measured>>) -> Self {
        let laws: Vec<String> = grid.laws.iter().map(ToString::to_string).collect();
        let all = grid.cells();
        let mut cells = Vec::with_capacity(all.len());
        for cell in &all {
            let each = laws.iter().enumerate().map(|(index, law)| {
                result(cell, index).map(|runs| LawReport::new(law.clone(), &runs))
            });
            if let Some(each) = each.collect() {
                cells.push(CellReport::new(cell, each));
            }
        }
        let axis = |axis: Axis| (axis.name().to_owned(), grid.values(axis).to_vec());
        let axes = Axis::ALL.into_iter().map(axis).collect();
        Self {
            sentences: sentences(&laws, &axes, &cells),
            laws,
            seeds: grid.seeds,
            axes,
            cells,
            wanted: all.len(),
        }
    }

    /// Returns the grid's values of an axis.
    pub fn values(&self, axis: Axis) -> &[String] {
        self.axes.get(axis.name()).map_or(&[], Vec::as_slice)
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// The cell's name.
    pub cell: String,
    /// The cell's value on each axis.
    pub at: BTreeMap<String, String>,
    /// The least time in which all files can arrive, seconds.
    pub floor_s: f64,
    /// The same for a short file.
    pub short_floor_s: f64,
    /// The results of each law.
    pub laws: Vec<LawReport>,
    /// For each figure, the best laws and those as good, because the difference is irrelevant in
    /// practice or may be caused by the seeds.
    pub best: BTreeMap<Figure, Vec<String>>,
}

/// A law in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawReport {
    /// The law.
    pub law: String,
    /// The law's figures over the seeds.
    pub figures: BTreeMap<Figure, Tally>,
    /// Times among these figures that are lower bounds, because with at least one seed, files that
    /// might have changed them had not arrived when the run ended.
    pub bounds: BTreeSet<Figure>,
    /// Files that had not arrived when their runs ended, all seeds together.
    pub unfinished: usize,
    /// Data packets that queues dropped, all seeds together.
    pub drops: u64,
}

impl LawReport {
    /// Summarizes the runs with all seeds.
    pub fn new(law: String, runs: &[Measured]) -> Self {
        Self {
            law,
            figures: tallies(runs),
            bounds: runs.iter().flat_map(|run| run.bounds.clone()).collect(),
            unfinished: runs.iter().map(|run| run.unfinished).sum(),
            drops: runs.iter().map(|run| run.drops).sum(),
        }
    }

    /// True if the figure is a lower bound.
    pub fn is_bound(&self, figure: Figure) -> bool {
        self.bounds.contains(&figure)
    }

    /// Returns the law's mean of a figure.
    pub fn mean(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).map(|tally| tally.mean)
    }
}

impl CellReport {
    pub(super) fn new(cell: &Cell, laws: Vec<LawReport>) -> Self {
        let value = |axis: Axis| (axis.name().to_owned(), cell.value(axis));
        let best = Figure::ALL.into_iter();
        let best = best.map(|figure| (figure, best_of(figure, &laws)));
        Self {
            cell: cell.to_string(),
            at: Axis::ALL.into_iter().map(value).collect(),
            floor_s: cell.floor_s(),
            short_floor_s: cell.short_floor_s(),
            best: best.filter(|(_, laws)| !laws.is_empty()).collect(),
            laws,
        }
    }

    /// Returns the cell's value on an axis.
    pub fn value(&self, axis: Axis) -> &str {
        self.at.get(axis.name()).map_or("", String::as_str)
    }

    /// Returns the results of a law.
    pub fn law(&self, name: &str) -> Option<&LawReport> {
        self.laws.iter().find(|law| law.law == name)
    }

    /// True if the law is the best or as good by this figure.
    pub fn is_best(&self, figure: Figure, law: &str) -> bool {
        let best = self.best.get(&figure);
        best.is_some_and(|best| best.iter().any(|name| name == law))
    }
}

/// Least utilization, as a share of the cell's best, of laws that compete by their queues, because
/// a law that sends little has no queue.
const BUSY: f64 = 0.9;

fn best_of(figure: Figure, laws: &[LawReport]) -> Vec<String> {
    // Lower bounds only compete if there are no times.
    let all_bounds = laws.iter().all(|law| law.is_bound(figure));
    let used = |law: &LawReport| law.mean(Figure::Utilization).unwrap_or(0.0);
    let least_use = BUSY * laws.iter().map(used).fold(0.0, f64::max);
    let laws = laws.iter().filter(|law| {
        (all_bounds || !law.is_bound(figure)) && (figure != Figure::Queue || used(law) >= least_use)
    });
    let means = laws.clone();
    let means = means.filter_map(|law| Some((law, law.mean(figure)?)));
    let best = means.max_by(|(_, a), (_, b)| match figure.more_is_better() {
        true => a.total_cmp(b),
        false => b.total_cmp(a),
    });
    let Some(best) = best.and_then(|(law, _)| law.figures.get(&figure)) else {
        return Vec::new();
    };
    let as_good = |law: &&LawReport| {
        let own = law.figures.get(&figure);
        own.is_some_and(|own| {
            let near = figure.is_near(own.mean, best.mean) && own.overlaps(best);
            near || figure.is_close(own.mean, best.mean)
        })
    };
    let good = laws.filter(as_good);
    good.map(|law| law.law.clone()).collect()
}

/// Returns a sentence for each figure that has cells.
fn sentences(laws: &[String], axes: &Axes, cells: &[CellReport]) -> Vec<String> {
    let sentence = |figure| sentence(laws, axes, cells, figure);
    Figure::ALL.into_iter().filter_map(sentence).collect()
}

fn sentence(laws: &[String], axes: &Axes, cells: &[CellReport], figure: Figure) -> Option<String> {
    let cells = cells.iter().filter(|cell| cell.best.contains_key(&figure));
    let cells: Vec<&CellReport> = cells.collect();
    if cells.is_empty() || laws.len() < 2 {
        return None;
    }
    let shares = laws.iter().map(|law| (law, count(&cells, figure, law)));
    let mut shares: Vec<(&String, usize)> = shares.collect();
    // The order of the laws breaks ties.
    shares.sort_by_key(|share| std::cmp::Reverse(share.1));
    let parts = shares.iter().map(|(law, best)| {
        let mut part = format!("`{law}` in {best}");
        if let Some(words) = where_best(axes, &cells, figure, law, *best) {
            part += &format!(" ({words})");
        }
        part
    });
    let parts: Vec<String> = parts.collect();
    Some(format!(
        "{}: of {} cells, best or as good are {}.",
        capitalized(figure.title()),
        cells.len(),
        listed(&parts)
    ))
}

fn count(cells: &[&CellReport], figure: Figure, law: &str) -> usize {
    let best = cells.iter().filter(|cell| cell.is_best(figure, law));
    best.count()
}

/// `all 72 with routers 1, 0 of 48 with loss 1%`: the cells in which the law stands out or falls
/// behind.
fn where_best(
    axes: &Axes,
    cells: &[&CellReport],
    figure: Figure,
    law: &str,
    best: usize,
) -> Option<String> {
    let mut shares = Vec::new();
    for axis in Axis::ALL {
        let values = axes.get(axis.name()).map_or(&[][..], Vec::as_slice);
        for value in values.iter().filter(|_| values.len() > 1) {
            let here = cells
                .iter()
                .copied()
                .filter(|cell| cell.value(axis) == value);
            let here: Vec<&CellReport> = here.collect();
            let number = count(&here, figure, law);
            let words = format!("{} with {axis} {value}", of(number, here.len()));
            shares.push((number as f64 / here.len() as f64, words));
        }
    }
    // Of equal shares, the first counts. That of no cells is no number.
    let share = best as f64 / cells.len() as f64;
    let most = shares.iter().filter(|(own, _)| *own >= share + REMARKABLE);
    let least = shares.iter().filter(|(own, _)| *own <= share - REMARKABLE);
    let most = most.min_by(|a, b| b.0.total_cmp(&a.0));
    let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
    let words = most.into_iter().chain(least);
    let words: Vec<&str> = words.map(|(_, words)| words.as_str()).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn of(number: usize, all: usize) -> String {
    match number {
        _ if number == all => format!("all {all}"),
        0 => format!("none of {all}"),
        _ => format!("{number} of {all}"),
    }
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
