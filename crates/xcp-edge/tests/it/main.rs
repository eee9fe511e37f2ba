//! Tests estimation and messages of XCP-i against their documentation.

mod estimator;
mod fuzz_edge;
