//! WLTE, the Wireless Loss Tolerant Extension of VCP (VCP extensions paper, section IV-B): where routers announce
//! congestion, a loss they did not announce is corruption, and the window stays.
//!
//! A loss rule. The paper trusts that every hop is a VCP router; the *belt* does not, and takes a loss as congestion when
//! other signs agree with it.

#[cfg(test)]
mod tests;

use crate::{LossRule, LossView, Verdict};

/// With an OVER and a longer queue, losses are congestion from this multiple of their usual share.
const SURGE: u64 = 3;
/// … and not below this share: the first loss of all is no surge.
const SURGE_LEAST_PPM: u64 = 20_000;
/// With a longer queue alone, from this share.
const HEAVY_PPM: u64 = 100_000;

/// WLTE's loss rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wlte {
    /// Without the belt: no loss is congestion (the paper).
    pub pure: bool,
}

impl LossRule for Wlte {
    fn judge(&self, view: &LossView) -> Verdict {
        if self.pure {
            return Verdict::Corruption;
        }
        // An OVER alone comes with every cut that VCP makes by itself, so it takes more losses than usual and a queue, too.
        let surge = view.recent_over
            && view.delayed
            && view.loss_ppm > SURGE_LEAST_PPM.max(SURGE.saturating_mul(view.loss_before_ppm));
        let heavy = view.delayed && view.loss_ppm > HEAVY_PPM;
        if surge || heavy || view.unmarked {
            Verdict::Congestion
        } else {
            Verdict::Corruption
        }
    }
}
