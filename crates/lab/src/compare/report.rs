//! All cells with all laws, and the best law of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::cell::Cell;
use super::cell_report::{CellReport, LawReport};
use super::figure::Measured;
use super::grid::Grid;
use super::sentence::sentences;

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
