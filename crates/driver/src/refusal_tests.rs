//! Servers that are not there: closed ports, no route, and reports of that which are not true.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::{Controller, NewReno};
use pathmark_testbed::Testbed;

use super::*;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::{Instant, TransportConfig};

const FORBIDDEN: &str = "this test needs user namespaces; allow them, or run as root";
const ALPN: &[u8] = b"refusals";

fn transport() -> Arc<TransportConfig> {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    Arc::new(TransportConfig::new(Arc::new(factory)))
}

fn client() -> ClientConfig {
    let crypto = testing::client(&[ALPN]);
    ClientConfig::new(Arc::new(crypto), transport())
}

/// A server that takes all who come, and holds them.
fn server(socket: UdpSocket) -> Endpoint {
    let crypto = Arc::new(testing::server(&[ALPN]));
    let server = Endpoint::new(socket, Some(ServerConfig::new(crypto, transport()))).unwrap();
    let serving = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = serving.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                if let Ok(connection) = connecting.await {
                    connection.closed().await;
                }
            });
        }
    });
    server
}

/// A port of this host that no socket has: of an address of the same family as `at`.
fn closed_port(at: &str) -> SocketAddr {
    UdpSocket::bind(at).unwrap().local_addr().unwrap()
}

/// Why there is no connection. Far less than the 30 s of the handshake.
async fn why(endpoint: &Endpoint, to: SocketAddr) -> ConnectionError {
    let connecting = endpoint.connect_with(client(), to, "server").unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(2), connecting).await;
    let ended = ended.unwrap_or_else(|_| panic!("{to}: no end within 2 s"));
    ended.expect_err("there is no server")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_port_ends_an_attempt_at_once() {
    let refused = ConnectionError::Unreachable(std::io::ErrorKind::ConnectionRefused);
    for (from, at) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        // A socket for both versions.
        ("[::]:0", "127.0.0.1:0"),
        ("[::]:0", "[::1]:0"),
    ] {
        let endpoint = Endpoint::client(from.parse().unwrap()).unwrap();
        assert_eq!(
            why(&endpoint, closed_port(at)).await,
            refused,
            "{from} {at}"
        );
    }
}

/// Many attempts at one socket: those that are refused end, one to a silent port goes on, and
/// connections that are established stay, also as the port that they lead to is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_ends_the_attempts_that_it_is_about_and_no_others() {
    // [9000 14.2.1 icmp-validated]
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let there = server(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = there.local_address();
    let connection = endpoint.connect_with(client(), address, "server").unwrap();
    let connection = connection.await.unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let waits = endpoint
        .connect_with(client(), silent.local_addr().unwrap(), "server")
        .unwrap();
    tokio::pin!(waits);
    let refused = ConnectionError::Unreachable(std::io::ErrorKind::ConnectionRefused);
    for _ in 0..20 {
        assert_eq!(why(&endpoint, closed_port("127.0.0.1:0")).await, refused);
        let another = endpoint.connect_with(client(), address, "server").unwrap();
        another.await.unwrap();
    }
    let silence = tokio::time::timeout(Duration::from_millis(10), &mut waits).await;
    assert!(silence.is_err(), "a silent port refuses nothing");
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(b"it goes on").await.unwrap();
    stream.finish().unwrap();
}

/// An ICMP message (RFC 792, type 3 code 3) that quotes a datagram from `ours` to `theirs`.
fn port_unreachable(ours: SocketAddr, theirs: SocketAddr) -> Vec<u8> {
    let octets = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => v4.ip().octets(),
        SocketAddr::V6(_) => panic!("IPv4 only"),
    };
    let mut bytes = vec![3, 3, 0, 0, 0, 0, 0, 0];
    // IPv4 header, then UDP header and 8 bytes.
    bytes.extend([0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend(octets(ours));
    bytes.extend(octets(theirs));
    bytes.extend(ours.port().to_be_bytes());
    bytes.extend(theirs.port().to_be_bytes());
    bytes.extend([0, 16, 0, 0, 0xc0, 0, 0, 0, 1, 8, 0, 0]);
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !(((folded & 0xffff) + (folded >> 16)) as u16);
    bytes[2..4].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// The same message ends an attempt that has no answer yet, and no established connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_icmp_ends_no_established_connection() {
    // [9000 14.2.1 icmp-validated]
    let bed = Testbed::new().expect(FORBIDDEN);
    let node = bed.node("a").unwrap();
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let socket = || node.udp(at(0)).unwrap();
    let raw = node.socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
    // It sends as a UDP socket does.
    let raw = UdpSocket::from(raw.unwrap());
    let (there, ours) = (server(socket()), socket());
    let local = ours.local_addr().unwrap();
    let endpoint = Endpoint::new(ours, None).unwrap();
    let forge = |to: SocketAddr| {
        for _ in 0..50 {
            raw.send_to(&port_unreachable(local, to), at(0)).unwrap();
        }
    };
    let connecting = endpoint.connect_with(client(), there.local_address(), "server");
    let connection = connecting.unwrap().await.unwrap();

    let silent = socket();
    let silent = silent.local_addr().unwrap();
    let waits = endpoint.connect_with(client(), silent, "server").unwrap();
    // The queue is on meanwhile, and has these reports in it too.
    forge(there.local_address());
    forge(silent);
    let ended = tokio::time::timeout(Duration::from_secs(2), waits).await;
    let refused = ConnectionError::Unreachable(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(ended.expect("the report counts").unwrap_err(), refused);

    forge(there.local_address());
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&[7; 10_000]).await.unwrap();
    stream.finish().unwrap();
    assert!(connection.close_reason().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_kernel_does_not_send_ends_an_attempt_at_once() {
    let bed = Testbed::new().expect(FORBIDDEN);
    // With a loopback interface and no route.
    let node = bed.node("a").unwrap();
    for (from, to) in [
        ("0.0.0.0:0", "192.0.2.1:4433"),
        ("[::]:0", "[2001:db8::1]:4433"),
        ("[::]:0", "192.0.2.1:4433"),
    ] {
        let socket = node.udp(from.parse().unwrap()).unwrap();
        let endpoint = Endpoint::new(socket, None).unwrap();
        let error = why(&endpoint, to.parse().unwrap()).await;
        let no_route = ConnectionError::Socket(std::io::ErrorKind::NetworkUnreachable);
        assert_eq!(error, no_route, "{to}");
    }
}
