//! Does a law do harm? Scenarios drawn by a seed, each run with the law and with `cubic` in its
//! place.
//!
//! ```text
//!   seed ──► draw: cells of a group ──► Cell::scenario(law, port)     ──► RunResult ──┐
//!                                  └──► Cell::scenario("cubic", port) ──► RunResult ──┴──► judge
//! ```
//!
//! A [`Cell`] is a scenario without the law of the flows that are compared. Its name has all of its
//! values and parses back, so that any cell can be run again, by itself.

mod axis;
mod cell;
mod draw;
mod judge;
mod scene;
#[cfg(test)]
mod tests;

pub use axis::{BadAxis, Buffer, Burst, Count, Declared, Lossy, Mix, Percent, Rate, Size, Time};
pub use cell::{BadCell, BadGroup, Cell, Group};
pub use draw::{CELLS, draw, split};
pub use judge::{Compared, Condition, judge};
pub use scene::Roles;
