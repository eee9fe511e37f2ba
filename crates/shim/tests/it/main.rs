//! Tests the shim with arbitrary bytes.

mod fuzz_shim;
