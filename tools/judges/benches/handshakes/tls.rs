//! The TLS configuration of all stacks.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// The name in the server's certificate.
pub(crate) const NAME: &str = "server.test";
const ALPN: &[u8] = b"handshakes";

/// The configurations of both ends.
#[derive(Clone)]
pub(crate) struct Configs {
    pub(crate) client: rustls::ClientConfig,
    pub(crate) server: rustls::ServerConfig,
}

impl Configs {
    /// Creates a new certificate, and configurations with only X25519 and AES-128-GCM and without
    /// tickets.
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("made");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = made.cert.der().clone();
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let provider = Arc::new(provider);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate");
        let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("it has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption = rustls::client::Resumption::disabled();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("it has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .expect("a certificate and its key");
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Self { client, server }
    }
}
