//! Persistent congestion (RFC 9002 §7.6): no packet arrived for longer than three probe
//! timeouts.

use crate::{Duration, Instant};

/// RFC 9002 §7.6.1: kPersistentCongestionThreshold.
pub(super) const THRESHOLD: u32 = 3;

/// A run of losses without an acknowledged packet in between.
///
/// Losses are reported in ascending order, so the send time of the first packet represents the
/// run. A run can extend over several ACK frames within one packet number space.
#[derive(Debug, Default)]
pub(super) struct Run {
    since: Option<Instant>,
}

impl Run {
    /// Records that a packet between losses was acknowledged.
    pub(super) const fn interrupt(&mut self) {
        self.since = None;
    }

    /// Records the loss of the ack-eliciting packet sent at `sent_at`. Returns true if the run
    /// now spans more than `duration`. Packets sent before the first RTT sample are ignored,
    /// because their timeouts were guesses.
    pub(super) fn on_lost(
        &mut self,
        sent_at: Instant,
        first_sample_at: Option<Instant>,
        duration: Duration,
    ) -> bool {
        if first_sample_at.is_none_or(|first| sent_at < first) {
            return false;
        }
        let since = *self.since.get_or_insert(sent_at);
        let established = sent_at - since > duration;
        if established {
            self.since = Some(sent_at);
        }
        established
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9002 §7.6.3: three probe timeouts of one second, losses from t = 1 to
    /// t = 8.
    #[test]
    fn example_of_the_rfc() {
        let three = Duration::from_secs(3);
        let at = |s: u64| Instant::from_millis(s * 1000);
        let mut run = Run::default();
        let found = [1, 2, 8].map(|t| run.on_lost(at(t), Some(at(0)), three));
        assert_eq!(found, [false, false, true]);
        run.interrupt();
        assert!(!run.on_lost(at(20), Some(at(0)), three));
        assert!(!run.on_lost(at(23), Some(at(0)), three));
        assert!(run.on_lost(at(24), Some(at(0)), three));
        // Each established run begins the next one, and the time of the first sample counts.
        let mut run = Run::default();
        let found = [2, 5, 6, 7, 9, 10].map(|t| run.on_lost(at(t), Some(at(2)), three));
        assert_eq!(found, [false, false, true, false, false, true]);
        let mut unmeasured = Run::default();
        assert!(!unmeasured.on_lost(at(1), None, three));
        assert!(!unmeasured.on_lost(at(1), Some(at(2)), three));
        assert!(!unmeasured.on_lost(at(9), Some(at(2)), three));
    }
}
