//! The library as applications use it, over real sockets.

mod known_rate;
mod root;
mod shim_path;
