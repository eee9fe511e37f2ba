//! Loss rules: what a lost packet says on a path whose routers announce congestion by other means.

use core::fmt;

/// What is known about the path when packets are declared lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossView {
    /// A router said OVER within the last round trip plus measuring interval.
    pub recent_over: bool,
    /// A substantial share of packets came back without any router's mark.
    pub unmarked: bool,
    /// Packets queue on their way for more than a quarter of the least RTT.
    pub delayed: bool,
    /// Share of packets lost over the last four round trips, in 10^-6.
    pub loss_ppm: u64,
    /// The same before them.
    pub loss_before_ppm: u64,
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
}

/// Every loss is congestion, as in TCP (VCP itself).
#[derive(Clone, Copy, Debug, Default)]
pub struct Halving;

impl LossRule for Halving {
    fn judge(&self, _view: &LossView) -> Verdict {
        Verdict::Congestion
    }
}
