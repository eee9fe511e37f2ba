//! Configurations of servers, clients and endpoints.

use std::fmt;
use std::sync::Arc;

use super::transport_config::TransportConfig;
use pathmark_transport::crypto::tls::rustls::RootCertStore;
use pathmark_transport::crypto::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsConfigError, TlsServerConfig, Trust};
use pathmark_transport::crypto::{ClientCrypto, ServerCrypto, SharedEndpointKey};
use pathmark_transport::endpoint::{self as core, RetryPolicy};

/// Stands for tokio, the only runtime, so that programs for quinn compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioRuntime;

/// Returns the runtime of this task, or `None` outside tokio.
pub fn default_runtime() -> Option<Arc<TokioRuntime>> {
    let here = tokio::runtime::Handle::try_current();
    here.is_ok().then(|| Arc::new(TokioRuntime))
}

/// Settings of an endpoint.
#[derive(Default)]
pub struct EndpointConfig(Option<Adjust>);

type Adjust = Box<dyn FnOnce(&mut core::EndpointConfig) + Send>;

impl EndpointConfig {
    /// Creates an endpoint's settings by passing the defaults, with those of its [`ServerConfig`],
    /// to `adjust`, which can change limits, lifetimes of tokens and memory.
    pub fn adjusted(adjust: impl FnOnce(&mut core::EndpointConfig) + Send + 'static) -> Self {
        Self(Some(Box::new(adjust)))
    }

    pub(super) fn apply(self, config: &mut core::EndpointConfig) {
        if let Some(adjust) = self.0 {
            adjust(config);
        }
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig").finish_non_exhaustive()
    }
}

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) crypto: Arc<dyn ServerCrypto>,
    /// Settings of accepted connections.
    pub transport: Arc<TransportConfig>,
    pub(super) key: Option<SharedEndpointKey>,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) max_half_open: Option<usize>,
    pub(super) max_connections: Option<usize>,
    pub(super) remembered_tokens: Option<usize>,
}

impl ServerConfig {
    /// Creates a configuration with default transport settings.
    pub fn with_crypto(crypto: Arc<dyn ServerCrypto>) -> Self {
        Self::with_transport(crypto, TransportConfig::default())
    }

    /// Creates a configuration with default transport settings and no application protocol from a
    /// certificate chain, which begins with the server's own certificate, and its key.
    ///
    /// # Errors
    /// [`TlsConfigError`] if the key doesn't belong to the certificate.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, TlsConfigError> {
        let crypto = TlsServerConfig::new(chain, key, &[])?;
        Ok(Self::with_crypto(Arc::new(crypto)))
    }

    /// Creates a configuration from a certificate and transport settings.
    pub fn with_transport(
        crypto: Arc<dyn ServerCrypto>,
        transport: impl Into<TransportConfig>,
    ) -> Self {
        Self {
            crypto,
            transport: Arc::new(transport.into()),
            key: None,
            retry: None,
            max_half_open: None,
            max_connections: None,
            remembered_tokens: None,
        }
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
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
            transport: self.transport.shared(),
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
    /// Creates a configuration with default transport settings.
    pub fn new(crypto: Arc<dyn ClientCrypto>) -> Self {
        Self::with_transport(crypto, TransportConfig::default())
    }

    /// Creates a configuration with default transport settings and no application protocol that
    /// trusts these certificate authorities.
    ///
    /// # Errors
    /// [`TlsConfigError`] if TLS can't be configured.
    pub fn with_root_certificates(roots: Arc<RootCertStore>) -> Result<Self, TlsConfigError> {
        let crypto = TlsClientConfig::new(Trust::Roots(roots), &[])?;
        Ok(Self::new(Arc::new(crypto)))
    }

    /// Creates a configuration from the trust in servers and transport settings.
    pub fn with_transport(
        crypto: Arc<dyn ClientCrypto>,
        transport: impl Into<TransportConfig>,
    ) -> Self {
        Self {
            crypto,
            transport: Arc::new(transport.into()),
        }
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }
}
