//! A client's TLS configuration.

use core::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{KeyLogFile, client::Resumption};

use super::session::TlsSession;
use super::{Initial, TlsConfigError, Trust};
use crate::crypto::{
    ClientCrypto, InitialCrypto, Keys, RETRY_TAG_LEN, Session, Side, StartError, provider,
};

/// Maximum number of servers whose sessions are remembered.
const REMEMBERED_SERVERS: usize = 64;

/// A client's TLS configuration: the servers it trusts and the application protocols it offers.
pub struct TlsClientConfig {
    config: Arc<rustls::ClientConfig>,
    initial: Initial,
}

impl TlsClientConfig {
    /// Creates a TLS 1.3 configuration that accepts servers according to `trust`, and offers
    /// the application protocols `protocols` (ALPN), in order of preference. QUIC requires at
    /// least one (RFC 9001 §8.1).
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn new(trust: Trust, protocols: &[&[u8]]) -> Result<Self, TlsConfigError> {
        let provider = provider::tls_provider();
        let verifier = trust.verifier(&provider)?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            // [9001 4.2 offer-tls13] [9001 4.2 older-tls]
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsConfigError::Unusable(e.to_string()))?
            .dangerous()
            // [9001 4.4 authenticate-server]
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        // [9001 8.1 alpn]
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config.key_log = Arc::new(KeyLogFile::new());
        config.resumption = Resumption::in_memory_sessions(REMEMBERED_SERVERS);
        Self::from_rustls(config)
    }

    /// Sets the certificate that is presented to servers on request: a chain (end entity first)
    /// and its private key, both in PEM format.
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn with_certificate(mut self, chain: &[u8], key: &[u8]) -> Result<Self, TlsConfigError> {
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| TlsConfigError::BadCertificate(e.to_string()))?;
        if chain.is_empty() {
            return Err(TlsConfigError::BadCertificate("it holds none".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|e| TlsConfigError::BadKey(e.to_string()))?;
        let provider = provider::tls_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider)
            .map_err(|e| TlsConfigError::Unusable(e.to_string()))?;
        let config = Arc::make_mut(&mut self.config);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Ok(self)
    }

    /// Disables session resumption, so that each connection requires a full handshake. By default,
    /// connections with the same configuration resume earlier sessions with servers of the same
    /// name, up to 64 names. Each ticket is used only once, because an observer could link
    /// connections that use the same ticket.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        Arc::make_mut(&mut self.config).resumption = Resumption::disabled();
        self
    }

    /// Offers early data (0-RTT, RFC 9001 §4.6) to servers whose sessions are resumed, if their
    /// tickets allow it. Data written before the handshake is complete is then sent with the
    /// first packet, if the application uses the driver's `Connecting::into_0rtt`. Disabled by
    /// default, because **an attacker can replay early data**, and a server that isn't careful
    /// would process it twice. Only send early data that is harmless when repeated. Early data
    /// uses the application protocol of the earlier connection, so you should offer a single
    /// protocol.
    #[must_use]
    pub fn with_early_data(mut self) -> Self {
        Arc::make_mut(&mut self.config).enable_early_data = true;
        self
    }

    /// Uses a configuration made with rustls directly, for features that [`new`](Self::new)
    /// doesn't offer (client certificates, other roots). It must allow TLS 1.3 and should
    /// include application protocols.
    ///
    /// # Errors
    /// [`TlsConfigError`].
    pub fn from_rustls(mut config: rustls::ClientConfig) -> Result<Self, TlsConfigError> {
        // [9001 5.6 early-data-on-request]
        config.enable_early_data = false;
        Ok(Self {
            config: Arc::new(config),
            initial: Initial::new()?,
        })
    }
}

impl TryFrom<rustls::ClientConfig> for TlsClientConfig {
    type Error = TlsConfigError;

    /// Early data is offered if the configuration enables it.
    fn try_from(config: rustls::ClientConfig) -> Result<Self, TlsConfigError> {
        let early = config.enable_early_data;
        let this = Self::from_rustls(config)?;
        Ok(if early { this.with_early_data() } else { this })
    }
}

impl fmt::Debug for TlsClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClientConfig(..)")
    }
}

impl InitialCrypto for TlsClientConfig {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        self.initial.initial_keys(client_dcid, side)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.initial.retry_tag(original_dcid, packet)
    }
}

impl ClientCrypto for TlsClientConfig {
    fn start(
        &self,
        server_name: &str,
        transport_parameters: Vec<u8>,
        _: u64,
    ) -> Result<Box<dyn Session>, StartError> {
        // The zone of a link-local address only means something on this host (RFC 4007 §11).
        let unscoped = match server_name.split_once('%') {
            Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => address,
            _ => server_name,
        };
        let name = ServerName::try_from(unscoped)
            .map_err(|_| StartError::BadServerName(server_name.to_owned()))?
            .to_owned();
        // [9001 8.2 send-parameters] [9001 8.4 compatibility-mode] [9000 7 handshake-properties]
        let connection = rustls::quic::ClientConnection::new(
            Arc::clone(&self.config),
            rustls::quic::Version::V1,
            name,
            transport_parameters,
        )
        .map_err(|e| StartError::Config(e.to_string()))?;
        Ok(Box::new(TlsSession::new(connection.into())))
    }
}
