//! Changes of a link over time.

use pathmark_cc::{Duration, Instant, LinkAlgorithm};

use crate::impair::Loss;

/// What changes; absent parts stay as they are.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// New rate in bytes per second; 0 is an outage.
    pub rate: Option<u64>,
    /// New propagation delay.
    pub delay: Option<Duration>,
    /// New loss.
    pub loss: Option<Loss>,
    /// New control law, and the seed of what it draws.
    pub controller: Option<(LinkAlgorithm, u64)>,
    /// The router stops, or runs again.
    pub restart: Option<Restart>,
}

/// Half of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The router stops: what waits is lost, and what arrives too.
    Down,
    /// It runs again and knows nothing of before.
    Up,
}

/// Changes in order of their times.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Latest first, so that the next one is popped off the end.
    pending: Vec<(Instant, Change)>,
}

impl Schedule {
    /// Changes at offsets from `start`, in any order.
    #[must_use]
    pub fn new(start: Instant, changes: impl IntoIterator<Item = (Duration, Change)>) -> Self {
        let mut pending: Vec<_> = changes
            .into_iter()
            .map(|(offset, change)| (start + offset, change))
            .collect();
        // Stable, then reversed: of two changes at one time the later-named one has the last word.
        pending.sort_by_key(|(at, _)| *at);
        pending.reverse();
        Self { pending }
    }

    /// When the next change is due.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.last().map(|(at, _)| *at)
    }

    /// The next change due by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Change> {
        if self.deadline()? <= now {
            self.pending.pop().map(|(_, change)| change)
        } else {
            None
        }
    }
}
