//! Results of runs, and how people see them.
//!
//! ```text
//!   a run (emulated, or in real time in a test bed) ──► RunResult ──► JSON (the contract), CSV, plots
//! ```
//!
//! The same [`RunResult`] describes a run under a virtual clock and one over real interfaces, so that the two can
//! be laid side by side.

#![forbid(unsafe_code)]

pub mod fairness;
pub mod plot;
pub mod result;
