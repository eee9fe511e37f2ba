//! When clients must prove their address before a server keeps anything about them (RFC 9000
//! §8.1.2).

use crate::{Duration, Instant};

/// When a server answers a client's first packet with a Retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// To every client without a token.
    Always,
    /// Never. Clients are still held to the anti-amplification limit.
    Never,
    /// While handshakes pile up: from this many half-open ones on, until there have been fewer than
    /// half as many for 10 seconds. Costs clients nothing in quiet times and the server nothing
    /// under a flood of made-up addresses.
    Automatic {
        /// Half-open handshakes at which Retry begins.
        half_open: usize,
    },
}

/// Handshakes must have been few for this time before the server trusts addresses again: about how
/// long a flood's last handshakes and their retransmissions linger.
const CALM: Duration = Duration::from_secs(10);

/// Decides whether Retry is on.
#[derive(Debug)]
pub(super) struct RetrySwitch {
    policy: RetryPolicy,
    /// Automatic: on until then, and longer if handshakes pile up again.
    on_until: Option<Instant>,
}

impl RetrySwitch {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            on_until: None,
        }
    }

    /// True if a client without a token is to be sent a Retry, with this many half-open handshakes.
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

    /// Where one handshake is many, none is few.
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
