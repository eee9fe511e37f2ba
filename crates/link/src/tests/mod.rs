//! Ports and links under load.

mod own;
mod port;
mod rate;
mod sharing;
mod sparse;
