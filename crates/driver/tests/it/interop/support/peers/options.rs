//! Options of an endpoint, converted for each implementation.

use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver as driver;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::SharedEndpointKey;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::endpoint::RetryPolicy;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use super::{ALPN, Identity, NAME};

/// The queue of datagrams to send, in bytes.
const SEND_QUEUE: usize = 2000;

/// Options of an endpoint. Everything else has its default value.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) identity: &'static Identity,
    pub(crate) alpn: &'static [u8],
    /// The name that a client expects in the certificate.
    pub(crate) name: &'static str,
    /// At a server: every client must prove its address first.
    pub(crate) retry: bool,
    pub(crate) idle: Option<Duration>,
    pub(crate) keep_alive: Option<Duration>,
    /// Packets are sealed with ChaCha20-Poly1305.
    pub(crate) chacha20: bool,
    pub(crate) early_data: bool,
    /// Unreliable datagrams are accepted. The queue of those to send has room for one or two, so
    /// that they don't wait there long while the window is full.
    pub(crate) datagrams: bool,
    /// At a server: the key of tokens and resets, for a server that shares another's.
    pub(crate) key: Option<EndpointKeys>,
}

/// The key of tokens and resets, in the form of either implementation.
#[derive(Clone)]
pub(crate) struct EndpointKeys {
    pub(crate) ours: SharedEndpointKey,
    pub(crate) quinn: Arc<dyn quinn::crypto::HmacKey>,
}

impl Options {
    /// Returns the usual options with a change.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            identity: Identity::trusted(),
            alpn: ALPN,
            name: NAME,
            retry: false,
            idle: Some(Duration::from_secs(30)),
            keep_alive: None,
            chacha20: false,
            early_data: false,
            datagrams: false,
            key: None,
        }
    }
}

impl Options {
    pub(crate) fn transport(&self) -> Arc<TransportConfig> {
        let algorithm = Algorithm::parse("cubic").unwrap();
        let mut config =
            TransportConfig::new(Arc::new(move |now, mtu| algorithm.controller(now, mtu)));
        config.max_idle_timeout = self.idle;
        config.keep_alive = self.keep_alive;
        config.datagrams.receive_bytes = if self.datagrams { 1 << 20 } else { 0 };
        config.datagrams.send_bytes = SEND_QUEUE;
        // The same limit as that of the other stack, although loopback interfaces carry more.
        config.max_mtu = Some(1472);
        Arc::new(config)
    }

    fn quinn_transport(&self) -> Arc<quinn::TransportConfig> {
        let mut config = quinn::TransportConfig::default();
        config.max_idle_timeout(self.idle.map(|idle| idle.try_into().unwrap()));
        config.keep_alive_interval(self.keep_alive);
        config.datagram_receive_buffer_size(self.datagrams.then_some(1 << 20));
        config.datagram_send_buffer_size(SEND_QUEUE);
        Arc::new(config)
    }

    pub(crate) fn our_server(&self) -> driver::ServerConfig {
        let tls = TlsServerConfig::new(
            self.identity.chain.clone(),
            self.identity.key(),
            &[self.alpn],
        );
        let tls = match self.early_data {
            true => tls.unwrap().with_early_data(256),
            false => tls.unwrap(),
        };
        let mut config = driver::ServerConfig::with_transport(Arc::new(tls), self.transport());
        if self.retry {
            config.retry(RetryPolicy::Always);
        }
        if let Some(keys) = &self.key {
            config.key(Arc::clone(&keys.ours));
        }
        config
    }

    pub(crate) fn our_client(&self) -> driver::ClientConfig {
        let tls = if self.chacha20 {
            TlsClientConfig::from_rustls(self.rustls_client()).unwrap()
        } else {
            let trust = Trust::Roots(Identity::trusted().roots());
            TlsClientConfig::new(trust, &[self.alpn]).unwrap()
        };
        let tls = match self.early_data {
            true => tls.with_early_data(),
            false => tls,
        };
        driver::ClientConfig::with_transport(Arc::new(tls), self.transport())
    }

    /// Returns rustls's configuration of a server with these options.
    pub(crate) fn rustls_server(&self) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.identity.chain.clone(), self.identity.key())
            .unwrap();
        tls.alpn_protocols = vec![self.alpn.to_vec()];
        tls.max_early_data_size = if self.early_data { u32::MAX } else { 0 };
        tls
    }

    pub(crate) fn quinn_server(&self) -> quinn::ServerConfig {
        let crypto = QuicServerConfig::try_from(self.rustls_server()).unwrap();
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(self.quinn_transport());
        config
    }

    /// Returns rustls's configuration of a client with these options.
    pub(crate) fn rustls_client(&self) -> rustls::ClientConfig {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if self.chacha20 {
            let only = rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
            provider.cipher_suites.retain(|suite| suite.suite() == only);
        }
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(Identity::trusted().roots())
            .with_no_client_auth();
        tls.alpn_protocols = vec![self.alpn.to_vec()];
        tls.enable_early_data = self.early_data;
        tls
    }

    pub(crate) fn quinn_client(&self) -> quinn::ClientConfig {
        // Initial packets are always sealed with AES-128.
        let initial = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let initial = initial
            .tls13()
            .and_then(|suite| suite.quic_suite())
            .unwrap();
        let tls = Arc::new(self.rustls_client());
        let crypto = QuicClientConfig::with_initial(tls, initial).unwrap();
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(self.quinn_transport());
        config
    }
}
