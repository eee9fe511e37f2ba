//! pathmark's transport beside other QUIC stacks: nothing to use, all is in `examples/` and
//! `tests/`. A crate of its own, so that users of the library build none of the other stacks.

#![forbid(unsafe_code)]
