//! Connections without sockets, using a virtual clock.

mod faults;
mod flood;
mod fuzz_endpoint;
mod fuzz_wire;
mod fuzz_words;
mod long_fat_path;
mod memory;
