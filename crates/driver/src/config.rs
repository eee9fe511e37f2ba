//! Configurations of servers, clients and endpoints, and transport settings with the recommended
//! congestion control and quinn's setters.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_protocols::signals;
use pathmark_transport::crypto::tls::rustls::RootCertStore;
use pathmark_transport::crypto::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsConfigError, TlsServerConfig, Trust};
use pathmark_transport::crypto::{ClientCrypto, ServerCrypto, SharedEndpointKey};
use pathmark_transport::endpoint::{self, RetryPolicy};
use pathmark_transport::{self as core, ControllerFactory, Duration, VarInt};

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

type Adjust = Box<dyn FnOnce(&mut endpoint::EndpointConfig) + Send>;

impl EndpointConfig {
    /// Creates an endpoint's settings by passing the defaults, with those of its [`ServerConfig`],
    /// to `adjust`, which can change limits, lifetimes of tokens and memory.
    pub fn adjusted(adjust: impl FnOnce(&mut endpoint::EndpointConfig) + Send + 'static) -> Self {
        Self(Some(Box::new(adjust)))
    }

    pub(super) fn apply(self, config: &mut endpoint::EndpointConfig) {
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
    /// ([`EndpointConfig::max_half_open`](endpoint::EndpointConfig::max_half_open)).
    pub fn max_half_open(&mut self, handshakes: usize) -> &mut Self {
        self.max_half_open = Some(handshakes);
        self
    }

    /// Converts this into the core's configuration for accepting connections.
    pub(super) fn into_core(self) -> endpoint::ServerConfig {
        endpoint::ServerConfig {
            transport: self.transport.shared(),
            crypto: self.crypto,
        }
    }

    /// Limits how many used tokens are remembered, for a day, so that none can be used twice
    /// ([`EndpointConfig::remembered_tokens`](endpoint::EndpointConfig::remembered_tokens)). Beyond
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

/// Settings of connections. One value can serve many connections.
///
/// [`default`](Self::default) is the recommended configuration, with the congestion control `auto`
/// and the signals by which it asks routers. You can call quinn's setters, or change the fields of
/// [`pathmark_transport::TransportConfig`], to which this dereferences.
#[derive(Clone, Debug)]
pub struct TransportConfig(Arc<core::TransportConfig>);

impl TransportConfig {
    /// Creates settings with this congestion control, and with the signal by which it asks routers.
    /// They also offer the other signals that travel in shims, so that each side can use its own
    /// congestion control.
    pub fn of(algorithm: &Algorithm) -> Self {
        let law = algorithm.clone();
        let mut config = Self::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
        config.signals = signals::offered_by(algorithm);
        if algorithm.is_granted() {
            config.streams = config.streams.with_room_for_grants();
        }
        config
    }

    /// Creates settings with a controller of your own and no signal, so that the connection sends
    /// plain QUIC.
    pub fn new(controller: Arc<dyn ControllerFactory>) -> Self {
        core::TransportConfig::new(controller).into()
    }

    pub(super) fn shared(&self) -> Arc<core::TransportConfig> {
        Arc::clone(&self.0)
    }

    /// Sets `streams.max_bidi_streams`.
    pub fn max_concurrent_bidi_streams(&mut self, streams: VarInt) -> &mut Self {
        self.streams.max_bidi_streams = streams.into_inner();
        self
    }

    /// Sets `streams.max_uni_streams`.
    pub fn max_concurrent_uni_streams(&mut self, streams: VarInt) -> &mut Self {
        self.streams.max_uni_streams = streams.into_inner();
        self
    }

    /// Sets `max_idle_timeout`.
    pub fn max_idle_timeout(&mut self, timeout: Option<IdleTimeout>) -> &mut Self {
        self.max_idle_timeout = timeout.map(|timeout| timeout.0);
        self
    }

    /// Sets `keep_alive`.
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        self.keep_alive = interval;
        self
    }

    /// Sets `streams.initial_stream_window`. It only grows if `streams.max_window` is larger.
    pub fn stream_receive_window(&mut self, bytes: VarInt) -> &mut Self {
        self.streams.initial_stream_window = bytes.into_inner();
        self
    }

    /// Limits all windows to this many bytes: sets `streams.initial_connection_window` and
    /// `streams.max_window`.
    pub fn receive_window(&mut self, bytes: VarInt) -> &mut Self {
        self.streams.initial_connection_window = bytes.into_inner();
        self.streams.max_window = bytes.into_inner();
        self
    }

    /// Sets `streams.max_send_buffer`.
    pub fn send_window(&mut self, bytes: u64) -> &mut Self {
        self.streams.max_send_buffer = bytes;
        self
    }

    /// Sets `datagrams.receive_bytes`. With `None`, the peer can't send datagrams.
    pub fn datagram_receive_buffer_size(&mut self, bytes: Option<usize>) -> &mut Self {
        self.datagrams.receive_bytes = bytes.unwrap_or(0);
        self
    }

    /// Sets `datagrams.send_bytes`.
    pub fn datagram_send_buffer_size(&mut self, bytes: usize) -> &mut Self {
        self.datagrams.send_bytes = bytes;
        self
    }

    /// Sets `controller`, and removes all signals, as in [`new`](Self::new).
    pub fn congestion_controller_factory(
        &mut self,
        factory: Arc<dyn ControllerFactory>,
    ) -> &mut Self {
        self.controller = factory;
        self.signals.clear();
        self
    }

    /// Sets [`initial_mtu`](core::TransportConfig::initial_mtu).
    pub fn initial_mtu(&mut self, bytes: u16) -> &mut Self {
        self.initial_mtu = bytes;
        self
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self::of(&Algorithm::default())
    }
}

impl Deref for TransportConfig {
    type Target = core::TransportConfig;

    fn deref(&self) -> &core::TransportConfig {
        &self.0
    }
}

impl DerefMut for TransportConfig {
    fn deref_mut(&mut self) -> &mut core::TransportConfig {
        Arc::make_mut(&mut self.0)
    }
}

impl From<core::TransportConfig> for TransportConfig {
    fn from(config: core::TransportConfig) -> Self {
        Self(Arc::new(config))
    }
}

impl From<Arc<core::TransportConfig>> for TransportConfig {
    fn from(config: Arc<core::TransportConfig>) -> Self {
        Self(config)
    }
}

impl From<Arc<Self>> for TransportConfig {
    fn from(config: Arc<Self>) -> Self {
        Self::clone(&config)
    }
}

/// How long a connection may be idle: up to 2^62 − 1 milliseconds. Parts of a millisecond count as
/// a whole one, and zero means forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdleTimeout(Duration);

/// Takes milliseconds.
impl From<VarInt> for IdleTimeout {
    fn from(milliseconds: VarInt) -> Self {
        Self(Duration::from_millis(milliseconds.into_inner()))
    }
}

impl TryFrom<std::time::Duration> for IdleTimeout {
    type Error = core::wire::varint::TooLarge;

    fn try_from(timeout: std::time::Duration) -> Result<Self, Self::Error> {
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
        let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        Ok(VarInt::from_u64(milliseconds)?.into())
    }
}
