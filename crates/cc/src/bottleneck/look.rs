//! What the path shows while CUBIC controls the window for an unannounced hop, and what follows.

use crate::base::{Duration, Instant};

/// The current state of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is still there.
    Stays,
    /// It is gone, or no longer the narrow one.
    Gone,
    /// It was none: this much is lost at any rate, in 10^-6.
    Random(u64),
}

/// What the path shows at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) now: Instant,
    pub(super) srtt: Duration,
    /// CUBIC's window in bytes.
    pub(super) window: u64,
    /// The last time that a router reported that its own hop is full.
    pub(super) over: Option<Instant>,
    /// No queue stands.
    pub(super) calm: bool,
    /// Losses are correlated with long delays: they are not random.
    pub(super) leans: bool,
    /// How often CUBIC has ruled before.
    pub(super) relapses: u32,
}

#[cfg(test)]
impl Look {
    /// Nothing is full and nothing happened before; no queue stands if `calm`.
    pub(super) const fn quiet(now: Instant, srtt: Duration, window: u64, calm: bool) -> Self {
        Self {
            now,
            srtt,
            window,
            over: None,
            calm,
            leans: false,
            relapses: 0,
        }
    }
}
