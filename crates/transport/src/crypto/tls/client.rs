//! A client's TLS configuration, and the servers that it trusts: by certificate authorities, or by
//! the SHA-256 of a certificate.

use core::fmt;
use core::str::FromStr;
use std::net::Ipv6Addr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, KeyLogFile, OtherError,
    PeerIncompatible, RootCertStore, SignatureScheme,
};

use super::{Initial, TlsConfigError, TlsSession};
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

    /// Returns the same configuration for TLS over TCP, with the application protocols `protocols`.
    /// It trusts the same servers and presents the same certificate, but neither resumes sessions
    /// nor offers early data.
    pub fn over_tcp(&self, protocols: &[&[u8]]) -> rustls::ClientConfig {
        let mut config = rustls::ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        config
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
        let name =
            name_of(server_name).map_err(|_| StartError::BadServerName(server_name.to_owned()))?;
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

/// Returns the name that a host's certificate must have.
///
/// # Errors
/// [`InvalidDnsNameError`], if `host` is neither a name nor an address.
pub fn name_of(host: &str) -> Result<ServerName<'static>, InvalidDnsNameError> {
    // The zone of a link-local address only means something on this host (RFC 4007 §11).
    let unscoped = match host.split_once('%') {
        Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => address,
        _ => host,
    };
    Ok(ServerName::try_from(unscoped)?.to_owned())
}

/// Determines which servers a client trusts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trust {
    /// Servers whose certificate chain ends at one of these roots and contains the server's
    /// name.
    Roots(Arc<RootCertStore>),
    /// The server whose own certificate has this SHA-256, regardless of its name, issuer and
    /// dates.
    Pin(Pin),
    /// Any server. This doesn't protect against an attacker that can modify packets; for tests.
    Anyone,
}

impl Trust {
    /// Trusts the certificate authorities (or self-signed servers) in PEM format.
    ///
    /// # Errors
    /// [`TlsConfigError::BadCertificate`] if there are none, or if one can't be parsed.
    pub fn from_ca_pem(pem: &[u8]) -> Result<Self, TlsConfigError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            certificate
                .map_err(|e| TlsConfigError::BadCertificate(e.to_string()))
                .and_then(|c| {
                    roots
                        .add(c)
                        .map_err(|e| TlsConfigError::BadCertificate(e.to_string()))
                })?;
        }
        if roots.is_empty() {
            return Err(TlsConfigError::BadCertificate("it holds none".into()));
        }
        Ok(Self::Roots(Arc::new(roots)))
    }

    /// Trusts the certificate authorities that this system trusts currently, according to
    /// `rustls-native-certs`, which also reads `SSL_CERT_FILE` and `SSL_CERT_DIR`. Certificates
    /// that can't be parsed are ignored. Blocks while reading files.
    ///
    /// # Errors
    /// [`TlsConfigError::BadCertificate`] if the system has no usable certificates.
    #[cfg(feature = "native-certs")]
    pub fn platform() -> Result<Self, TlsConfigError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let none = || "this system has none that can be used".to_owned();
            let why = found.errors.first().map_or_else(none, ToString::to_string);
            return Err(TlsConfigError::BadCertificate(why));
        }
        Ok(Self::Roots(Arc::new(roots)))
    }

    pub(super) fn verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
        let pin = match self {
            Self::Roots(roots) => {
                return WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
                    .build()
                    .map(|verifier| verifier as _)
                    .map_err(|e| TlsConfigError::BadCertificate(e.to_string()));
            }
            Self::Pin(pin) => Some(pin),
            Self::Anyone => None,
        };
        Ok(Arc::new(PinVerifier {
            pin,
            provider: Arc::clone(provider),
        }))
    }
}

/// Accepts any client certificate, or none.
pub(super) fn any_client(provider: &Arc<CryptoProvider>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(PinVerifier {
        pin: None,
        provider: Arc::clone(provider),
    })
}

/// Accepts one certificate, or any. The handshake's signature is verified in both cases, which
/// proves that the peer has the certificate's private key.
#[derive(Debug)]
struct PinVerifier {
    pin: Option<Pin>,
    provider: Arc<CryptoProvider>,
}

/// The methods about signatures, which are the same for certificates of clients and of servers.
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let supported = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signed, supported)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let supported = &self.provider.signature_verification_algorithms;
            supported.supported_schemes()
        }
    };
}

impl ClientCertVerifier for PinVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let got = Pin::of(end_entity);
        match self.pin {
            Some(expected) if expected != got => Err(rustls::Error::InvalidCertificate(
                CertificateError::Other(OtherError(Arc::new(PinMismatch { expected, got }))),
            )),
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    verify_signatures!();
}

/// SHA-256 of a server's end-entity certificate, that is, of its whole DER encoding, as printed
/// by `openssl x509 -noout -fingerprint -sha256`. A renewed certificate has another pin.
///
/// Displayed as 64 hex digits. Parsing also accepts colons and upper case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin([u8; 32]);

/// Error returned when a text isn't 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a certificate pin is a SHA-256: 64 hexadecimal digits, colons allowed")]
pub struct BadPin;

impl Pin {
    /// Creates a pin from its bytes.
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// Returns the pin of a DER certificate.
    pub fn of(certificate: &[u8]) -> Self {
        Self(provider::sha256(certificate))
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Self, BadPin> {
        let mut digits = text.chars().filter(|c| *c != ':').map(|c| c.to_digit(16));
        let mut bytes = [0u8; 32];
        for byte in &mut bytes {
            let mut digit = || digits.next().flatten().ok_or(BadPin);
            let value = digit()? << 4 | digit()?;
            *byte = u8::try_from(value).map_err(|_| BadPin)?;
        }
        if digits.next().is_some() {
            return Err(BadPin);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({self})")
    }
}

/// A pin mismatch, wrapped in a rustls error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("certificate {got} is not the pinned {expected}")]
pub(super) struct PinMismatch {
    pub(super) expected: Pin,
    pub(super) got: Pin,
}
