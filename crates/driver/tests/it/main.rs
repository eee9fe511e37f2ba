//! The driver over real sockets.

mod address_forms;
mod descriptors;
mod driver;
mod interop;
mod memory;
mod rebind;
mod soak;
