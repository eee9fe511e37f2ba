//! The sum of requests, so that feedback above it is rejected.
//!
//! Each sent packet keeps the sum of all requests so far. An acknowledgement then gives the sum of
//! the requests that it covers; positive feedback beyond that is not from a router, since each
//! router only lowers a request.

/// Requests, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Of all packets sent, modulo 2^64. Those of the packets in flight add up to less than half of
    /// that.
    sent: u64,
    /// Of all packets up to the largest acknowledged one.
    acked: u64,
    /// What may still be granted: by the newest acknowledgement, and by the one before it, whose
    /// feedback may come late.
    open: u64,
    before: u64,
}

/// No difference is larger, so that a wrapped one does not count as a large request.
const HALF: u64 = 1 << 63;

impl Asked {
    /// A header requests `delta`.
    #[inline]
    pub(crate) const fn on_sent(&mut self, delta: i64) {
        if delta > 0 {
            self.sent = self.sent.wrapping_add(delta.unsigned_abs());
        }
    }

    /// What to keep with the packet.
    #[inline]
    pub(crate) const fn state(&self) -> u64 {
        self.sent
    }

    /// An acknowledgement came whose largest packet kept `state`.
    #[inline]
    pub(crate) const fn on_ack(&mut self, state: u64) {
        let news = state.wrapping_sub(self.acked);
        if news < HALF {
            self.before = self.open;
            self.open = news;
            self.acked = state;
        }
    }

    /// The part of `delta` that was requested.
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
