//! The shim on bytes of any kind.

mod fuzz_shim;
