//! The driver over real sockets.

mod address_forms;
mod common;
mod descriptors;
mod driver;
mod interop;
mod rebind;
mod soak;
