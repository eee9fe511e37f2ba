//! Estimation and messages of XCP-i against their document.

mod estimator;
mod fuzz_edge;
mod passive;
