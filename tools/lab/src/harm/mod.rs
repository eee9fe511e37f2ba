//! Does a law do harm? Scenarios drawn by a seed are run both with the law and with `cubic`
//! instead.
//!
//! ```text
//!   seed ──► draw: cells of a group ──► Cell::scenario(law, port)     ──► RunResult ──┐
//!                                  └──► Cell::scenario("cubic", port) ──► RunResult ──┴──► judge
//! ```
//!
//! A [`Cell`] is a scenario without the law of the compared flows. Its name contains all its values
//! and parses back, so that any single cell can be run again.

mod axis;
mod cell;
mod draw;
mod judge;
mod scene;
#[cfg(test)]
mod tests;

pub use axis::BadAxis;
pub use cell::{BadCell, BadGroup, Cell, Group};
pub use draw::{CELLS, draw, split};
pub use judge::{Compared, Condition, judge};
pub use scene::Roles;
