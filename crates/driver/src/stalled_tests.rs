//! Connections whose socket has no room, whose runtime ends, or whose task panics.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::{Acked, Controller, Lost, Metrics, PacketState, Phase, Sent};
use pathmark_testbed::Testbed;
use tokio::runtime::Runtime;

use super::sending_tests::{client, transport};
use super::*;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::{Instant, TransportConfig};

const FORBIDDEN: &str = "this test needs user namespaces; allow them, or run as root";

/// Returns a server that accepts all clients and keeps their connections.
fn server() -> Endpoint {
    let crypto = Arc::new(testing::server(&[b"test"]));
    let config = ServerConfig::new(crypto, Arc::new(transport()));
    let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let accepting = server.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(incoming) = accepting.accept().await {
            kept.extend(incoming.accept().unwrap().await.ok());
        }
    });
    server
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    match tokio::time::timeout(limit, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what} does not resolve"),
    }
}

/// Sends to an address without a host until the kernel has no room.
fn fill(socket: &UdpSocket, to: SocketAddr) {
    for _ in 0..1_000_000 {
        match socket.send_to(&[0; 1200], to) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("there is always room");
}

/// On an interface that hardly sends, waiting packets fill the socket, which stays full. Handshakes
/// still end in time, and abandoned connections are removed.
#[tokio::test]
async fn deadlines_hold_where_nothing_leaves() {
    let bed = Testbed::new().expect(FORBIDDEN);
    let [host, other] = ["host", "other"].map(|name| bed.node(name).unwrap());
    bed.veth((&host, "eth0"), (&other, "eth0"), 1500).unwrap();
    for (node, address) in [(&host, "10.0.0.1/24"), (&other, "10.0.0.2/24")] {
        node.add_address("eth0", address.parse().unwrap()).unwrap();
    }
    let mut slow = Command::new("tc");
    slow.args("qdisc add dev eth0 root tbf rate 8bit burst 3000 limit 100000000".split(' '));
    assert!(host.spawn(slow, &[]).unwrap().wait().unwrap().success());
    let socket = host.udp("10.0.0.1:0".parse().unwrap()).unwrap();
    let filler = socket.try_clone().unwrap();
    let endpoint = Endpoint::new(socket, None).unwrap();
    let unused = "10.0.0.2:9".parse().unwrap();
    fill(&filler, unused);
    let mut transport = transport();
    transport.handshake_timeout = Duration::from_millis(500);
    let connect = |transport: &TransportConfig| {
        let config = client(transport.clone());
        endpoint
            .connect_with(config, unused, "server.test")
            .unwrap()
    };
    let (first, second) = (connect(&transport), connect(&transport));
    assert_eq!(
        soon("a handshake", first).await.unwrap_err(),
        ConnectionError::HandshakeTimedOut
    );
    drop(second);
    soon("wait_idle", endpoint.wait_idle()).await;
    assert!(matches!(
        filler.send_to(&[0; 1200], unused),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock
    ));
}

/// After a runtime ends before the connections of its endpoint, no sockets or timers are left
/// behind.
#[test]
fn endpoints_end_with_their_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (left, outside) = runtime.block_on(async {
        let server = server();
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let config = client(transport());
        let connecting = endpoint.connect_with(config, server.local_address(), "server.test");
        let connection = soon("connecting", connecting.unwrap()).await.unwrap();
        let left = [&endpoint, &server].map(|end| Arc::downgrade(&end.shared));
        (left, connection)
    });
    drop(runtime);
    assert!(outside.close_reason().is_some());
    drop(outside);
    assert!(left.iter().all(|endpoint| endpoint.upgrade().is_none()));
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// A connection whose task runs in another runtime than its endpoint ends with the endpoint's
/// runtime, whichever socket it uses, because no task there receives for it or watches its
/// deadlines any more.
#[test]
fn connections_end_with_the_runtime_of_their_endpoint() {
    for rebinds in [false, true] {
        let [peers, endpoints, own] = [(); 3].map(|()| runtime());
        let server = peers.block_on(async { server() });
        let loopback = "127.0.0.1:0";
        let endpoint = endpoints.block_on(async { Endpoint::client(loopback.parse().unwrap()) });
        let endpoint = endpoint.unwrap();
        own.block_on(async {
            if rebinds {
                let socket = UdpSocket::bind(loopback).unwrap();
                endpoint.rebind(socket).unwrap();
            }
            let connect = || {
                let config = client(transport());
                endpoint.connect_with(config, server.local_address(), "server.test")
            };
            let connection = soon("connecting", connect().unwrap()).await.unwrap();
            connection.confirmed().await.unwrap();
            endpoints.shutdown_background();
            let ended = soon("closed", connection.closed()).await;
            assert_eq!(ended, ConnectionError::RuntimeEnded);
            soon("wait_idle", endpoint.wait_idle()).await;
            // Connecting may still work if the socket isn't read any more or if this wasn't noticed
            // yet.
            if let Ok(connecting) = connect() {
                let ended = soon("connecting", connecting).await;
                assert_eq!(ended.unwrap_err(), ConnectionError::RuntimeEnded);
            }
            let left = Arc::downgrade(&endpoint.shared);
            drop((connection, endpoint));
            soon("the endpoint", async {
                while left.upgrade().is_some() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        });
    }
}

/// Panics in the receiving task when an acknowledgement arrives, or in the connection's own task
/// when application data is sent.
#[derive(Debug)]
struct Panics {
    receiving: bool,
}

impl Controller for Panics {
    fn on_sent(&mut self, _: Instant, sent: &Sent) -> PacketState {
        assert!(
            self.receiving || sent.bytes < 1000,
            "a controller with a defect"
        );
        PacketState::default()
    }

    fn on_ack(&mut self, _: Instant, _: &Acked) {
        assert!(!self.receiving, "a controller with a defect");
    }

    fn on_loss(&mut self, _: Instant, _: &Lost) {}

    fn on_persistent_congestion(&mut self, _: Instant) {}

    fn on_mtu(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 20
    }

    fn metrics(&self) -> Metrics {
        Metrics::new("panics", Phase::Startup, 1 << 20)
    }
}

/// The controller of one connection panics, either in its own task while sending or in the
/// endpoint's while receiving. All tasks that wait for this connection get the error, the endpoint
/// removes it, and other connections continue.
#[tokio::test]
async fn a_panic_leaves_no_task_waiting() {
    for receiving in [true, false] {
        panicking(receiving).await;
    }
}

async fn panicking(receiving: bool) {
    let server = server();
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connect = |transport| {
        let connecting =
            endpoint.connect_with(client(transport), server.local_address(), "server.test");
        soon("connecting", connecting.unwrap())
    };
    let honest = connect(transport()).await.unwrap();
    let factory =
        move |_: Instant, _: u16| -> Box<dyn Controller> { Box::new(Panics { receiving }) };
    // The controller may panic before or after the handshake is complete.
    let defect = connect(TransportConfig::new(Arc::new(factory))).await;
    if let Ok(defect) = defect {
        if let Ok(mut stream) = defect.open_uni().await {
            let _ = stream.write_all(&[7; 10_000]).await;
        }
        soon("defect", defect.closed()).await;
    }
    assert_eq!(honest.close_reason(), None);
    let mut stream = honest.open_uni().await.unwrap();
    stream.write_all(b"goes on").await.unwrap();
    stream.finish().unwrap();
    assert_eq!(soon("honest", stream.stopped()).await, Ok(None));
    drop((stream, honest));
    soon("wait_idle", endpoint.wait_idle()).await;
    assert_eq!(endpoint.shared.lock().core.connections(), 0);
}

/// The role of a connection in [`many`] that downloads and then closes.
const HONEST: u8 = 2;
/// Bytes that each connection downloads.
const BYTES: usize = 1_000_000;

/// Returns a server that uploads to all clients. The controllers of some connections panic while
/// receiving (1) or sending (0).
async fn many(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let connection = incoming.accept().unwrap().await.unwrap();
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            let role = recv.read_to_end(1).await.unwrap();
            if role != [HONEST] {
                let receiving = role == [1];
                let factory = move |_: Instant, _: u16| -> Box<dyn Controller> {
                    Box::new(Panics { receiving })
                };
                connection.set_controller(Arc::new(factory));
            }
            let _ = send.write_all(&[role[0]; BYTES]).await;
            let _ = send.finish();
            let reason = connection.closed().await;
            let was_closed = matches!(reason, ConnectionError::PeerApplication { .. });
            assert_eq!(was_closed, role == [HONEST], "{reason}");
        });
    }
}

/// Several threads open packets. Some connections panic in the endpoint's task, some in their own
/// task, and some while sending. These connections end, and all others get the data they requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn panics_on_several_threads_end_their_connections_alone() {
    let crypto = Arc::new(testing::server(&[b"test"]));
    let config = ServerConfig::new(crypto, Arc::new(transport()));
    let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let serving = tokio::spawn(many(server.clone()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut config = transport();
    // The server has removed the connections that panicked, and answers their packets with a reset.
    config.keep_alive = Some(Duration::from_millis(50));
    let downloads: Vec<_> = (0..48)
        .map(|n: u8| {
            let config = client(config.clone());
            let connecting = endpoint.connect_with(config, server.local_address(), "server.test");
            tokio::spawn(async move {
                let connection = connecting.unwrap().await.unwrap();
                let role = [0, 1, HONEST][usize::from(n % 3)];
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(&[role]).await.unwrap();
                send.finish().unwrap();
                if role == HONEST {
                    let all = recv.read_to_end(BYTES).await.unwrap();
                    assert!(all.len() == BYTES && all.iter().all(|byte| *byte == HONEST));
                    connection.close(0, b"thanks");
                } else {
                    connection.closed().await;
                }
            })
        })
        .collect();
    for download in downloads {
        soon("a download", download).await.unwrap();
    }
    soon("wait_idle", server.wait_idle()).await;
    assert_eq!(server.shared.lock().core.connections(), 0);
    // The tasks of connections drop their last datagrams as they end.
    let dropped = async {
        while server.shared.groups.held() > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon("what waited", dropped).await;
    server.close(0, b"");
    soon("the server", serving).await.unwrap();
}
