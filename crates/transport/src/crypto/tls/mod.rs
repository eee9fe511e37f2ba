//! TLS 1.3 sessions from rustls (RFC 8446 over RFC 9001).
//!
//! A client trusts servers according to [`Trust`]: by certificate authorities, or by the
//! SHA-256 of the server's own certificate. Secrets are logged to the file named by
//! `SSLKEYLOGFILE` when a configuration is created, so that packet captures can be decrypted.
//! By default, sessions are resumed with tickets. Data is sent before the handshake (0-RTT)
//! only if both configurations enable this.

use rustls::quic::Suite;

use super::provider::{self, RetryKey};
use super::{InitialCrypto, Keys, RETRY_TAG_LEN, Side};

mod client;
mod error;
mod pin;
mod server;
mod session;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod trust;

pub use super::provider::{EndpointSecret, NoCipher};
pub use client::TlsClientConfig;
pub use error::TlsConfigError;
pub use pin::{BadPin, Pin};
pub use rustls;
pub use server::TlsServerConfig;
pub use trust::Trust;

/// Initial keys and Retry tags, used by both configurations.
struct Initial {
    suite: Suite,
    retry: RetryKey,
}

impl Initial {
    fn new() -> Result<Self, TlsConfigError> {
        match (provider::initial_suite(), RetryKey::new()) {
            (Some(suite), Some(retry)) => Ok(Self { suite, retry }),
            _ => Err(TlsConfigError::NoCipher(NoCipher)),
        }
    }
}

impl InitialCrypto for Initial {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        // [9001 5.2 initial-derivation]
        let keys = self
            .suite
            .keys(client_dcid, side, rustls::quic::Version::V1);
        session::wrap(keys)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.retry.tag(original_dcid, packet)
    }
}
