//! A client's TLS configuration.

use core::fmt;
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

/// Servers whose sessions are remembered.
const REMEMBERED_SERVERS: usize = 64;

/// A client's TLS configuration: whom it trusts and which application protocols it offers.
pub struct TlsClientConfig {
    config: Arc<rustls::ClientConfig>,
    initial: Initial,
}

impl TlsClientConfig {
    /// TLS 1.3 with servers that `trust` covers, offering `protocols` (ALPN), the preferred first.
    /// QUIC requires at least one (RFC 9001 §8.1).
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

    /// Shows servers that ask for one the certificate chain (end entity first) in a PEM text, whose
    /// private key is in another.
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

    /// Remembers no sessions: each handshake is a full one. By default, connections that are made
    /// with one configuration resume the sessions of earlier ones to servers of the same name, up
    /// to 64 names, and each ticket is used once. What a network's observer could link by tickets,
    /// it could not without.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        Arc::make_mut(&mut self.config).resumption = Resumption::disabled();
        self
    }

    /// Offers early data (0-RTT, RFC 9001 §4.6) to servers whose sessions are resumed, if their
    /// tickets allow it: what is written before the handshake is complete leaves with its first
    /// packet, if the application asks for it (the driver's `Connecting::into_0rtt`). Off by
    /// default: **an observer can send early data to a server again**, and a server that is not
    /// careful acts upon it twice. Send nothing early that does harm twice. Early data is in the
    /// application protocol of the earlier connection: offer one alone.
    #[must_use]
    pub fn with_early_data(mut self) -> Self {
        Arc::make_mut(&mut self.config).enable_early_data = true;
        self
    }

    /// A configuration made with rustls itself, for what [`new`](Self::new) does not offer (client
    /// certificates, other roots). It must allow TLS 1.3 and should name application protocols.
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
        let name = ServerName::try_from(server_name)
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
