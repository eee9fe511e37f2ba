//! WLTE, the Wireless Loss Tolerant Extension of VCP (VCP extensions paper, section IV-B): where
//! routers announce congestion, a loss they did not announce is corruption, and the window stays.
//!
//! A loss rule. The paper trusts that every hop is a VCP router. Outside of [`pure`](Wlte::pure)
//! the sender does not: it asks whether a hop that writes nothing is overloaded
//! (`crate::bottleneck`), and CUBIC rules while that is so.

#[cfg(test)]
mod tests;

use crate::law::{LossRule, LossView, Verdict};

/// WLTE's loss rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wlte {
    /// No loss is ever congestion (the paper).
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
