//! Both kinds of cryptography, with and without TLS.

use std::sync::Arc;

use pathmark_transport::crypto::null::NullCrypto;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::crypto::{ClientCrypto, ServerCrypto};

/// What every simulation of a process shares.
pub(crate) struct Crypto {
    null: Arc<NullCrypto>,
    tls: (Arc<TlsClientConfig>, Arc<TlsServerConfig>),
}

impl Crypto {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["server.test".to_owned()]).expect("made");
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let server = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[b"faults"]);
        let client = TlsClientConfig::new(Trust::Anyone, &[b"faults"]);
        Self {
            null: Arc::new(NullCrypto::new(&[b"faults"])),
            tls: (
                Arc::new(client.expect("usable")),
                Arc::new(server.expect("usable")),
            ),
        }
    }

    pub(crate) fn client(&self, tls: bool) -> Arc<dyn ClientCrypto> {
        match tls {
            true => self.tls.0.clone(),
            false => self.null.clone(),
        }
    }

    pub(crate) fn server(&self, tls: bool) -> Arc<dyn ServerCrypto> {
        match tls {
            true => self.tls.1.clone(),
            false => self.null.clone(),
        }
    }
}
