//! TLS for tests: with a generated certificate, with test code in between, and with frames that no
//! connection sends.

mod forge;
mod tampered;

use std::sync::OnceLock;

use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use rcgen::{CertifiedKey, KeyPair};

pub(crate) use forge::{forging, frames, packets};
pub(crate) use tampered::{Hooks, Tampered};

/// Returns a client that trusts every server.
pub(crate) fn client(protocols: &[&[u8]]) -> TlsClientConfig {
    TlsClientConfig::new(Trust::Anyone, protocols).unwrap()
}

pub(crate) fn server(protocols: &[&[u8]]) -> TlsServerConfig {
    static IDENTITY: OnceLock<CertifiedKey<KeyPair>> = OnceLock::new();
    let made = IDENTITY
        .get_or_init(|| rcgen::generate_simple_self_signed(["server.test".to_owned()]).unwrap());
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    TlsServerConfig::from_pem(chain.as_bytes(), key.as_bytes(), protocols).unwrap()
}
