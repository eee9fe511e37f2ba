//! Tracks the sum of requests, so that feedback above this sum is rejected.
//!
//! Each sent packet stores the sum of all requests so far, so that an acknowledgement gives the sum
//! of the requests that it covers. Positive feedback beyond this sum cannot be from a router,
//! because routers only lower requests.

/// Sums of requests, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Requests of all packets sent, modulo 2^64. The requests in flight add up to less than half
    /// of the modulus.
    sent: u64,
    /// Requests of all packets up to the largest acknowledged packet.
    acked: u64,
    /// Requests that can still be granted: of the newest acknowledgement (`open`), and of the
    /// previous acknowledgement (`before`), because feedback can arrive late.
    open: u64,
    before: u64,
}

/// Upper bound of valid differences, so that a wrapped difference does not count as a large
/// request.
const HALF: u64 = 1 << 63;

impl Asked {
    #[inline]
    pub(crate) const fn on_sent(&mut self, delta: i64) {
        if delta > 0 {
            self.sent = self.sent.wrapping_add(delta.unsigned_abs());
        }
    }

    /// The state to store with the packet.
    #[inline]
    pub(crate) const fn state(&self) -> u64 {
        self.sent
    }

    /// Records an acknowledgement whose largest packet stored `state`.
    #[inline]
    pub(crate) const fn on_ack(&mut self, state: u64) {
        let news = state.wrapping_sub(self.acked);
        if news < HALF {
            self.before = self.open;
            self.open = news;
            self.acked = state;
        }
    }

    /// The part of `delta` that was requested. Negative feedback is returned unchanged.
    #[inline]
    pub(crate) fn grant(&mut self, delta: i64) -> i64 {
        let Ok(positive) = u64::try_from(delta) else {
            return delta;
        };
        let from_before = positive.min(self.before);
        let from_open = (positive - from_before).min(self.open);
        self.before -= from_before;
        self.open -= from_open;
        i64::try_from(from_before + from_open).unwrap_or(i64::MAX)
    }
}
