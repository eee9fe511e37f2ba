//! BISE as a link rule.

use super::lottery::Lottery;
use super::params::{BiseParams, Draw, Marking};
use super::ratio::{ONE_Q32, ratio_at};
use crate::signals::{VcpCarried, VcpCode};
use crate::vcp::load::Load;
use crate::vcp::rule::{LinkRule, Mark};

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

    #[inline]
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
