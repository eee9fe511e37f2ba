//! Chooses which packets stay LOW when r is encoded by lottery.

use super::params::Draw;
use crate::base::arith::scramble;

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
    #[inline]
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
