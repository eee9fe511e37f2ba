//! BISE, the Bandwidth-Independent Start-up Extension of VCP (VCP extensions paper, section IV-A).
//!
//! While a port is below its ceiling, it mixes MI and AI in a ratio r for which the load approaches
//! its target in a time that does not depend on the capacity: r = k (ρ∞ − ρ) / (ε ρ). Senders use a
//! large ε, so that only r determines their growth. BISE is a link rule:
//! [`VcpLink`](super::port::VcpLink) measures, and [`Bise`] sets the marks.

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use super::load::{LinkRule, Load, Mark};
use super::params::EPSILON_PPM;
use super::scale::ln_gain;
use crate::base::arith::{PPM, expm1, ln1p, saturate, scramble};
use crate::signals::{VcpCarried, VcpCode};

// BISE's parameters (VCP extensions paper, table III and section V), with shares in 10^-6.

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

// BISE as a link rule.

/// BISE's part of a port.
#[derive(Clone, Copy, Debug)]
pub struct Bise {
    params: BiseParams,
    r_q32: u64,
    r_shim: u16,
    /// The code for packets that follow r, which is LOW up to the ceiling.
    code: VcpCode,
    lottery: Lottery,
}

impl Bise {
    /// Creates the rule for a port without a measured load; `seed` makes the draws of routers in
    /// series independent.
    pub const fn new(params: BiseParams, seed: u64) -> Self {
        let draw = match params.marking {
            Marking::Lottery(draw) => draw,
            Marking::Carried => Draw::Weyl,
        };
        Self {
            params,
            r_q32: ONE_Q32,
            r_shim: u16::MAX,
            code: VcpCode::Low,
            lottery: Lottery::new(draw, seed),
        }
    }

    fn set(&mut self, r_q32: u64) {
        self.r_q32 = r_q32;
        self.r_shim = u16::try_from(r_q32 >> 16).unwrap_or(u16::MAX);
    }
}

impl LinkRule for Bise {
    fn on_load(&mut self, load: &Load) {
        self.set(ratio_at(&self.params, load));
        self.code = match load.code() {
            VcpCode::High if !load.reaches(self.params.ceiling_ppm, 1_000_000) => VcpCode::Low,
            code => code,
        };
    }

    fn on_progress(&mut self, load: &Load) {
        // The largest r of the next interval applies now.
        self.set(self.r_q32.min(ratio_at(&self.params, load)));
    }

    fn on_idle(&mut self) {
        self.set(ONE_Q32);
        self.code = VcpCode::Low;
    }

    fn mark(&mut self, code: VcpCode, carried: &VcpCarried) -> Mark {
        let r = Some(self.r_shim);
        match self.params.marking {
            Marking::Carried if carried.bise && carried.carries_r => Mark { code: self.code, r },
            // A packet that cannot carry r, or whose sender would not follow it, gets VCP's own
            // code.
            Marking::Carried => Mark { code, r },
            Marking::Lottery(_) if carried.bise || !carried.carries_r => Mark {
                code: match self.code {
                    // Only packets that are still LOW need a draw.
                    VcpCode::Low
                        if carried.code <= VcpCode::Low && !self.lottery.take(self.r_q32) =>
                    {
                        VcpCode::High
                    }
                    code => code,
                },
                // The lottery already encodes r, so LOW packets count in full.
                r: Some(u16::MAX),
            },
            Marking::Lottery(_) => Mark {
                code,
                r: Some(u16::MAX),
            },
        }
    }

    fn tells_r(&self) -> bool {
        self.params.marking == Marking::Carried
    }

    fn epsilon_ppm(&self) -> Option<u64> {
        Some(self.params.epsilon_ppm)
    }

    fn r_q32(&self) -> Option<u64> {
        Some(self.r_q32)
    }
}

// The mixing ratio r.

/// r = 1 in 2^-32.
pub(crate) const ONE_Q32: u64 = 1 << 32;

/// [VCP-ext eq. 11]: r in 2^-32, rounded down, for a load of `ppb`·10^-9 (rounded up by the
/// caller).
///
/// Per interval, the load should close the share k of the gap to its target ([VCP-ext eq. 10]),
/// while an interval multiplies it by 1 + ε·r: [VCP-ext eq. 9], with the ε of one interval for ε_s.
pub(crate) fn ratio_q32(params: &BiseParams, ppb: u64) -> u64 {
    let target = params.target_ppm.saturating_mul(1000);
    let gap = target.saturating_sub(ppb);
    if gap == 0 {
        return 0;
    }
    if ppb == 0 {
        return ONE_Q32;
    }
    let step = u128::from(params.k_ppm) * u128::from(gap);
    if params.x_ref_ppm >= 1_000_000 {
        let per_unit = u128::from(params.epsilon_ppm.max(1)) * u128::from(ppb);
        return saturate((step << 32) / per_unit).min(ONE_Q32);
    }
    shorter_reference(params, step, ppb)
}

/// The exact form for flows whose RTT is `x_ref` intervals: r = (g^x − 1) / ((1 + ε)^x − 1) with g
/// = 1 + k (ρ∞ − ρ) / ρ. `step` is k (ρ∞ − ρ) in 10^-15, and `ppb` is ρ in 10^-9.
fn shorter_reference(params: &BiseParams, step: u128, ppb: u64) -> u64 {
    let unit = u128::from(PPM) * u128::from(ppb);
    if step * u128::from(PPM) >= unit * u128::from(params.epsilon_ppm) {
        return ONE_Q32;
    }
    let scaled = |ln: u128| expm1(ln * u128::from(params.x_ref_ppm) / u128::from(PPM));
    let (wanted, most) = (
        scaled(ln1p(step, unit)),
        scaled(ln_gain(params.epsilon_ppm).into()),
    );
    saturate((wanted << 32) / most.max(1)).min(ONE_Q32)
}

/// r for a measured load; 0 at and above the ceiling.
pub(crate) fn ratio_at(params: &BiseParams, load: &Load) -> u64 {
    if load.reaches(params.ceiling_ppm, 1_000_000) || load.reaches(1, 1) {
        0
    } else {
        ratio_q32(params, load.ppb_ceil())
    }
}

// Chooses which packets stay LOW when r is encoded by lottery.

/// 2^32 / φ, the step whose multiples are spread most evenly.
const GOLDEN_STEP: u32 = 0x9E37_79B9;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lottery {
    draw: Draw,
    /// The current point for Weyl, or the carried error for diffusion. Not used for random draws.
    point: u32,
    random: u64,
}

impl Lottery {
    /// Creates a lottery; `seed` makes the draws of routers in series independent.
    pub(crate) const fn new(draw: Draw, seed: u64) -> Self {
        let mixed = scramble(seed);
        Self {
            draw,
            point: match draw {
                Draw::Weyl => (mixed >> 32) as u32,
                Draw::Diffusion | Draw::Random => 0,
            },
            random: mixed,
        }
    }

    #[cfg(test)]
    pub(crate) const fn weyl_from(point: u32) -> Self {
        Self {
            draw: Draw::Weyl,
            point,
            random: 0,
        }
    }

    /// [VCP-ext eq. 7]: returns true for a share `r_q32` of the calls.
    pub(crate) const fn take(&mut self, r_q32: u64) -> bool {
        match self.draw {
            Draw::Weyl => {
                self.point = self.point.wrapping_add(GOLDEN_STEP);
                (self.point as u64) < r_q32
            }
            Draw::Diffusion => {
                let sum = self.point as u64 + r_q32;
                self.point = sum as u32;
                sum >> 32 != 0
            }
            Draw::Random => {
                // SplitMix64, which needs only an addition and a scramble, and accepts any seed.
                self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                scramble(self.random) >> 32 < r_q32
            }
        }
    }
}
