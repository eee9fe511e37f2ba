//! What an application chooses about an endpoint.

use core::fmt;
use std::sync::Arc;

use super::RetryPolicy;
use crate::Duration;
use crate::TransportConfig;
use crate::crypto::{ServerCrypto, SharedEndpointKey};

/// What a server needs to accept connections.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Transport configuration of accepted connections.
    pub transport: Arc<TransportConfig>,
    /// Their cryptographic configuration.
    pub crypto: Arc<dyn ServerCrypto>,
}

/// Configuration of an endpoint.
#[derive(Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Seals tokens and gives stateless resets. Endpoints that share it know each other's.
    pub key: SharedEndpointKey,
    /// Wall time at [`Instant::ZERO`](crate::Instant::ZERO), as a duration since 1970-01-01 UTC:
    /// tokens expire by wall time, so that they outlive a restart.
    pub epoch: Duration,
    /// Accepts connections; `None`: clients only.
    pub server: Option<ServerConfig>,
    /// Connections at a time, of either side.
    pub max_connections: usize,
    /// Handshakes that have been begun by clients and are not complete, accepted ones and waiting
    /// ones together. Beyond it, a new client gets the place of the oldest one of the address or
    /// IPv6 prefix that holds the most, unless its own holds about as many; then it is not heard
    /// until one of them has had 2 seconds. It tries again.
    pub max_half_open: usize,
    /// When clients must prove their address first.
    pub retry: RetryPolicy,
    /// How long a client may take to come back after a Retry.
    pub retry_token_lifetime: Duration,
    /// How long a token for a later connection (NEW_TOKEN) is good. Zero: none are given.
    pub new_token_lifetime: Duration,
    /// NEW_TOKEN tokens whose use is remembered per lifetime, 9 bytes each, twice.
    pub remembered_tokens: usize,
    /// Memory for data that peers may send and that was not read yet, of all connections together,
    /// bytes. Each may promise what its application reads within some round trips; what
    /// connections promise beyond that is a quarter of this at most, and 64 KiB of each. Where it
    /// is short, windows grow no more.
    pub receive_memory: u64,
    /// Peers of whose path it is remembered what it carried, by their address (IPv6: its first 64
    /// bits). A later connection asks routers for that before its handshake is complete
    /// ([`TransportConfig::known_rate`] counts before it). 0: none.
    pub known_paths: usize,
    /// How long that is remembered.
    pub known_path_lifetime: Duration,
    /// Stateless resets, version negotiations and refusals that may be sent per second, each.
    pub answers_per_second: u32,
}

impl EndpointConfig {
    /// The defaults: a client with this key. `epoch` as in the field.
    #[must_use]
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
