//! Ports and links under loads.

mod port;
mod rate;
mod sharing;
mod sparse;
