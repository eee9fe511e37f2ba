//! BISE's parameters (VCP extensions paper, table III and section V), with shares in 10^-6.

use crate::vcp::params::EPSILON_PPM;

/// How r is sent to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// In the shim: each LOW packet carries r, so that equal flows grow equally.
    Carried,
    /// By lottery: a share r of the packets stays LOW, and the rest is raised to HIGH (the paper).
    Lottery(Draw),
}

/// How the lottery draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A Weyl sequence with the golden ratio as step: spread evenly, and synchronized with no flow.
    Weyl,
    /// Error diffusion: follows r most closely, but can prefer one of two alternating flows.
    Diffusion,
    /// Independent pseudo-random draws (the paper's "probabilistic").
    Random,
}

/// A BISE port's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiseParams {
    /// The senders' ε, in 10^-6.
    pub epsilon_ppm: u64,
    /// The share of the gap to the target load that is closed per interval, in 10^-6.
    pub k_ppm: u64,
    /// Target load ρ∞, in 10^-6.
    pub target_ppm: u64,
    /// The RTT of flows that should reach the target exactly, as a share of the interval in 10^-6.
    pub x_ref_ppm: u64,
    /// Load up to which LOW and HIGH are mixed, in 10^-6; the paper stops at 0.8.
    pub ceiling_ppm: u64,
    /// How r is sent to the sender.
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
    /// Selects the paper's rules where the defaults differ from them.
    pub fn as_published(&mut self) {
        self.ceiling_ppm = 800_000;
        self.marking = Marking::Lottery(Draw::Random);
    }
}
