//! Comparison of pathmark's transport with other QUIC stacks, in `examples/` and `tests/`. It is a
//! crate of its own, so that users of the library build none of the other stacks.

#![forbid(unsafe_code)]
