//! How much reordering loss detection tolerates, learned from spurious losses.
//!
//! The thresholds start at those of RFC 9002 §6.1 (3 packets, 9/8 RTT) and widen as in RFC 8985
//! §6.2: the packet threshold to the observed extent, and the time threshold by one eighth of
//! an RTT per round trip with a spurious loss, up to 2 RTT. Sixteen consecutive loss events
//! without a spurious loss narrow both again.

use crate::{Duration, recovery::GRANULARITY, recovery::RttEstimator};

/// RFC 9002 §6.1.1: kPacketThreshold.
const INITIAL_PACKETS: u64 = 3;
/// Beyond this limit, only time decides. It bounds the packets that a sender must track below
/// the largest acknowledged one.
const MAX_PACKETS: u64 = 1 << 15;
/// RFC 9002 §6.1.2: kTimeThreshold is 9/8, that is, one eighth more than the RTT.
const INITIAL_EIGHTHS: u32 = 1;
/// Minimum of the time threshold of a question for a starting rate, well within the two round
/// trips for which its sender waits for the answer.
const QUESTION_EIGHTHS: u32 = 4;
/// RFC 8985 §6.2 limits the reordering window to one smoothed RTT.
const MAX_EIGHTHS: u32 = 8;
/// Loss events without a spurious loss before the thresholds narrow (RFC 8985 §6.2: 16
/// recoveries).
const CALM: u8 = 16;

/// Why a packet was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Enough later packets were acknowledged.
    Packets,
    /// It was outstanding for too long after a later one was acknowledged.
    Time,
}

/// Loss detection thresholds of one path.
#[derive(Clone, Debug)]
pub struct Reordering {
    packets: u64,
    eighths: u32,
    /// Largest packet number that was sent before the time threshold last grew.
    widened_at: Option<u64>,
    calm: u8,
}

impl Default for Reordering {
    fn default() -> Self {
        Self::new()
    }
}

impl Reordering {
    /// Creates the thresholds of RFC 9002.
    pub const fn new() -> Self {
        Self {
            packets: INITIAL_PACKETS,
            eighths: INITIAL_EIGHTHS,
            widened_at: None,
            calm: 0,
        }
    }

    /// Returns the packet threshold: a packet is lost once one this much later is acknowledged.
    #[inline]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the time threshold: a packet is lost this long after it was sent if a later one
    /// is acknowledged.
    pub fn time(&self, rtt: &RttEstimator) -> Duration {
        Self::eighths_over(rtt, self.eighths)
    }

    /// Returns the time threshold of a question for a starting rate. It may wait in a separate
    /// queue, so later packets are not evidence of its loss.
    pub(super) fn question_time(&self, rtt: &RttEstimator) -> Duration {
        Self::eighths_over(rtt, self.eighths.max(QUESTION_EIGHTHS))
    }

    fn eighths_over(rtt: &RttEstimator, eighths: u32) -> Duration {
        // [9002 6.1.2 granularity]
        (rtt.longest() * (8 + eighths) / 8).max(GRANULARITY)
    }

    /// Records that packet `number`, which was declared lost for `cause`, was acknowledged when
    /// `largest` was the largest acknowledged one. `last_sent` is the newest packet number.
    pub(super) fn on_spurious(&mut self, cause: Cause, number: u64, largest: u64, last_sent: u64) {
        self.calm = 0;
        match cause {
            Cause::Packets => {
                let extent = largest.saturating_sub(number).saturating_add(1);
                self.packets = self.packets.max(extent.min(MAX_PACKETS));
            }
            Cause::Time if self.widened_at.is_none_or(|at| number > at) => {
                self.widened_at = Some(last_sent);
                self.eighths = (self.eighths + 1).min(MAX_EIGHTHS);
            }
            Cause::Time => {}
        }
    }

    pub(super) fn on_loss_event(&mut self) {
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.packets = (self.packets / 2).max(INITIAL_PACKETS);
            self.eighths = INITIAL_EIGHTHS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;

    #[test]
    fn no_threshold_is_below_the_granularity_of_timers() {
        // [9002 6.1.2 granularity]
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::ZERO, Duration::from_micros(80), Duration::ZERO);
        assert_eq!(Reordering::new().time(&rtt), GRANULARITY);
    }

    #[test]
    fn widens_with_what_was_seen_and_narrows_after_calm() {
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::ZERO, Duration::from_millis(80), Duration::ZERO);
        let mut r = Reordering::new();
        assert_eq!((r.packets(), r.time(&rtt)), (3, Duration::from_millis(90)));
        r.on_spurious(Cause::Packets, 10, 29, 100);
        assert_eq!((r.packets(), r.time(&rtt)), (20, Duration::from_millis(90)));
        // Twice in a round trip counts only once.
        r.on_spurious(Cause::Time, 10, 29, 100);
        r.on_spurious(Cause::Time, 11, 29, 100);
        assert_eq!(r.time(&rtt), Duration::from_millis(100));
        for n in 2..20 {
            r.on_spurious(Cause::Time, 101 * n, u64::MAX, 101 * n + 1);
        }
        assert_eq!(r.time(&rtt), Duration::from_millis(160));
        r.on_spurious(Cause::Packets, 0, u64::MAX, u64::MAX);
        assert_eq!(r.packets(), MAX_PACKETS);
        for _ in 0..CALM {
            r.on_loss_event();
        }
        assert_eq!(r.packets(), MAX_PACKETS / 2);
        assert_eq!(r.time(&rtt), Duration::from_millis(90));
    }
}
