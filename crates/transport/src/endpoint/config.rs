//! Configuration of endpoints, and when a server validates addresses before it keeps any state
//! about a client (RFC 9000 §8.1.2).

use core::fmt;
use std::sync::Arc;

use crate::crypto::{ServerCrypto, SharedEndpointKey};
use crate::{Duration, Instant, TransportConfig};

/// Configuration that a server needs for accepting connections.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Transport configuration of accepted connections.
    pub transport: Arc<TransportConfig>,
    /// Cryptographic configuration of accepted connections.
    pub crypto: Arc<dyn ServerCrypto>,
}

/// Configuration of an endpoint.
#[derive(Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Seals tokens and derives stateless reset tokens. Endpoints that share this key accept each
    /// other's.
    pub key: SharedEndpointKey,
    /// Wall time at [`Instant::ZERO`](crate::Instant::ZERO), as a duration since 1970-01-01 UTC.
    /// Tokens expire by wall time so that they survive a restart.
    pub epoch: Duration,
    /// Enables accepting connections. `None` restricts the endpoint to clients.
    pub server: Option<ServerConfig>,
    /// Maximum number of simultaneous connections, whichever side opened them.
    pub max_connections: usize,
    /// Maximum number of handshakes begun by clients and not yet complete, both accepted and
    /// waiting. When it is reached, a new client gets the place of the oldest handshake of the
    /// address or IPv6 prefix that holds the most, unless its own holds about as many. In that case
    /// its packets are dropped until one of those handshakes is 2 seconds old, so the client has to
    /// retry.
    pub max_half_open: usize,
    /// Decides when clients must first prove their address.
    pub retry: RetryPolicy,
    /// Time within which a client must return after a Retry.
    pub retry_token_lifetime: Duration,
    /// Lifetime of a token for a later connection (NEW_TOKEN). Zero disables sending such tokens.
    pub new_token_lifetime: Duration,
    /// Number of NEW_TOKEN tokens per lifetime whose use is remembered. Each takes 9 bytes, twice.
    pub remembered_tokens: usize,
    /// Memory for data that peers may send and that hasn't been read yet, over all connections, in
    /// bytes. Each connection may promise as much as its application reads within some round trips.
    /// Promises beyond that can use at most a quarter of this memory, plus 64 KiB for each
    /// connection. When it runs short, windows stop growing.
    pub receive_memory: u64,
    /// Number of peers to remember the path's rate for, by address (IPv6: its first 64 bits). A
    /// later connection asks routers for this rate before its handshake is complete, unless
    /// [`TransportConfig::known_rate`] is set, which takes precedence. 0 disables this.
    pub known_paths: usize,
    /// How long such a rate is remembered.
    pub known_path_lifetime: Duration,
    /// Maximum number of stateless resets sent per second. Version negotiations and refusals are
    /// each limited to the same number.
    pub answers_per_second: u32,
}

impl EndpointConfig {
    /// Creates a configuration for a client that uses `key`, with default values. For `epoch`, see
    /// the field of this name.
    pub fn new(key: SharedEndpointKey, epoch: Duration) -> Self {
        Self {
            key,
            epoch,
            server: None,
            max_connections: 1 << 16,
            max_half_open: 512,
            retry: RetryPolicy::Automatic { half_open: 128 },
            retry_token_lifetime: Duration::from_secs(15),
            new_token_lifetime: Duration::from_secs(24 * 3600),
            remembered_tokens: 1 << 16,
            receive_memory: 512 << 20,
            known_paths: 1024,
            known_path_lifetime: Duration::from_secs(3600),
            answers_per_second: 1000,
        }
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig")
            .field("server", &self.server)
            .field("max_connections", &self.max_connections)
            .field("max_half_open", &self.max_half_open)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

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
