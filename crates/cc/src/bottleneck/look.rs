//! What the path shows while CUBIC controls the window for an unannounced hop, and what follows.

use crate::base::{Duration, Instant};

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
    /// How often CUBIC has ruled before.
    pub(super) relapses: u32,
}
