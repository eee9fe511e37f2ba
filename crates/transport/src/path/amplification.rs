//! The anti-amplification limit (RFC 9000 §8.1, §8.2).

/// An address not validated yet gets at most this many times what came from it.
const FACTOR: u64 = 3;

/// Bytes (UDP payload) that may go to one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmplificationLimit {
    validated: bool,
    received: u64,
    sent: u64,
}

impl AmplificationLimit {
    /// Of an address that a stranger may have forged.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            validated: false,
            received: 0,
            sent: 0,
        }
    }

    /// Of an address that is known to be the peer's: no limit.
    #[must_use]
    pub const fn validated() -> Self {
        Self {
            validated: true,
            received: 0,
            sent: 0,
        }
    }

    /// A datagram came from the address.
    #[inline]
    pub const fn on_received(&mut self, bytes: u64) {
        self.received = self.received.saturating_add(bytes);
    }

    /// A datagram went to the address.
    #[inline]
    pub const fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// The address is the peer's: a token, a Handshake packet or a PATH_RESPONSE proved it.
    pub const fn validate(&mut self) {
        self.validated = true;
    }

    /// True if the address was validated.
    #[must_use]
    pub const fn is_validated(&self) -> bool {
        self.validated
    }

    /// Bytes that may still be sent.
    #[must_use]
    #[inline]
    pub const fn available(&self) -> u64 {
        if self.validated {
            u64::MAX
        } else {
            self.received
                .saturating_mul(FACTOR)
                .saturating_sub(self.sent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_what_came() {
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
}
