//! Comparisons of pathmark's transport with other QUIC stacks, in `examples/` and `benches/`. This
//! is a separate crate, so that users of the library don't build the other stacks.

#![forbid(unsafe_code)]
