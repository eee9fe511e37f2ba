//! BISE's parameters (VCP extensions paper, table III and section V); shares in 10^-6.

use crate::vcp::params::EPSILON_PPM;

/// How r reaches the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// In the shim: each LOW packet carries r itself, so that equal flows grow equally.
    Carried,
    /// By lottery: a share r of the packets stays LOW, the rest is raised to HIGH (the paper).
    Lottery(Draw),
}

/// How the lottery draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A Weyl sequence with the golden ratio's step: spread evenly, in step with no flow.
    Weyl,
    /// Error diffusion: closest to r, but can lock onto one of two alternating flows.
    Diffusion,
    /// Independent pseudo-random draws (the paper's "probabilistic").
    Random,
}

/// A BISE port's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiseParams {
    /// The senders' ε.
    pub epsilon_ppm: u64,
    /// How fast the load approaches its target: the share of the gap closed per interval.
    pub k_ppm: u64,
    /// Target load ρ∞.
    pub target_ppm: u64,
    /// The RTT, as a share of the interval, of flows that shall hit the target exactly.
    pub x_ref_ppm: u64,
    /// Load up to which LOW and HIGH are mixed; the paper stops at 0.8.
    pub ceiling_ppm: u64,
    /// How r reaches the sender.
    pub marking: Marking,
}

impl Default for BiseParams {
    fn default() -> Self {
        Self {
            epsilon_ppm: EPSILON_PPM,
            k_ppm: 330_000,
            target_ppm: 1_000_000,
            x_ref_ppm: 1_000_000,
            ceiling_ppm: 980_000,
            marking: Marking::Carried,
        }
    }
}

impl BiseParams {
    /// The same with the paper's own rules wherever the defaults depart from them.
    pub fn as_published(&mut self) {
        self.ceiling_ppm = 800_000;
        self.marking = Marking::Lottery(Draw::Random);
    }
}
