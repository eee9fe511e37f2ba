//! The driver over real sockets on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ReadError, ServerConfig, WriteError};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::path::EcnState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ALPN: &[u8] = b"test";

fn transport() -> Arc<TransportConfig> {
    let algorithm = Algorithm::parse("cubic").unwrap();
    Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
        algorithm.controller(now, mtu)
    })))
}

fn configs() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let client = TlsClientConfig::new(Trust::Pin(server.pin().unwrap()), &[ALPN]).unwrap();
    (
        ServerConfig::new(Arc::new(server), transport()),
        ClientConfig::new(Arc::new(client), transport()),
    )
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns two connected ends with their endpoints.
async fn pair() -> ((Endpoint, Connection), (Endpoint, Connection)) {
    let (server_config, client_config) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client
        .connect_with(client_config, server.local_address(), "localhost")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (ours, theirs) = tokio::join!(connecting, accepting);
    ((client, ours.unwrap()), (server, theirs.unwrap()))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

#[tokio::test]
async fn bytes_arrive_whole_in_both_directions() {
    let ((_client, ours), (_server, theirs)) = pair().await;
    let sent = pattern(8 << 20);
    let echo = async {
        let (mut send, mut recv) = theirs.accept_bi().await.unwrap();
        while let Some(chunk) = recv.read_chunk().await.unwrap() {
            send.write_chunk(chunk).await.unwrap();
        }
        send.finish().unwrap();
        assert_eq!(send.stopped().await, Ok(None));
    };
    let talk = async {
        let (mut send, mut recv) = ours.open_bi().await.unwrap();
        let write = async {
            send.write_all(&sent).await.unwrap();
            send.shutdown().await.unwrap();
        };
        let mut back = Vec::new();
        let read = async {
            AsyncReadExt::read_to_end(&mut recv, &mut back)
                .await
                .unwrap();
        };
        tokio::join!(write, read);
        back
    };
    let ((), back) = tokio::join!(echo, talk);
    assert!(back == sent);
}

#[tokio::test]
async fn resets_and_stops_carry_their_codes() {
    let ((_client, ours), (_server, theirs)) = pair().await;
    let mut send = ours.open_uni().await.unwrap();
    send.write_all(b"begun").await.unwrap();
    let mut recv = theirs.accept_uni().await.unwrap();
    let mut five = [0; 5];
    recv.read_exact(&mut five).await.unwrap();
    send.reset(7).unwrap();
    assert_eq!(recv.read_chunk().await, Err(ReadError::Reset(7)));

    let mut send = ours.open_uni().await.unwrap();
    send.write_all(b"begun").await.unwrap();
    let mut recv = theirs.accept_uni().await.unwrap();
    recv.stop(9).unwrap();
    assert_eq!(send.stopped().await, Ok(Some(9)));
    assert_eq!(send.write(b"more").await, Err(WriteError::Stopped(9)));
}

#[tokio::test]
async fn closing_tells_the_peer_why() {
    let ((client, ours), (_server, theirs)) = pair().await;
    let mut send = ours.open_uni().await.unwrap();
    send.write_all(b"begun").await.unwrap();
    let mut recv = theirs.accept_uni().await.unwrap();
    ours.close(42, b"enough");
    let expected = ConnectionError::PeerApplication {
        code: 42,
        reason: Bytes::from_static(b"enough"),
    };
    assert_eq!(theirs.closed().await, expected);
    assert_eq!(ours.closed().await, ConnectionError::LocallyClosed);
    while let Ok(Some(_)) = recv.read_chunk().await {}
    assert!(matches!(
        send.write(b"more").await,
        Err(WriteError::ConnectionLost(ConnectionError::LocallyClosed))
    ));
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, client.wait_idle())
        .await
        .unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let ((_client, ours), (_server, theirs)) = pair().await;
    let clone = ours.clone();
    drop(ours);
    assert_eq!(clone.close_reason(), None);
    drop(clone);
    assert!(matches!(
        theirs.closed().await,
        ConnectionError::PeerApplication { code: 0, .. }
    ));
}

#[tokio::test]
async fn one_endpoint_serves_many_connections_and_streams() {
    let (server_config, client_config) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let address = server.local_address();
    let serving = tokio::spawn(async move {
        let mut connections = Vec::new();
        for _ in 0..20 {
            let connection = server
                .accept()
                .await
                .unwrap()
                .accept()
                .unwrap()
                .await
                .unwrap();
            connections.push(tokio::spawn(async move {
                let mut sum = 0;
                while let Ok(mut recv) = connection.accept_uni().await {
                    sum += recv.read_to_end(1 << 20).await.unwrap().len();
                }
                sum
            }));
        }
        let mut sums = Vec::new();
        for connection in connections {
            sums.push(connection.await.unwrap());
        }
        sums
    });
    let client = Endpoint::client(loopback()).unwrap();
    let mut connections = Vec::new();
    for _ in 0..20 {
        let connecting = client
            .connect_with(client_config.clone(), address, "localhost")
            .unwrap();
        connections.push(connecting.await.unwrap());
    }
    for connection in &connections {
        let streams = (0..150).map(|i| async move {
            let mut send = connection.open_uni().await.unwrap();
            send.write_all(&vec![7; i]).await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        });
        for stream in streams {
            stream.await;
        }
    }
    drop(connections);
    let sums = serving.await.unwrap();
    assert_eq!(sums, vec![149 * 150 / 2; 20]);
}

/// Starts `count` connections on a new endpoint before any has sent a packet, drops every tenth
/// connection, and uses the others.
async fn begun_at_once(count: usize) {
    let (server_config, client_config) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let address = server.local_address();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                // The client may have dropped it.
                let Ok(connection) = connecting.await else {
                    return;
                };
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    let all = recv.read_to_end(1 << 20).await.unwrap();
                    send.write_all(&all).await.unwrap();
                }
            });
        }
    });
    let client = Endpoint::client(loopback()).unwrap();
    let mut connecting: Vec<_> = (0..count)
        .map(|_| {
            let config = client_config.clone();
            client.connect_with(config, address, "localhost").unwrap()
        })
        .collect();
    let mut at = 0;
    connecting.retain(|_| {
        at += 1;
        at % 10 != 0
    });
    let using: Vec<_> = connecting
        .into_iter()
        .map(|connecting| {
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(&[7; 30_000]).await.unwrap();
                send.finish().unwrap();
                recv.read_to_end(1 << 20).await.unwrap().len()
            })
        })
        .collect();
    for task in using {
        let limit = Duration::from_secs(20);
        let length = tokio::time::timeout(limit, task).await.unwrap().unwrap();
        assert_eq!(length, 30_000);
    }
}

#[tokio::test]
async fn two_connections_begun_at_once_both_come_about() {
    begun_at_once(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_begun_at_once_all_come_about() {
    begun_at_once(64).await;
}

/// Segmentation offload keeps these datagrams coalesced all the way to the receiver.
#[tokio::test]
async fn ecn_holds_with_coalesced_datagrams() {
    let ((client, ours), (server, theirs)) = pair().await;
    let mut send = ours.open_uni().await.unwrap();
    let writing = async {
        send.write_all(&pattern(4 << 20)).await.unwrap();
        send.finish().unwrap();
    };
    let reading = async {
        let mut recv = theirs.accept_uni().await.unwrap();
        recv.read_to_end(8 << 20).await.unwrap().len()
    };
    let ((), length) = tokio::join!(writing, reading);
    assert_eq!(length, 4 << 20);
    assert_eq!(ours.path_report().ecn, EcnState::Capable);
    assert_eq!((client.stats().cut_off, server.stats().cut_off), (0, 0));
}

/// A connected socket reports ICMP errors, which only concern a single datagram.
#[tokio::test]
async fn an_endpoint_outlives_what_icmp_says() {
    let (server_config, client_config) = configs();
    // A port below those that the kernel assigns, so that no other test gets it meanwhile.
    let free = |port: &u16| std::net::UdpSocket::bind((loopback().ip(), *port)).is_ok();
    let address = SocketAddr::new(loopback().ip(), (20_000..30_000).find(free).unwrap());
    let socket = std::net::UdpSocket::bind(loopback()).unwrap();
    socket.connect(address).unwrap();
    // The port is unused, so the next call at this socket returns the error.
    socket.send(b"?").unwrap();
    let client = Endpoint::new(socket, None).unwrap();
    // When the runtime asks the kernel which sockets are ready, the endpoint's was due first.
    let other = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let own = other.local_addr().unwrap();
    other.send_to(b"!", own).await.unwrap();
    other.recv(&mut [0]).await.unwrap();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let server = Endpoint::server(server_config, address).unwrap();
    let connecting = client
        .connect_with(client_config, address, "localhost")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let both = async { tokio::join!(connecting, accepting) };
    let limit = Duration::from_secs(10);
    let (ours, theirs) = tokio::time::timeout(limit, both).await.unwrap();
    assert!(ours.is_ok() && theirs.is_ok());
}

#[tokio::test]
async fn a_server_that_refuses_is_heard() {
    let (server_config, client_config) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client
        .connect_with(client_config, server.local_address(), "localhost")
        .unwrap();
    let refusing = async { server.accept().await.unwrap().refuse() };
    let (result, ()) = tokio::join!(connecting, refusing);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("CONNECTION_REFUSED"), "{error}");
}

#[tokio::test]
async fn the_wrong_certificate_is_not_believed() {
    let (server_config, _) = configs();
    let (_, other_client) = configs();
    let server = Endpoint::server(server_config, loopback()).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client
        .connect_with(other_client, server.local_address(), "localhost")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (ours, theirs) = tokio::join!(connecting, accepting);
    let error = ours.unwrap_err().to_string();
    assert!(
        error.contains("SHA-256") || error.contains("pin"),
        "{error}"
    );
    assert!(theirs.is_err());
}
