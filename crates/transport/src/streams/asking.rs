//! When to ask the peer to send refused data again.
//!
//! A packet with refused data is not acknowledged. Its sender declares it lost once a later packet
//! is acknowledged (RFC 9002 §6.1). While each packet is refused there is no such packet, and the
//! sender's probe timeout backs off. So this side asks for a packet and acknowledges it, as soon as
//! the data has a place: memory is not short any more, or the application waits.

use crate::{Duration, Instant};

/// The least time between two requests while the application makes no progress.
const LEAST: Duration = Duration::from_millis(10);
/// The same in round trips. Each further request doubles it.
const ROUNDS: u32 = 2;
/// The longest time between two requests.
const LONGEST: Duration = Duration::from_secs(1);

/// Refused data of a connection, and requests for it.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Data was refused since the last request.
    refused: bool,
    /// The application read something since then, or began to wait for a stream.
    progress: bool,
    /// Requests in a row without that.
    vain: u8,
    /// Streams that the application tried to read in vain.
    pub(super) readers: u32,
    /// When the next request without progress may be made.
    next_at: Instant,
}

impl Asking {
    /// Data was refused.
    pub(super) const fn on_refused(&mut self) {
        self.refused = true;
    }

    /// The application read something, or began to wait for a stream.
    pub(super) const fn on_progress(&mut self) {
        self.progress = true;
    }

    /// True if a request is to be made whatever the time.
    pub(super) const fn is_wanted(&self) -> bool {
        self.refused && self.progress
    }

    /// True if a request is to be made now; it counts as made then.
    pub(super) fn take(&mut self, now: Instant, rtt: Option<Duration>) -> bool {
        if !self.refused || (!self.progress && now < self.next_at) {
            return false;
        }
        self.vain = if self.progress {
            0
        } else {
            self.vain.saturating_add(1)
        };
        let first = rtt.map_or(LEAST, |rtt| rtt.saturating_mul(ROUNDS).max(LEAST));
        let interval = first.saturating_mul(1 << self.vain.min(16)).min(LONGEST);
        self.next_at = now + interval.max(first);
        self.refused = false;
        self.progress = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(20));

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    #[test]
    fn each_progress_is_worth_one_request() {
        let mut asking = Asking::default();
        asking.on_progress();
        assert!(!asking.take(at(0), RTT), "nothing was refused");
        for ms in 0..5 {
            asking.on_refused();
            assert!(asking.is_wanted() && asking.take(at(ms), RTT));
            asking.on_progress();
            assert!(!asking.is_wanted() && !asking.take(at(ms), RTT));
        }
    }

    #[test]
    fn requests_without_progress_back_off() {
        let mut asking = Asking::default();
        let mut requests: Vec<u64> = Vec::new();
        for ms in 0..4000 {
            asking.on_refused();
            if asking.take(at(ms), RTT) {
                requests.push(ms);
            }
        }
        assert_eq!(requests, [0, 80, 240, 560, 1200, 2200, 3200]);
        asking.on_progress();
        assert!(asking.take(at(4000), RTT));
        asking.on_refused();
        assert!(!asking.take(at(4039), None) && asking.take(at(4040), None));
    }
}
