//! The anti-amplification limit (RFC 9000 §8.1, §8.2).

/// An address that isn't validated yet gets at most this many times the bytes received from it.
const FACTOR: u64 = 3;

/// Bytes of UDP payload that may be sent to one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmplificationLimit {
    validated: bool,
    /// Whether the limit is lifted, because the peer receives the packets sent to the address.
    lifted: bool,
    /// Bytes that may be sent in addition to three times those received.
    lent: u64,
    received: u64,
    sent: u64,
}

impl AmplificationLimit {
    /// Creates the limit for an address that someone else may have forged.
    pub const fn new() -> Self {
        Self::lending(0)
    }

    /// Creates the limit for another port of a host known to be the peer's. Up to `bytes` may be
    /// sent there in addition to three times those received.
    pub const fn lending(bytes: u64) -> Self {
        Self {
            validated: false,
            lifted: false,
            lent: bytes,
            received: 0,
            sent: 0,
        }
    }

    /// Creates an unlimited state, for an address known to be the peer's.
    pub const fn validated() -> Self {
        Self {
            validated: true,
            lifted: true,
            lent: 0,
            received: 0,
            sent: 0,
        }
    }

    /// Limits the sender again after a packet from the validated address that the peer had left,
    /// because someone else may have forged this packet (RFC 9000 §9.3). Until the peer proves that
    /// it is back, up to `bytes` may be sent in addition to three times those received from now on.
    /// Further returns without proof don't add anything. Returns true if there was no limit before.
    pub const fn lend(&mut self, bytes: u64) -> bool {
        let was_lifted = self.lifted;
        if was_lifted {
            *self = Self::lending(bytes);
            self.validated = true;
        }
        was_lifted
    }

    /// Counts a datagram received from the address.
    #[inline]
    pub const fn on_received(&mut self, bytes: u64) {
        self.received = self.received.saturating_add(bytes);
    }

    /// Counts a datagram sent to the address.
    #[inline]
    pub const fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Lifts the limit, because the address is proven to be the peer's. The proof is a token, a
    /// Handshake packet, a PATH_RESPONSE or, if the address was validated before, an
    /// acknowledgement.
    pub const fn validate(&mut self) {
        self.validated = true;
        self.lifted = true;
    }

    /// Returns true if there's no limit.
    #[inline]
    pub const fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// Returns true if the address was validated.
    pub const fn is_validated(&self) -> bool {
        self.validated
    }

    /// Returns the number of bytes that may still be sent.
    #[inline]
    pub const fn available(&self) -> u64 {
        if self.lifted {
            u64::MAX
        } else {
            self.received
                // [9000 8 amplification]
                .saturating_mul(FACTOR)
                .saturating_add(self.lent)
                .saturating_sub(self.sent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_what_came() {
        // [9000 8 amplification]
        let mut limit = AmplificationLimit::new();
        assert_eq!(limit.available(), 0);
        limit.on_received(1200);
        limit.on_sent(3000);
        assert_eq!(limit.available(), 600);
        limit.on_sent(1200);
        assert_eq!(limit.available(), 0);
        limit.on_received(u64::MAX);
        assert_eq!(limit.available(), u64::MAX - 4200);
        assert!(!limit.is_validated());
        limit.validate();
        assert_eq!(limit.available(), u64::MAX);
        assert!(limit.is_validated() && AmplificationLimit::validated().is_validated());
    }

    #[test]
    fn returns_without_proof_add_nothing() {
        let mut limit = AmplificationLimit::validated();
        limit.on_sent(1_000_000);
        assert!(limit.lend(12_000));
        limit.on_received(31);
        limit.on_sent(5_000);
        assert!(!limit.lend(12_000) && limit.is_validated() && !limit.is_lifted());
        assert_eq!(limit.available(), 7_000 + 93);
        limit.validate();
        assert_eq!(limit.available(), u64::MAX);
        let mut port = AmplificationLimit::lending(30_000);
        assert_eq!(port.available(), 30_000);
        assert!(!port.is_validated() && !port.lend(12_000));
        assert_eq!(port.available(), 30_000);
    }
}
