//! What an application chooses about endpoints.

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
    /// Accepts connections with this certificate and these transport settings.
    #[must_use]
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

    /// The key of tokens and stateless resets (an
    /// [`EndpointSecret`][secret] from 32 bytes that are kept secret).
    /// With the same key a server that was started again resets connections of its earlier life at
    /// once, where clients would otherwise wait for their idle timeout, and believes that life's
    /// tokens. By default a random one.
    ///
    /// [secret]: pathmark_transport::crypto::tls::EndpointSecret
    pub fn key(&mut self, key: SharedEndpointKey) -> &mut Self {
        self.key = Some(key);
        self
    }

    /// When clients must prove their address first. By default while half-open handshakes pile up.
    pub fn retry(&mut self, policy: RetryPolicy) -> &mut Self {
        self.retry = Some(policy);
        self
    }

    /// Half-open handshakes at a time; beyond them a new client gets a place from the IPv4 address
    /// or IPv6 prefix with the most
    /// ([`EndpointConfig::max_half_open`](core::EndpointConfig::max_half_open)).
    pub fn max_half_open(&mut self, handshakes: usize) -> &mut Self {
        self.max_half_open = Some(handshakes);
        self
    }

    /// The configuration with which connections are accepted.
    pub(super) fn into_core(self) -> core::ServerConfig {
        core::ServerConfig {
            transport: self.transport,
            crypto: self.crypto,
        }
    }

    /// Tokens of later connections whose use is remembered for a day, so that none is used twice
    /// ([`EndpointConfig::remembered_tokens`](core::EndpointConfig::remembered_tokens)).
    /// Beyond them clients validate their address again. What an endpoint begins with stays.
    pub fn remembered_tokens(&mut self, tokens: usize) -> &mut Self {
        self.remembered_tokens = Some(tokens);
        self
    }

    /// Connections at a time.
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
    /// Connects with this trust and these transport settings.
    #[must_use]
    pub fn new(crypto: Arc<dyn ClientCrypto>, transport: Arc<TransportConfig>) -> Self {
        Self { crypto, transport }
    }
}
