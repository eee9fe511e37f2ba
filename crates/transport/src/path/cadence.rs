//! How often packets carry the signal.
//!
//! A shim takes bytes from every packet that carries it. If the controller needs fewer shims,
//! because no router answers or one answer per round trip is enough, most packets are sent without
//! a shim, and their data fills the space. Datagrams have the same size either way, so a batch can
//! mix them.

use crate::{Duration, Instant};

/// Counts the packets sent without the signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cadence {
    /// Ack-eliciting packets since the last with the signal.
    without: u32,
    /// When the last packet with the signal was sent.
    last: Option<Instant>,
}

impl Cadence {
    /// Creates the state of a path that hasn't carried anything yet.
    pub const fn new() -> Self {
        Self {
            without: 0,
            last: None,
        }
    }

    /// Returns true if the next ack-eliciting packet is the `every`-th, or if no packet carried the
    /// signal for a round trip.
    #[inline]
    pub fn due(&self, now: Instant, every: u32, srtt: Duration) -> bool {
        self.without.saturating_add(1) >= every
            || self
                .last
                .is_none_or(|last| now.saturating_since(last) >= srtt)
    }

    /// Records that an ack-eliciting packet was sent, with or without the signal.
    #[inline]
    pub const fn on_sent(&mut self, now: Instant, signal: bool) {
        if signal {
            self.without = 0;
            self.last = Some(now);
        } else {
            self.without = self.without.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of `count` packets, one per millisecond, carry the signal.
    fn sent(every: u32, srtt: u64, count: u64) -> Vec<u64> {
        let mut cadence = Cadence::new();
        (0..count)
            .filter(|&n| {
                let now = Instant::from_millis(n);
                let due = cadence.due(now, every, Duration::from_millis(srtt));
                cadence.on_sent(now, due);
                due
            })
            .collect()
    }

    #[test]
    fn each_nth_packet_bears_it() {
        assert_eq!(sent(1, 1000, 4), [0, 1, 2, 3]);
        assert_eq!(sent(0, 1000, 3), [0, 1, 2]);
        assert_eq!(sent(4, 1000, 12), [0, 4, 8]);
    }

    #[test]
    fn no_round_trip_goes_by_without_it() {
        assert_eq!(sent(u32::MAX, 5, 14), [0, 5, 10]);
        assert_eq!(sent(4, 3, 8), [0, 3, 6]);
    }
}
