//! Configurations of servers and clients.

use std::sync::Arc;

use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::{ClientCrypto, ServerCrypto, SharedEndpointKey};
use pathmark_transport::endpoint::{self as core, RetryPolicy};

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) crypto: Arc<dyn ServerCrypto>,
    pub(super) transport: Arc<TransportConfig>,
    pub(super) key: Option<SharedEndpointKey>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) max_half_open: Option<usize>,
    pub(super) max_connections: Option<usize>,
    pub(super) remembered_tokens: Option<usize>,
}

impl ServerConfig {
    /// Creates a configuration from a certificate and transport settings.
    pub fn new(crypto: Arc<dyn ServerCrypto>, transport: Arc<TransportConfig>) -> Self {
        Self {
            crypto,
            transport,
            key: None,
            retry: None,
            max_half_open: None,
            max_connections: None,
            remembered_tokens: None,
        }
    }

    /// Sets the key of tokens and stateless resets, an [`EndpointSecret`][secret] from 32 secret
    /// bytes.
    ///
    /// By default this is a random key. If you keep the same key across restarts, a restarted
    /// server can reset earlier connections immediately, for which clients would otherwise wait
    /// until their idle timeout, and will accept earlier tokens.
    ///
    /// [secret]: pathmark_transport::crypto::tls::EndpointSecret
    pub fn key(&mut self, key: SharedEndpointKey) -> &mut Self {
        self.key = Some(key);
        self
    }

    /// Chooses when clients must prove their address first. By default, this is only necessary
    /// while there are many half-open handshakes.
    pub fn retry(&mut self, policy: RetryPolicy) -> &mut Self {
        self.retry = Some(policy);
        self
    }

    /// Limits how many half-open handshakes there can be at a time. Beyond this limit, a new client
    /// gets a place from the IPv4 address or IPv6 prefix that has the most
    /// ([`EndpointConfig::max_half_open`](core::EndpointConfig::max_half_open)).
    pub fn max_half_open(&mut self, handshakes: usize) -> &mut Self {
        self.max_half_open = Some(handshakes);
        self
    }

    /// Converts this into the core's configuration for accepting connections.
    pub(super) fn into_core(self) -> core::ServerConfig {
        core::ServerConfig {
            transport: self.transport,
            crypto: self.crypto,
        }
    }

    /// Limits how many used tokens are remembered, for a day, so that none can be used twice
    /// ([`EndpointConfig::remembered_tokens`](core::EndpointConfig::remembered_tokens)). Beyond
    /// this limit, clients must validate their address again. It can't be changed by
    /// [`Endpoint::set_server_config`](crate::Endpoint::set_server_config).
    pub fn remembered_tokens(&mut self, tokens: usize) -> &mut Self {
        self.remembered_tokens = Some(tokens);
        self
    }

    /// Limits how many connections there can be at a time.
    pub fn max_connections(&mut self, connections: usize) -> &mut Self {
        self.max_connections = Some(connections);
        self
    }
}

/// A client's configuration.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub(super) crypto: Arc<dyn ClientCrypto>,
    pub(super) transport: Arc<TransportConfig>,
}

impl ClientConfig {
    /// Creates a configuration from the trust in servers and transport settings.
    pub fn new(crypto: Arc<dyn ClientCrypto>, transport: Arc<TransportConfig>) -> Self {
        Self { crypto, transport }
    }
}
