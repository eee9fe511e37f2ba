//! Ports and links under loads.

mod own;
mod port;
mod rate;
mod sharing;
mod sparse;
