//! The two exchangeable halves of a loss-based controller.

use core::fmt;

use crate::base::Instant;
use crate::law::Acked;

/// Why the window is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets were lost.
    Loss,
    /// Packets came back with CE in the IP ECN field.
    Marked,
}

/// What an acknowledgement adds to the window during slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes to add.
    pub bytes: u64,
    /// True if slow start ends here, without a loss.
    pub leave: bool,
}

impl Growth {
    /// RFC 9002 §7.3.1: as much as was acknowledged.
    pub const fn plain(acked: u64) -> Self {
        Self {
            bytes: acked,
            leave: false,
        }
    }
}

/// A window rule: growth in congestion avoidance, depth of a cut.
pub trait Avoidance: Clone + Send + fmt::Debug {
    /// The law's name in reports.
    const NAME: &'static str;

    /// Bytes to add to `window`. Called only while the window limits the sender.
    fn on_ack(&mut self, now: Instant, acked: &Acked, window: u64, mtu: u64) -> u64;

    /// The window after a cut, before the floor is applied.
    fn on_congestion(&mut self, now: Instant, window: u64, mtu: u64, cause: Cause) -> u64;

    /// Persistent congestion, or a change of law: what was learned about the window no longer
    /// holds.
    fn on_collapse(&mut self) {}

    /// The sender does not use its window since `since`, or since the last acknowledgement if that
    /// is later.
    fn on_unused(&mut self, since: Instant) {
        let _ = since;
    }
}

/// A start rule: growth before anything was lost.
pub trait StartRule: Clone + Send + fmt::Debug {
    /// Growth for an acknowledgement; `last_sent` is the largest packet number sent so far.
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth;

    /// What slow start adds to a window of `window` bytes, of the `bytes` that it would. Of later
    /// slow starts too, which end at a threshold.
    fn limited(&mut self, bytes: u64, window: u64, mtu: u64) -> u64 {
        let _ = (window, mtu);
        bytes
    }
}
