//! Comparisons, the harm grid, sweeps, and what the built-in scenarios show.

mod claims;
mod fuzz_cells;
mod harm;
mod outputs;
mod papers;
mod runs;
mod sweeps;
