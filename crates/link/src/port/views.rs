//! Accessors for the state of a port.

use pathmark_cc::{Instant, LinkController, LinkMetrics};

use super::{Port, Queues};
use crate::queue::Depth;
use crate::stats::LinkStats;

impl<P> Port<P> {
    /// When the transmitter is or was ready for the next packet.
    pub fn ready_at(&self) -> Instant {
        self.shaper.ready_at()
    }

    /// Depth of the queues.
    pub fn depth(&self) -> Depth {
        self.queues.depth()
    }

    /// The rate in bytes per second.
    pub fn rate(&self) -> Option<u64> {
        self.shaper.rate()
    }

    /// Counters.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Returns true if a control law is installed.
    #[inline]
    pub fn has_controller(&self) -> bool {
        self.law.controller().is_some()
    }

    /// Returns true if the port looks at the contents of packets, either for a control law or to
    /// separate them.
    #[inline]
    pub fn reads_packets(&self) -> bool {
        self.has_controller() || matches!(self.queues, Queues::Two(_))
    }

    /// Number of times that flows were set aside because they continued to exceed their fair
    /// share while the queue of feedback overflowed; newcomers that are set aside together count
    /// once.
    pub fn times_set_aside(&self) -> u64 {
        match &self.queues {
            Queues::One(..) => 0,
            Queues::Two(separation) => separation.watch().times(),
        }
    }

    /// The control law's state; `None` without one.
    pub fn metrics(&self) -> Option<LinkMetrics> {
        self.law.controller().map(LinkController::metrics)
    }
}
