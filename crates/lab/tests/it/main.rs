//! Comparisons, the harm grid and sweeps.

mod fuzz_cells;
mod harm;
mod outputs;
mod sweeps;
