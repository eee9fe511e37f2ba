//! A common interface to the stacks: a server that accepts, and a client that connects to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pathmark_cc::Algorithm;
use pathmark_driver as driver;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use crate::tls::{Configs, NAME};

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A server and its client in this thread.
pub(crate) trait Stack: 'static {
    async fn start(tls: Configs) -> Self;

    /// Opens a connection, waits until it is ready, and closes it.
    async fn handshake(&self);

    /// Returns how many connections have become ready at the server.
    fn accepted(&self) -> u64;
}

#[derive(Clone, Debug, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Ours {
    client: driver::Endpoint,
    config: driver::ClientConfig,
    server: SocketAddr,
    accepted: Count,
}

impl Stack for Ours {
    async fn start(tls: Configs) -> Self {
        let algorithm = Algorithm::parse("cubic").expect("known");
        let transport = Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
            algorithm.controller(now, mtu)
        })));
        let crypto = TlsServerConfig::from_rustls(tls.server).expect("usable");
        let config = driver::ServerConfig::with_transport(Arc::new(crypto), Arc::clone(&transport));
        let server = driver::Endpoint::server(config, loopback()).expect("a socket");
        let address = server.local_address();
        let accepted = Count::default();
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                let Ok(connecting) = incoming.accept() else {
                    continue;
                };
                let count = count.clone();
                tokio::spawn(async move {
                    if let Ok(connection) = connecting.await {
                        count.add();
                        connection.closed().await;
                    }
                });
            }
        });
        let crypto = TlsClientConfig::from_rustls(tls.client).expect("usable");
        Self {
            client: driver::Endpoint::client(loopback()).expect("a socket"),
            config: driver::ClientConfig::with_transport(Arc::new(crypto), transport),
            server: address,
            accepted,
        }
    }

    async fn handshake(&self) {
        let config = self.config.clone();
        let connecting = self.client.connect_with(config, self.server, NAME);
        let connection = connecting.expect("it began").await.expect("it is ready");
        connection.close(0_u32.into(), b"");
    }

    fn accepted(&self) -> u64 {
        self.accepted.get()
    }
}

pub(crate) struct S2n {
    client: s2n_quic::Client,
    server: SocketAddr,
    accepted: Count,
}

impl Stack for S2n {
    async fn start(tls: Configs) -> Self {
        use s2n_quic::provider::tls::rustls::{Client, Server};
        let mut server = s2n_quic::Server::builder()
            .with_tls(Server::from(tls.server))
            .expect("usable")
            .with_io(loopback())
            .expect("an address")
            .start()
            .expect("a socket");
        let address = server.local_addr().expect("bound");
        let accepted = Count::default();
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Some(mut connection) = server.accept().await {
                count.add();
                tokio::spawn(async move {
                    // This waits for the end of the connection.
                    let _ = connection.accept_bidirectional_stream().await;
                });
            }
        });
        let client = s2n_quic::Client::builder()
            .with_tls(Client::from(tls.client))
            .expect("usable")
            .with_io(loopback())
            .expect("an address")
            .start()
            .expect("a socket");
        Self {
            client,
            server: address,
            accepted,
        }
    }

    async fn handshake(&self) {
        let connect = s2n_quic::client::Connect::new(self.server).with_server_name(NAME);
        let connection = self.client.connect(connect).await.expect("it is ready");
        connection.close(0u32.into());
    }

    fn accepted(&self) -> u64 {
        self.accepted.get()
    }
}

pub(crate) struct Quinn {
    client: quinn::Endpoint,
    server: SocketAddr,
    accepted: Count,
}

impl Stack for Quinn {
    async fn start(tls: Configs) -> Self {
        let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let initial = suite
            .tls13()
            .and_then(|suite| suite.quic_suite())
            .expect("it has one");
        let crypto = QuicServerConfig::with_initial(Arc::new(tls.server), initial);
        let config = quinn::ServerConfig::with_crypto(Arc::new(crypto.expect("usable")));
        let server = quinn::Endpoint::server(config, loopback()).expect("a socket");
        let address = server.local_addr().expect("bound");
        let accepted = Count::default();
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                let count = count.clone();
                tokio::spawn(async move {
                    if let Ok(connection) = incoming.await {
                        count.add();
                        connection.closed().await;
                    }
                });
            }
        });
        let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let initial = suite
            .tls13()
            .and_then(|suite| suite.quic_suite())
            .expect("it has one");
        let crypto = QuicClientConfig::with_initial(Arc::new(tls.client), initial);
        let mut client = quinn::Endpoint::client(loopback()).expect("a socket");
        client
            .set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto.expect("usable"))));
        Self {
            client,
            server: address,
            accepted,
        }
    }

    async fn handshake(&self) {
        let connecting = self.client.connect(self.server, NAME).expect("it began");
        let connection = connecting.await.expect("it is ready");
        connection.close(0u32.into(), b"");
    }

    fn accepted(&self) -> u64 {
        self.accepted.get()
    }
}
