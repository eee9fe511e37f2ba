//! Address validation before a server keeps any state about a client (RFC 9000 §8.1.2).

use crate::{Duration, Instant};

/// Decides when a server answers a client's first packet with a Retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Always, if the client doesn't present a token.
    Always,
    /// Never. The anti-amplification limit still applies to clients.
    Never,
    /// Only while handshakes pile up: from this many half-open handshakes on, until there have been
    /// fewer than half as many for 10 seconds. In quiet times, clients don't pay for a further
    /// round trip; during a flood from spoofed addresses, the server doesn't keep any state.
    Automatic {
        /// Number of half-open handshakes at which sending Retry begins.
        half_open: usize,
    },
}

/// Time for which handshakes must have been few before the server trusts addresses again: about how
/// long a flood's last handshakes and their retransmissions linger.
const CALM: Duration = Duration::from_secs(10);

/// Decides whether Retry is currently on.
#[derive(Debug)]
pub(super) struct RetrySwitch {
    policy: RetryPolicy,
    /// For `Automatic`: on until then, and longer if handshakes pile up again.
    on_until: Option<Instant>,
}

impl RetrySwitch {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            on_until: None,
        }
    }

    /// Returns true if a client without a token must be sent a Retry, given the number of half-open
    /// handshakes.
    pub(super) fn is_on(&mut self, now: Instant, half_open: usize) -> bool {
        let threshold = match self.policy {
            RetryPolicy::Always => return true,
            RetryPolicy::Never => return false,
            RetryPolicy::Automatic { half_open } => half_open,
        };
        let is_on = self.on_until.is_some_and(|until| now < until);
        let many = if is_on {
            threshold.div_ceil(2)
        } else {
            threshold
        };
        if half_open >= many {
            self.on_until = Some(now + CALM);
            return true;
        }
        is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_switches_on_at_the_threshold_and_off_after_calm() {
        let mut switch = RetrySwitch::new(RetryPolicy::Automatic { half_open: 100 });
        let mut now = Instant::from_millis(1);
        assert!(!switch.is_on(now, 99));
        assert!(switch.is_on(now, 100));
        // Hysteresis: half as many keep it on.
        now += CALM - Duration::from_nanos(1);
        assert!(switch.is_on(now, 50));
        now += CALM - Duration::from_nanos(1);
        assert!(switch.is_on(now, 49));
        now += Duration::from_nanos(1);
        assert!(!switch.is_on(now, 99));
    }

    /// If one handshake counts as many, only none counts as few.
    #[test]
    fn a_threshold_of_one_goes_off_after_calm() {
        let mut switch = RetrySwitch::new(RetryPolicy::Automatic { half_open: 1 });
        let mut now = Instant::from_millis(1);
        assert!(!switch.is_on(now, 0));
        assert!(switch.is_on(now, 1));
        for _ in 0..20 {
            now += Duration::from_secs(1);
            switch.is_on(now, 0);
        }
        assert!(!switch.is_on(now, 0));
    }

    #[test]
    fn threshold_of_zero_is_always() {
        let mut switch = RetrySwitch::new(RetryPolicy::Automatic { half_open: 0 });
        assert!(switch.is_on(Instant::ZERO, 0));
        assert!(!RetrySwitch::new(RetryPolicy::Never).is_on(Instant::ZERO, 1000));
        assert!(RetrySwitch::new(RetryPolicy::Always).is_on(Instant::ZERO, 0));
    }
}
