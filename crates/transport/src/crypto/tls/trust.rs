//! The servers that a client trusts.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, PeerIncompatible,
    RootCertStore, SignatureScheme,
};

use super::TlsConfigError;
use super::pin::{Pin, PinMismatch};

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
