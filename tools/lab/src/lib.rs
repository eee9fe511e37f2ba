//! Experiments with the emulator: many runs of a scenario, and their results.
//!
//! ```text
//!   sweep    a scenario ──► runs: its variants, the values of its sweeps
//!   compare  a grid of paths ──► contestants, run in each cell ──► a report
//!   harm     a grid of situations ──► figures of a law that are worse than CUBIC's
//!   metric   a run ──► one number; results: tables and pictures of numbers, next to papers'
//!   plot     lines and heat maps as SVG and PNG
//! ```
//!
//! The emulator itself, [`pathmark_emulator`], runs one scenario without drawing, so that tests of
//! a control law do not have to build a plotting library.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod compare;
pub mod harm;
pub mod metric;
mod named;
pub mod outputs;
pub mod plot;
pub mod results;
pub mod series;
pub mod sweep;
pub mod text;
pub mod window;
