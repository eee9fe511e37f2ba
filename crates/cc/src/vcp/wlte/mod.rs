//! WLTE, the Wireless Loss Tolerant Extension of VCP (VCP extensions paper, section IV-B): if
//! routers announce congestion, a loss that they did not announce is corruption and leaves the
//! window unchanged.
//!
//! WLTE is a loss rule. The paper assumes that every hop is a VCP router. Unless
//! [`pure`](Wlte::pure) is set, the sender does not: it tests whether a hop without feedback is
//! overloaded (`crate::bottleneck`), and CUBIC controls the window in this case.

#[cfg(test)]
mod tests;

use crate::law::{LossRule, LossView, Verdict};

/// WLTE's loss rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wlte {
    /// Never treats a loss as congestion (the paper).
    pub pure: bool,
}

impl LossRule for Wlte {
    fn judge(&self, view: &LossView) -> Verdict {
        if view.unmarked && !self.pure {
            Verdict::Congestion
        } else {
            Verdict::Corruption
        }
    }

    fn doubts(&self) -> bool {
        !self.pure
    }
}
