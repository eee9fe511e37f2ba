//! Endpoints that have met before request a starting rate before the handshake is complete, over
//! real sockets.

use std::sync::Arc;

use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

const ALPN: &[u8] = b"known-rate";

fn asked(connection: &Connection) -> u64 {
    let report = connection.path_report();
    report.controller.quick_start.unwrap().asked
}

/// Returns how many requests client and server had made in each of three connections. Each
/// connection only carries one byte, which is too little to cause any other request.
async fn meet(known_to_client: bool, early: bool) -> Vec<(u64, u64)> {
    let made = rcgen::generate_simple_self_signed(["known".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let mut client_tls = TlsClientConfig::new(Trust::Pin(tls.pin().unwrap()), &[ALPN]).unwrap();
    if early {
        tls = tls.with_early_data(100);
        client_tls = client_tls.with_early_data();
    }
    let unknown = pathmark::transport_config(&Algorithm::parse("auto").unwrap());
    let mut known = unknown.clone();
    known.known_rate = Some(1_000_000_000);
    let (at_client, at_server) = match known_to_client {
        true => (known, unknown),
        false => (unknown, known),
    };
    let loopback = "127.0.0.1:0".parse().unwrap();
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::new(at_server));
    let server = Endpoint::server(config, loopback).unwrap();
    let client = Endpoint::client(loopback).unwrap();
    let config = ClientConfig::with_transport(Arc::new(client_tls), Arc::new(at_client));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let address = server.local_address();
        let connecting = client
            .connect_with(config.clone(), address, "known")
            .unwrap();
        let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
        let (ours, theirs) = tokio::try_join!(connecting, accepting).unwrap();
        // This byte arrives after the token and the session.
        let mut stream = theirs.open_uni().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.finish().unwrap();
        let mut stream = ours.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(1).await.unwrap(), b"x");
        seen.push((asked(&ours), asked(&theirs)));
        ours.close(0_u32.into(), b"");
        theirs.closed().await;
    }
    seen
}

#[tokio::test]
async fn a_server_asks_for_a_client_that_brings_a_token() {
    assert_eq!(meet(false, false).await, [(0, 0), (0, 1), (0, 1)]);
}

#[tokio::test]
async fn a_client_asks_a_server_that_takes_early_data() {
    assert_eq!(meet(true, true).await, [(0, 0), (1, 0), (1, 0)]);
    assert_eq!(meet(true, false).await, [(0, 0); 3]);
}
