//! Configurations for tests. The certificates are described in `testdata/README.md`.

use super::{TlsClientConfig, TlsServerConfig, Trust};
use crate::crypto::{DirectionalKeys, provider};

pub(crate) const SERVER_PEM: &[u8] = include_bytes!("testdata/server.pem");

pub(crate) fn trust_ca() -> Trust {
    Trust::from_ca_pem(include_bytes!("testdata/ca.pem")).unwrap()
}

pub(crate) fn client(trust: Trust, protocols: &[&[u8]]) -> TlsClientConfig {
    TlsClientConfig::new(trust, protocols).unwrap()
}

/// The server with the certificate of this name.
pub(crate) fn server(certificate: &str, protocols: &[&[u8]]) -> TlsServerConfig {
    let (chain, key): (&[u8], &[u8]) = match certificate {
        "server" => (SERVER_PEM, include_bytes!("testdata/server.key")),
        "expired" => (
            include_bytes!("testdata/expired.pem"),
            include_bytes!("testdata/expired.key"),
        ),
        other => panic!("no certificate {other}"),
    };
    TlsServerConfig::from_pem(chain, key, protocols).unwrap()
}

/// Packet and header key of ChaCha20-Poly1305.
pub(crate) fn chacha20_keys(key: [u8; 32], iv: [u8; 12], header: [u8; 32]) -> DirectionalKeys {
    let provider = provider::tls_provider();
    let algorithm = provider
        .cipher_suites
        .iter()
        .filter(|s| s.suite() == rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256)
        .find_map(|s| s.tls13()?.quic)
        .unwrap();
    DirectionalKeys {
        header: Box::new(super::TlsHeaderKey(
            algorithm.header_protection_key(header.into()),
        )),
        packet: Box::new(super::TlsPacketKey(
            algorithm.packet_key(key.into(), iv.into()),
        )),
    }
}

/// A server that requires keys of this group, so that clients that offer another one must
/// retry.
pub(crate) fn server_of_group(group: rustls::NamedGroup, protocols: &[&[u8]]) -> TlsServerConfig {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let mut provider = rustls::crypto::CryptoProvider::clone(&provider::tls_provider());
    provider.kx_groups.retain(|offered| offered.name() == group);
    let chain = CertificateDer::pem_slice_iter(SERVER_PEM);
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("testdata/server.key"));
    let mut config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key.unwrap())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    TlsServerConfig::from_rustls(config).unwrap()
}
