//! Identification of certificates by their SHA-256.

use core::fmt;
use core::str::FromStr;

use super::provider;

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
