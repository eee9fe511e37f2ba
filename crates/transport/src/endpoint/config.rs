//! Configuration of endpoints.

use core::fmt;
use std::sync::Arc;

use super::RetryPolicy;
use crate::Duration;
use crate::TransportConfig;
use crate::crypto::{ServerCrypto, SharedEndpointKey};

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
