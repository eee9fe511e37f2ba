//! Comparison of laws over a grid of paths.
//!
//! ```text
//!   Grid ─► Cell: rate × RTT × buffer × loss × flows × routers
//!            └─► Cell::scenario(contestant, seed) ──► RunResult ─► measure ──► Tally over seeds
//!                                                                   Report: best laws by cell
//! ```
//!
//! In each cell, some large files share a bottleneck with short files. All reported figures are
//! from these runs, with several seeds each, and have confidence intervals.

mod axis;
mod cell;
mod figure;
mod grid;
mod picture;
mod report;
#[cfg(test)]
mod tests;

pub use axis::{Axis, BadValue, Routers};
pub use cell::{BadContestant, Cell, Contestant};
pub use figure::{Figure, Measured, Tally, measure};
pub use grid::{BadGrid, Grid, GridFile, Values};
pub use picture::{overview, pictures, too_large};
pub use report::{CellReport, LawReport, Report};
