//! BISE, the Bandwidth-Independent Start-up Extension of VCP (VCP extensions paper, section IV-A).
//!
//! While a port is below its ceiling, it mixes MI and AI in a ratio r for which the load approaches
//! its target in a time that does not depend on the capacity: r = k (ρ∞ − ρ) / (ε ρ). Senders use a
//! large ε, so that only r determines their growth. BISE is a link rule:
//! [`VcpLink`](super::port::VcpLink) measures, and [`Bise`] sets the marks.

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
