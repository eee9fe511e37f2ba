//! Connections need no descriptors, as shown with a lowered limit of the process.
#![cfg(unix)]

use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_testbed::own_process;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use tokio::runtime::Runtime;

/// Number of connections, both of whose ends are in this process.
const CONNECTIONS: usize = 300;
/// Number of descriptors that the process may have.
const DESCRIPTORS: u64 = 64;

/// Sends `length` bytes, and returns how many were sent back.
async fn echo(connection: &Connection, length: usize) -> usize {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&vec![7; length]).await.unwrap();
    send.finish().unwrap();
    recv.read_to_end(1 << 20).await.unwrap().len()
}

#[test]
fn connections_take_no_descriptors() {
    own_process("descriptors::connections_take_no_descriptors", || {
        Runtime::new().unwrap().block_on(many_connections());
    });
}

async fn many_connections() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, most).unwrap();

    let algorithm = Algorithm::parse("cubic").unwrap();
    let transport = Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
        algorithm.controller(now, mtu)
    })));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[b"test"]).unwrap();
    let client_tls = TlsClientConfig::new(Trust::Pin(tls.pin().unwrap()), &[b"test"]).unwrap();
    let client_config = ClientConfig::new(Arc::new(client_tls), Arc::clone(&transport));
    let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::server(ServerConfig::new(Arc::new(tls), transport), loopback).unwrap();
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    let all = recv.read_to_end(1 << 20).await.unwrap();
                    send.write_all(&all).await.unwrap();
                }
            });
        }
    });

    let client = Endpoint::client(loopback).unwrap();
    let all = async {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let config = client_config.clone();
            let connecting = client.connect_with(config, address, "localhost").unwrap();
            connections.push(connecting.await.unwrap());
        }
        // Enough data for its packets to be paced, so that each connection waits for its timer
        // repeatedly.
        let using: Vec<_> = connections
            .iter()
            .map(|connection| {
                let connection = connection.clone();
                tokio::spawn(async move { echo(&connection, 50_000).await })
            })
            .collect();
        for task in using {
            assert_eq!(task.await.unwrap(), 50_000);
        }
        // With all connections open, the process can still open other files.
        let files: Vec<_> = (0..DESCRIPTORS / 2)
            .map(|_| std::net::UdpSocket::bind(loopback).unwrap())
            .collect();
        assert_eq!((client.connections(), files.len()), (CONNECTIONS, 32));
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, all).await.unwrap();
}
