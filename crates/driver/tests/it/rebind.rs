//! Replacing an endpoint's socket or a server's configuration while connections are in use.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver::{
    ClientConfig, ConnectError, Connection, Endpoint, RecvStream, SendStream, ServerConfig,
};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, TlsServerConfig, Trust};

const ALPN: &[u8] = b"test";
/// Time limit for every test. On an idle machine, no test needs a tenth of this time.
const PATIENCE: Duration = Duration::from_secs(60);
const LENGTH: usize = 8 << 20;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn transport() -> TransportConfig {
    let algorithm = Algorithm::parse("cubic").unwrap();
    TransportConfig::new(Arc::new(move |now, mtu| algorithm.controller(now, mtu)))
}

/// Returns a server's configuration with its own certificate, and the pin for it.
fn server_config(transport: TransportConfig) -> (ServerConfig, Pin) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let pin = tls.pin().unwrap();
    (ServerConfig::new(Arc::new(tls), Arc::new(transport)), pin)
}

fn client_config(pin: Pin) -> ClientConfig {
    let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
    ClientConfig::new(Arc::new(tls), Arc::new(transport()))
}

async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, test).await.expect("in time")
}

/// A server and its clients' configuration.
struct Server {
    endpoint: Endpoint,
    client: ClientConfig,
}

impl Server {
    fn new(transport: TransportConfig) -> Self {
        let (config, pin) = server_config(transport);
        Self {
            endpoint: Endpoint::server(config, loopback()).unwrap(),
            client: client_config(pin),
        }
    }

    /// Returns both ends of a connection from `client` after its handshake is confirmed.
    async fn connect(&self, client: &Endpoint) -> (Connection, Connection) {
        let address = self.endpoint.local_address();
        let connecting = client.connect_with(self.client.clone(), address, "localhost");
        let ends = tokio::try_join!(connecting.unwrap(), self.accept()).unwrap();
        ends.0.confirmed().await.unwrap();
        ends
    }

    async fn accept(&self) -> Result<Connection, ConnectionError> {
        let incoming = self.endpoint.accept().await.unwrap();
        incoming.accept().unwrap().await
    }
}

async fn write(mut stream: SendStream, length: usize, seed: u8) {
    let piece: Vec<u8> = (0..64 * 1024).map(|i| (i / 7) as u8 ^ seed).collect();
    let mut left = length;
    while left > 0 {
        let part = left.min(piece.len());
        stream.write_all(&piece[..part]).await.unwrap();
        left -= part;
    }
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await, Ok(None));
}

/// Reads to the end, and calls `at_quarter` once a quarter has arrived.
async fn read(mut stream: RecvStream, length: usize, seed: u8, at_quarter: impl FnOnce()) {
    let (mut at, mut at_quarter) = (0, Some(at_quarter));
    while let Some(chunk) = stream.read_chunk().await.unwrap() {
        for byte in &chunk[..] {
            assert!(*byte == (at % (64 * 1024) / 7) as u8 ^ seed, "at {at}");
            at += 1;
        }
        if at >= length / 4
            && let Some(at_quarter) = at_quarter.take()
        {
            at_quarter();
        }
    }
    assert_eq!(at, length);
}

/// Sends from `from` to `to`, and calls `at_quarter` once a quarter has arrived.
async fn transfer(from: &Connection, to: &Connection, seed: u8, at_quarter: impl FnOnce()) {
    let sending = async { write(from.open_uni().await.unwrap(), LENGTH, seed).await };
    let receiving = async {
        let stream = to.accept_uni().await.unwrap();
        read(stream, LENGTH, seed, at_quarter).await;
    };
    tokio::join!(sending, receiving);
}

/// Polls a condition that has no event. The test's time limit applies.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn socket() -> UdpSocket {
    UdpSocket::bind(loopback()).unwrap()
}

#[tokio::test]
async fn a_transfer_goes_on_at_another_socket_in_either_direction() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        for round in 0..4 {
            let (from, to) = if round % 2 == 0 {
                (&ours, &theirs)
            } else {
                (&theirs, &ours)
            };
            transfer(from, to, round, || client.rebind(socket()).unwrap()).await;
            let now = client.local_address();
            until(|| theirs.remote_address() == now).await;
            until(|| ours.stats().migrations > u64::from(round)).await;
        }
        assert!(ours.path_report().validated);
        assert_eq!(ours.stats().migrations, 4);
    })
    .await;
}

/// Three connections to two servers move, and one connection is dropped when the socket changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_of_an_endpoint_move_and_one_may_be_dropped() {
    bounded(async {
        let servers = [Server::new(transport()), Server::new(transport())];
        let client = Endpoint::client(loopback()).unwrap();
        let first = servers[0].connect(&client).await;
        let second = servers[1].connect(&client).await;
        let (given_up, other_end) = servers[1].connect(&client).await;
        let change = || {
            client.rebind(socket()).unwrap();
            drop(given_up);
        };
        tokio::join!(
            transfer(&first.0, &first.1, 1, change),
            transfer(&second.1, &second.0, 2, || ()),
        );
        let now = client.local_address();
        for (_, theirs) in [&first, &second] {
            until(|| theirs.remote_address() == now).await;
        }
        other_end.closed().await;
    })
    .await;
}

/// A handshake that started at the former socket is completed there, and the connection moves
/// afterwards.
#[tokio::test]
async fn a_handshake_under_way_is_completed_and_moves_afterwards() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let address = server.endpoint.local_address();
        let connecting = client.connect_with(server.client.clone(), address, "localhost");
        // Nothing has been sent yet, because the endpoint's tasks haven't run.
        client.rebind(socket()).unwrap();
        let (ours, theirs) = tokio::try_join!(connecting.unwrap(), server.accept()).unwrap();
        transfer(&ours, &theirs, 3, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
        until(|| ours.stats().migrations == 1).await;
    })
    .await;
}

/// RFC 9000 §18.2: the client of such a server must not use another address.
#[tokio::test]
async fn a_server_that_forbids_to_move_is_obeyed() {
    bounded(async {
        let mut config = transport();
        config.migration = false;
        let server = Server::new(config);
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let before = client.local_address();
        assert!(!ours.migrate(None));
        transfer(&ours, &theirs, 1, || client.rebind(socket()).unwrap()).await;
        transfer(&theirs, &ours, 2, || ()).await;
        assert_eq!(theirs.remote_address(), before);
        assert_eq!(ours.stats().migrations, 0);
        // A connection that starts now uses the new socket.
        let (_second, theirs) = server.connect(&client).await;
        assert_eq!(theirs.remote_address(), client.local_address());
        assert_ne!(client.local_address(), before);
    })
    .await;
}

#[tokio::test]
async fn accepted_connections_stay_and_new_ones_come_to_the_new_socket() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let former = server.endpoint.local_address();
        server.endpoint.rebind(socket()).unwrap();
        assert_ne!(server.endpoint.local_address(), former);
        transfer(&ours, &theirs, 1, || ()).await;
        transfer(&theirs, &ours, 2, || ()).await;
        assert_eq!(ours.remote_address(), former);
        let (ours, theirs) = server.connect(&client).await;
        transfer(&theirs, &ours, 3, || ()).await;
        assert_eq!(ours.remote_address(), server.endpoint.local_address());
    })
    .await;
}

/// Once no connection uses the socket any more, its port is free for others.
#[tokio::test]
async fn a_former_socket_is_let_go() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let former = client.local_address();
        for _ in 0..20 {
            client.rebind(socket()).unwrap();
        }
        transfer(&ours, &theirs, 1, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
        until(|| UdpSocket::bind(former).is_ok()).await;
        transfer(&theirs, &ours, 2, || ()).await;
        drop((ours, theirs));
        client.wait_idle().await;
    })
    .await;
}

/// A socket that can't reach the server is only used for other servers.
#[tokio::test]
async fn a_socket_of_the_other_ip_version_takes_no_connection_along() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let before = client.local_address();
        let other = UdpSocket::bind("[::1]:0").unwrap();
        transfer(&ours, &theirs, 1, || client.rebind(other).unwrap()).await;
        assert_eq!(theirs.remote_address(), before);
        client.rebind(socket()).unwrap();
        transfer(&ours, &theirs, 2, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
    })
    .await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_moves_to_another_address_of_this_host() {
    bounded(async {
        let server = Server::new(transport());
        let client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let port = client.local_address().port();
        let expected: SocketAddr = ([127, 0, 0, 2], port).into();
        transfer(&ours, &theirs, 1, || {
            assert!(ours.migrate(Some(expected.ip())));
        })
        .await;
        until(|| theirs.remote_address() == expected).await;
        // The address doesn't belong to this host, so the transfer continues from one that does.
        transfer(&ours, &theirs, 2, || {
            assert!(ours.migrate(Some([192, 0, 2, 77].into())));
        })
        .await;
        assert!(theirs.remote_address().ip().is_loopback());
        until(|| ours.stats().migrations >= 2).await;
    })
    .await;
}

/// After a certificate is replaced, existing connections continue. Clients that trust the new one
/// can connect, but those that pin the old one can't.
#[tokio::test]
async fn a_server_changes_its_certificate_while_it_runs() {
    bounded(async {
        let mut server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let old = server.client.clone();
        // A connection that waits to be accepted also gets the new configuration.
        let address = server.endpoint.local_address();
        let waiting = tokio::spawn(
            client
                .connect_with(old.clone(), address, "localhost")
                .unwrap(),
        );
        let incoming = server.endpoint.accept().await.unwrap();
        let (config, pin) = server_config(transport());
        server.endpoint.set_server_config(config).unwrap();
        let accepted = incoming.accept().unwrap();
        let (refused, failed) = tokio::join!(waiting, accepted);
        refused.unwrap().unwrap_err();
        failed.unwrap_err();

        server.client = client_config(pin);
        let (new_ours, new_theirs) = server.connect(&client).await;
        tokio::join!(
            transfer(&ours, &theirs, 1, || ()),
            transfer(&new_ours, &new_theirs, 2, || ()),
        );
        assert_ne!(ours.peer_certificates(), new_ours.peer_certificates());

        let connecting = client.connect_with(old, address, "localhost").unwrap();
        let accepting = async {
            server
                .endpoint
                .accept()
                .await
                .unwrap()
                .accept()
                .unwrap()
                .await
        };
        let (refused, _) = tokio::join!(connecting, accepting);
        refused.unwrap_err();

        server.endpoint.close(0, b"");
        let (config, _) = server_config(transport());
        let late = server.endpoint.set_server_config(config);
        assert_eq!(late, Err(ConnectError::Closed));
    })
    .await;
}

/// An endpoint that could only connect accepts connections once it has a server configuration.
#[tokio::test]
async fn a_client_becomes_a_server() {
    bounded(async {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let (config, pin) = server_config(transport());
        endpoint.set_server_config(config).unwrap();
        let server = Server {
            endpoint,
            client: client_config(pin),
        };
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        transfer(&theirs, &ours, 1, || ()).await;
    })
    .await;
}
