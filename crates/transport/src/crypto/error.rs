//! Errors of handshakes and keys, with their transport error codes.

/// First of the codes that contain a TLS alert (RFC 9000 §20.1, CRYPTO_ERROR).
const CRYPTO_ERROR: u64 = 0x100;

/// Error returned when the handshake failed on this side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer's certificate was refused.
    #[error("the peer's certificate was refused: {problem}")]
    Certificate {
        /// The reason.
        problem: CertificateProblem,
        /// The TLS alert to send.
        alert: u8,
    },
    /// The peers have no application protocol in common (ALPN, RFC 7301).
    #[error(
        "no application protocol in common: the client wants another service than this port has"
    )]
    NoApplicationProtocol,
    /// The peer sent a message that TLS allows but QUIC forbids.
    #[error("the peer sent a TLS message that QUIC forbids: {reason}")]
    Forbidden {
        /// The TLS library's message.
        reason: String,
    },
    /// Any other TLS failure.
    #[error("TLS handshake failed: {reason}")]
    Tls {
        /// The TLS alert to send (RFC 8446 §6).
        alert: u8,
        /// The TLS library's message.
        reason: String,
    },
}

/// PROTOCOL_VIOLATION (RFC 9000 §20.1).
const PROTOCOL_VIOLATION: u64 = 0x0a;

/// TLS alert no_application_protocol (RFC 7301 §3.2).
pub(super) const ALERT_NO_APPLICATION_PROTOCOL: u8 = 120;
/// TLS alert unexpected_message (RFC 8446 §6.2).
const ALERT_UNEXPECTED_MESSAGE: u8 = 10;

impl HandshakeError {
    /// Returns the TLS alert to send.
    pub const fn alert(&self) -> u8 {
        match self {
            Self::Certificate { alert, .. } | Self::Tls { alert, .. } => *alert,
            Self::NoApplicationProtocol => ALERT_NO_APPLICATION_PROTOCOL,
            Self::Forbidden { .. } => ALERT_UNEXPECTED_MESSAGE,
        }
    }

    /// Returns the code for CONNECTION_CLOSE: CRYPTO_ERROR with the alert (RFC 9001 §4.8), or
    /// PROTOCOL_VIOLATION for messages that QUIC forbids.
    pub fn code(&self) -> u64 {
        match self {
            Self::Forbidden { .. } => PROTOCOL_VIOLATION,
            _ => CRYPTO_ERROR + u64::from(self.alert()),
        }
    }
}

/// The reason that a certificate was refused. The messages suggest a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// It isn't the pinned certificate.
    #[error(
        "its SHA-256 is {got}, but {expected} was pinned: this may be an attack; ask the server's \
         operator for the current pin"
    )]
    PinMismatch {
        /// The pin, in hex.
        expected: String,
        /// SHA-256 of the received certificate, in hex.
        got: String,
    },
    /// It isn't signed by a trusted authority.
    #[error("it is signed by no trusted authority; trust its CA, or pin its SHA-256")]
    UnknownIssuer,
    /// It has expired.
    #[error("it has expired; renew it, or check this machine's clock")]
    Expired,
    /// It isn't valid yet.
    #[error("it is not valid yet; check the clocks of both machines")]
    NotValidYet,
    /// It is for other names.
    #[error(
        "it is for {presented}, not for {expected}; connect by a name in the certificate, or pin \
         its SHA-256"
    )]
    WrongName {
        /// The requested name.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

/// Error returned when a handshake can't be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The name is neither a DNS name nor an IP address.
    #[error("\"{0}\" is neither a DNS name nor an IP address")]
    BadServerName(String),
    /// The configuration is unusable.
    #[error("unusable TLS configuration: {0}")]
    Config(String),
}

/// Error returned when no keying material can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keying material can be exported only after the handshake, and not in that length")]
pub struct ExportError;

/// Error returned when a key was used as often as its cipher allows (RFC 9001 §6.6). The
/// connection must be closed, silently or with [`CODE`](Self::CODE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cipher's usage limit is reached")]
pub struct AeadLimitReached;

impl AeadLimitReached {
    /// AEAD_LIMIT_REACHED (RFC 9000 §20.1).
    pub const CODE: u64 = 0x0f;
}
