//! The protocols' headers: agreement with their document, arbitrary bytes, and several protocols at
//! once.

/// A fuzz target: a function of an input, and the largest length of a random input in bytes.
///
/// `cargo test` runs each over its corpus in `__fuzz__` and a limited number of random inputs. A
/// fuzzer can run the same functions for as long as you like: `cargo bolero test -p
/// pathmark-protocols fuzz_vcp::shims` (libFuzzer).
macro_rules! target {
    ($name:ident, $run:expr, $max_len:expr) => {
        #[test]
        fn $name() {
            bolero::check!()
                .with_iterations(200_000)
                .with_max_len($max_len)
                .for_each($run);
        }
    };
}

mod fuzz_counters;
mod fuzz_qs;
mod fuzz_vcp;
mod fuzz_xcp;
mod own;
#[path = "../../../shim/tests/it/support.rs"]
#[allow(
    dead_code,
    reason = "it serves the tests of the protocols' packages too"
)]
mod support;
mod tunnel;
mod vectors;
mod wire_edge;
mod wire_quick_start;
mod wire_vcp;
mod wire_xcp;
mod wireshark;
