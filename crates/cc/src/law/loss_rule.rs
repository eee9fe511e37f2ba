//! Loss rules, which interpret lost packets on a path whose routers announce congestion by other
//! means.

use core::fmt;

/// Knowledge about the path when packets are declared lost while routers control the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossView {
    /// True if a substantial share of packets returned without any router's mark.
    pub unmarked: bool,
}

/// Reaction to a loss besides retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A queue overflowed. The window must be cut, once per round trip.
    Congestion,
    /// The link corrupted the packet. The window must not change.
    Corruption,
}

/// Decides how a law reacts to losses.
pub trait LossRule: Clone + Send + fmt::Debug {
    /// Judges a loss.
    fn judge(&self, view: &LossView) -> Verdict;

    /// Returns true if losses may indicate a bottleneck that no router announces, and should then
    /// hand the window to CUBIC. With false, routers are trusted to announce every bottleneck.
    fn doubts(&self) -> bool {
        true
    }
}

/// Treats every loss as congestion, as in TCP (VCP itself).
#[derive(Clone, Copy, Debug, Default)]
pub struct Halving;

impl LossRule for Halving {
    fn judge(&self, _view: &LossView) -> Verdict {
        Verdict::Congestion
    }
}
