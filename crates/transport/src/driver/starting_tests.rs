//! Endpoints that are closed while a connection's TLS session is made.
//!
//! The session's maker closes the endpoint itself, which needs the endpoint's lock: these tests end
//! only if it is not held meanwhile.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use super::sending_tests::{client, transport};
use super::*;
use crate::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust, testing};
use crate::crypto::{
    ClientCrypto, InitialCrypto, Keys, RETRY_TAG_LEN, ServerCrypto, Session, Side, StartError,
};
use crate::endpoint::AcceptError;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// TLS whose sessions are made once the endpoint is closed.
#[derive(Debug)]
struct Closing<T> {
    tls: T,
    endpoint: OnceLock<Endpoint>,
}

impl<T> Closing<T> {
    fn new(tls: T) -> Arc<Self> {
        Arc::new(Self {
            tls,
            endpoint: OnceLock::new(),
        })
    }

    fn close(&self) {
        self.endpoint.get().unwrap().close(7, b"closed meanwhile");
    }
}

impl<T: InitialCrypto> InitialCrypto for Closing<T> {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        self.tls.initial_keys(client_dcid, side)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.tls.retry_tag(original_dcid, packet)
    }
}

impl ServerCrypto for Closing<TlsServerConfig> {
    fn start(&self, parameters: Vec<u8>, seed: u64) -> Result<Box<dyn Session>, StartError> {
        self.close();
        ServerCrypto::start(&self.tls, parameters, seed)
    }
}

impl ClientCrypto for Closing<TlsClientConfig> {
    fn start(
        &self,
        name: &str,
        parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError> {
        self.close();
        ClientCrypto::start(&self.tls, name, parameters, seed)
    }
}

#[tokio::test]
async fn a_server_that_is_closed_while_a_session_starts_accepts_no_client() {
    let crypto = Closing::new(testing::server("server", &[b"test"]));
    let config = ServerConfig::new(
        Arc::clone(&crypto) as Arc<dyn ServerCrypto>,
        Arc::new(transport()),
    );
    let server = Endpoint::server(config, loopback()).unwrap();
    crypto.endpoint.set(server.clone()).unwrap();
    let endpoint = Endpoint::client(loopback()).unwrap();
    let address = server.local_address();
    let connecting = endpoint.connect_with(client(transport()), address, "server.test");
    let connecting = connecting.unwrap();
    let incoming = server.accept().await.unwrap();
    assert_eq!(incoming.accept().unwrap_err(), AcceptError::NoServer);
    server.wait_idle().await;
    assert!(server.accept().await.is_none());
    drop(connecting);
    endpoint.wait_idle().await;
}

#[tokio::test]
async fn a_client_that_is_closed_while_a_session_starts_does_not_connect() {
    let crypto = Closing::new(testing::client(Trust::Anyone, &[b"test"]));
    let endpoint = Endpoint::client(loopback()).unwrap();
    crypto.endpoint.set(endpoint.clone()).unwrap();
    let config = ClientConfig::new(
        Arc::clone(&crypto) as Arc<dyn ClientCrypto>,
        Arc::new(transport()),
    );
    let unused = "127.0.0.1:9".parse().unwrap();
    let error = endpoint
        .connect_with(config, unused, "server.test")
        .unwrap_err();
    assert!(matches!(error, ConnectError::Closed), "{error}");
    endpoint.wait_idle().await;
}
