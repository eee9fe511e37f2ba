//! Loss rules: the meaning of a lost packet on a path whose routers announce congestion by other
//! means.

use core::fmt;

/// What is known about the path when packets are declared lost while routers rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossView {
    /// A substantial share of packets came back without any router's mark.
    pub unmarked: bool,
}

/// What is to be done about a loss besides retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A queue overflowed: cut, once per round trip.
    Congestion,
    /// The link corrupted it: leave the window alone.
    Corruption,
}

/// A loss rule.
pub trait LossRule: Clone + Send + fmt::Debug {
    /// Judges a loss.
    fn judge(&self, view: &LossView) -> Verdict;

    /// Losses may show a bottleneck that no router announces, and hand the window to CUBIC. False:
    /// routers are trusted to announce all.
    fn doubts(&self) -> bool {
        true
    }
}

/// Every loss is congestion, as in TCP (VCP itself).
#[derive(Clone, Copy, Debug, Default)]
pub struct Halving;

impl LossRule for Halving {
    fn judge(&self, _view: &LossView) -> Verdict {
        Verdict::Congestion
    }
}
