//! What can go wrong in a handshake or with keys, and the transport error code for each.

/// First of the codes that carry a TLS alert (RFC 9000 §20.1, CRYPTO_ERROR).
const CRYPTO_ERROR: u64 = 0x100;

/// The handshake failed on this side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer's certificate was not accepted.
    #[error("the peer's certificate was refused: {problem}")]
    Certificate {
        /// Why.
        problem: CertificateProblem,
        /// The TLS alert that tells the peer.
        alert: u8,
    },
    /// No application protocol in common (ALPN, RFC 7301).
    #[error(
        "no application protocol in common: the client wants another service than this port has"
    )]
    NoApplicationProtocol,
    /// A message that TLS allows and QUIC does not.
    #[error("the peer sent a TLS message that QUIC forbids: {reason}")]
    Forbidden {
        /// The TLS library's text.
        reason: String,
    },
    /// Any other failure of TLS.
    #[error("TLS handshake failed: {reason}")]
    Tls {
        /// The TLS alert that tells the peer (RFC 8446 §6).
        alert: u8,
        /// The TLS library's text.
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
    /// The TLS alert that tells the peer.
    #[must_use]
    pub const fn alert(&self) -> u8 {
        match self {
            Self::Certificate { alert, .. } | Self::Tls { alert, .. } => *alert,
            Self::NoApplicationProtocol => ALERT_NO_APPLICATION_PROTOCOL,
            Self::Forbidden { .. } => ALERT_UNEXPECTED_MESSAGE,
        }
    }

    /// The code for CONNECTION_CLOSE: CRYPTO_ERROR with the alert (RFC 9001 §4.8), or
    /// PROTOCOL_VIOLATION for what QUIC forbids.
    #[must_use]
    pub fn code(&self) -> u64 {
        match self {
            Self::Forbidden { .. } => PROTOCOL_VIOLATION,
            _ => CRYPTO_ERROR + u64::from(self.alert()),
        }
    }
}

/// Why a certificate was refused, in words that name the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// It is not the pinned one.
    #[error(
        "its SHA-256 is {got}, but {expected} was pinned: this may be an attack; ask the server's \
         operator for the current pin"
    )]
    PinMismatch {
        /// The pin, in hex.
        expected: String,
        /// SHA-256 of the certificate that came, in hex.
        got: String,
    },
    /// No trusted root vouches for it.
    #[error("it is signed by no trusted authority; trust its CA, or pin its SHA-256")]
    UnknownIssuer,
    /// Its time is over.
    #[error("it has expired; renew it, or check this machine's clock")]
    Expired,
    /// Its time has not begun.
    #[error("it is not valid yet; check the clocks of both machines")]
    NotValidYet,
    /// It is for other names.
    #[error(
        "it is for {presented}, not for {expected}; connect by a name in the certificate, or pin \
         its SHA-256"
    )]
    WrongName {
        /// The name asked for.
        expected: String,
        /// The names in the certificate.
        presented: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A handshake could not even start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Neither a DNS name nor an IP address.
    #[error("\"{0}\" is neither a DNS name nor an IP address")]
    BadServerName(String),
    /// The configuration cannot be used.
    #[error("unusable TLS configuration: {0}")]
    Config(String),
}

/// No keying material to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keying material can be exported only after the handshake, and not in that length")]
pub struct ExportError;

/// A key has been used as often as its cipher allows (RFC 9001 §6.6). The connection closes,
/// silently or with [`CODE`](Self::CODE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cipher's usage limit is reached")]
pub struct AeadLimitReached;

impl AeadLimitReached {
    /// AEAD_LIMIT_REACHED (RFC 9000 §20.1).
    pub const CODE: u64 = 0x0f;
}
