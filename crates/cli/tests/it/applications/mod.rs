//! Unmodified applications through a tunnel that takes their connections by TPROXY, and over the
//! kernel's TCP.

pub(crate) mod files;
pub(crate) mod program;
mod round_trips;
pub(crate) mod through;

/// The target: rules of TPROXY leave private addresses alone, as those of the path are.
pub(crate) const TARGET: &str = "198.51.100.9";
