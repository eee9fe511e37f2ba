//! BISE, the Bandwidth-Independent Start-up Extension of VCP (VCP extensions paper, section IV-A).
//!
//! While a port is below its ceiling it mixes MI and AI in the ratio r that lets the load approach
//! its target in a time that does not depend on capacity: r = k (ρ∞ − ρ) / (ε ρ). Senders
//! follow with a large ε, so that r alone decides. A link rule: [`VcpLink`](super::port::VcpLink)
//! measures, [`Bise`] sets the marks.

mod lottery;
mod params;
mod ratio;
mod rule;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub use params::{BiseParams, Draw, Marking};
pub use rule::Bise;
