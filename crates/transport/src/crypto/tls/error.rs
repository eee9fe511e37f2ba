//! Unusable configurations, and conversion of rustls errors.

use rustls::{AlertDescription, CertificateError, HandshakeType, PeerMisbehaved};

use super::super::{CertificateProblem, HandshakeError};
use super::NoCipher;
use super::pin::PinMismatch;

/// Error returned when a TLS configuration is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// The PEM text contains no certificate, or an invalid one.
    #[error("no usable certificate in the PEM text (-----BEGIN CERTIFICATE-----): {0}")]
    BadCertificate(String),
    /// The PEM text contains no private key, or an invalid one.
    #[error("no usable private key in the PEM text (-----BEGIN PRIVATE KEY-----): {0}")]
    BadKey(String),
    /// Certificate and key don't match, or are of a kind that TLS 1.3 doesn't support.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(String),
    /// See [`NoCipher`].
    #[error(transparent)]
    NoCipher(#[from] NoCipher),
}

/// Converts a rustls error. `alert` is the one that rustls would send.
pub(super) fn handshake_error(
    error: &rustls::Error,
    alert: Option<AlertDescription>,
) -> HandshakeError {
    // [9001 6 tls-key-update]
    let alert = alert.map_or(u8::from(AlertDescription::InternalError), u8::from);
    match error {
        rustls::Error::InvalidCertificate(problem) => HandshakeError::Certificate {
            problem: certificate_problem(problem),
            alert,
        },
        // [9001 8.1 no-protocol]
        rustls::Error::NoApplicationProtocol => HandshakeError::NoApplicationProtocol,
        // [9001 4.6.1 other-ticket-size]
        rustls::Error::PeerMisbehaved(PeerMisbehaved::InvalidMaxEarlyDataSize)
        | rustls::Error::InappropriateHandshakeMessage {
            // [9001 4.4 late-request]
            got_type: HandshakeType::CertificateRequest,
            ..
        } => HandshakeError::Forbidden {
            reason: error.to_string(),
        },
        _ => HandshakeError::Tls {
            alert,
            reason: error.to_string(),
        },
    }
}

fn certificate_problem(error: &CertificateError) -> CertificateProblem {
    match error {
        CertificateError::UnknownIssuer => CertificateProblem::UnknownIssuer,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateProblem::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateProblem::NotValidYet
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => CertificateProblem::WrongName {
            expected: expected.to_str().into_owned(),
            presented: presented.join(", "),
        },
        CertificateError::Other(other) => match other.0.downcast_ref::<PinMismatch>() {
            Some(mismatch) => CertificateProblem::PinMismatch {
                expected: mismatch.expected.to_string(),
                got: mismatch.got.to_string(),
            },
            None => CertificateProblem::Other(error.to_string()),
        },
        _ => CertificateProblem::Other(error.to_string()),
    }
}
