//! The two exchangeable parts of a loss-based controller.

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

/// How an acknowledgement changes the window during slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes to add.
    pub bytes: u64,
    /// True if slow start ends now, without a loss.
    pub leave: bool,
}

impl Growth {
    /// RFC 9002 §7.3.1: grows by as much as was acknowledged.
    pub const fn plain(acked: u64) -> Self {
        Self {
            bytes: acked,
            leave: false,
        }
    }
}

/// A window rule: the growth in congestion avoidance, and the depth of a cut.
pub trait Avoidance: Clone + Send + fmt::Debug {
    /// The law's name in reports.
    const NAME: &'static str;

    /// Returns the bytes to add to `window`. Called only while the window limits the sender.
    fn on_ack(&mut self, now: Instant, acked: &Acked, window: u64, mtu: u64) -> u64;

    /// The window after a cut, before the lower limit is applied.
    fn on_congestion(&mut self, now: Instant, window: u64, mtu: u64, cause: Cause) -> u64;

    /// Forgets everything learned about the window, after persistent congestion or a change of law.
    fn on_collapse(&mut self) {}

    /// Records that the sender has not used its window since `since`, or since the last
    /// acknowledgement if that was later.
    fn on_unused(&mut self, since: Instant) {
        let _ = since;
    }
}

/// A start rule: the growth before the first loss.
pub trait StartRule: Clone + Send + fmt::Debug {
    /// Growth for an acknowledgement; `last_sent` is the largest packet number sent so far.
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth;

    /// Limits how much slow start adds to a window of `window` bytes, which would be `bytes`
    /// without a limit. Also applies to later slow starts, which end at a threshold.
    fn limited(&mut self, bytes: u64, window: u64, mtu: u64) -> u64 {
        let _ = (window, mtu);
        bytes
    }
}
