//! Unmodified applications through a tunnel that intercepts their connections by TPROXY, and over
//! the kernel's TCP.

pub(crate) mod files;
pub(crate) mod program;
mod round_trips;
pub(crate) mod through;

/// The target. The rules of TPROXY exclude private addresses, such as those of the path.
pub(crate) const TARGET: &str = "198.51.100.9";
