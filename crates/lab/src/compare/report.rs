//! All cells with all laws, and the best law of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use super::cell::Cell;
use super::cell_report::{CellReport, LawReport};
use super::figure::Measured;
use super::grid::Grid;
use super::sentence::sentences;

/// What came of a grid; its JSON form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Laws, in the order of every list here.
    pub laws: Vec<String>,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// Values of each axis.
    pub axes: BTreeMap<String, Vec<String>>,
    /// The cells of which all runs came to their end.
    pub cells: Vec<CellReport>,
    /// Cells that were wanted.
    pub wanted: usize,
    /// Summary of the figures, a sentence for each.
    pub sentences: Vec<String>,
}

impl Report {
    /// Of the cells that there are all results of. `result` gives a law's runs in a cell.
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
        let axis = |axis: Axis| (axis.name().to_owned(), grid.values(axis));
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

    /// The values of an axis that the grid has.
    pub fn values(&self, axis: Axis) -> &[String] {
        self.axes.get(axis.name()).map_or(&[], Vec::as_slice)
    }
}
