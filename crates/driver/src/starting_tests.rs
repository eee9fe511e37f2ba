//! Endpoints that are closed while a connection's TLS session is being created.
//!
//! The code that creates the session closes the endpoint itself, which takes the endpoint's lock.
//! Therefore these tests only end if the lock is free at that time.

use std::sync::{Arc, OnceLock};

use super::testing::*;
use super::*;
use pathmark_transport::endpoint::AcceptError;

fn closing<T>(tls: T) -> (Arc<Tampered<T>>, Arc<OnceLock<Endpoint>>) {
    let endpoint = Arc::new(OnceLock::<Endpoint>::new());
    let closed = Arc::clone(&endpoint);
    let close = move || {
        let endpoint = closed.get().unwrap();
        endpoint.close(7_u32.into(), b"closed meanwhile");
        None
    };
    (Tampered::new(tls, close), endpoint)
}

#[tokio::test]
async fn a_server_that_is_closed_while_a_session_starts_accepts_no_client() {
    let (crypto, closed) = closing(server_tls());
    let config = ServerConfig::with_transport(crypto, Arc::new(transport()));
    let server = Endpoint::server(config, loopback()).unwrap();
    closed.set(server.clone()).unwrap();
    let endpoint = endpoint();
    let connecting = connect(&endpoint, &server);
    let incoming = server.accept().await.unwrap();
    assert_eq!(incoming.accept().unwrap_err(), AcceptError::NoServer);
    server.wait_idle().await;
    assert!(server.accept().await.is_none());
    drop(connecting);
    endpoint.wait_idle().await;
}

#[tokio::test]
async fn a_client_that_is_closed_while_a_session_starts_does_not_connect() {
    let (crypto, closed) = closing(client_tls());
    let endpoint = endpoint();
    closed.set(endpoint.clone()).unwrap();
    let config = ClientConfig::with_transport(crypto, Arc::new(transport()));
    let unused = "127.0.0.1:9".parse().unwrap();
    let error = endpoint.connect_with(config, unused, NAME).unwrap_err();
    assert!(matches!(error, ConnectError::Closed), "{error}");
    endpoint.wait_idle().await;
}
