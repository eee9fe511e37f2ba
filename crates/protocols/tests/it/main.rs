//! The protocols' headers: agreement with their document, arbitrary bytes, and several protocols at
//! once.

mod counters;
mod fuzz_qs;
mod fuzz_vcp;
mod fuzz_xcp;
mod own;
mod tunnel;
mod vectors;
mod wire_edge;
mod wire_quick_start;
mod wire_vcp;
mod wire_xcp;
