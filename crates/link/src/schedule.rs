//! Changes of a link over time.

use pathmark_cc::{Duration, Instant, LinkAlgorithm};

use crate::impair::Loss;

/// A change; absent parts stay unchanged.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// New rate in bytes per second; 0 is an outage.
    pub rate: Option<u64>,
    /// New propagation delay.
    pub delay: Option<Duration>,
    /// New loss.
    pub loss: Option<Loss>,
    /// New control law, with the seed of its random numbers.
    pub controller: Option<(LinkAlgorithm, u64)>,
    /// The router stops, or runs again.
    pub restart: Option<Restart>,
}

/// Half of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The router stops: waiting packets and those that arrive are lost.
    Down,
    /// It runs again, from its initial state.
    Up,
}

/// Changes ordered by time.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Latest first, so that the next one is popped off the end.
    pending: Vec<(Instant, Change)>,
}

impl Schedule {
    /// Creates a schedule of changes at offsets from `start`, in any order.
    pub fn new(start: Instant, changes: impl IntoIterator<Item = (Duration, Change)>) -> Self {
        let mut pending: Vec<_> = changes
            .into_iter()
            .map(|(offset, change)| (start + offset, change))
            .collect();
        // Sorted stably, then reversed, so that of two changes at one time the later in the list
        // is applied last.
        pending.sort_by_key(|(at, _)| *at);
        pending.reverse();
        Self { pending }
    }

    /// The time of the next change.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.last().map(|(at, _)| *at)
    }

    /// Returns the next change due by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Change> {
        if self.deadline()? <= now {
            self.pending.pop().map(|(_, change)| change)
        } else {
            None
        }
    }
}
