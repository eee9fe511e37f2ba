//! The library as applications use it, over real sockets.

mod from_quinn;
mod known_rate;
mod root;
mod shim_path;
