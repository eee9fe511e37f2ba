//! Whole connections, two at a time, over links under a virtual clock.

mod fixed_window;
mod handshake;
mod link;
mod pair;
mod streams;
