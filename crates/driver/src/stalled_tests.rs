//! Connections whose socket has no room, whose runtime ends, or whose task panics.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::testing::*;
use super::*;
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;

/// Returns a server that accepts all clients and keeps their connections.
fn serving() -> Endpoint {
    let server = server();
    serve(&server);
    server
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
    let (host, _other) = hosts(1500);
    let mut slow = Command::new("tc");
    slow.args("qdisc add dev eth0 root tbf rate 8bit burst 3000 limit 100000000".split(' '));
    assert!(host.spawn(slow, &[]).unwrap().wait().unwrap().success());
    let socket = host.udp("10.0.0.1:0".parse().unwrap()).unwrap();
    let filler = socket.try_clone().unwrap();
    let endpoint = Endpoint::from_socket(socket, None).unwrap();
    let unused = "10.0.0.2:9".parse().unwrap();
    fill(&filler, unused);
    let mut transport = transport();
    transport.handshake_timeout = Duration::from_millis(500);
    let config = client(transport);
    let [first, second] = [(); 2].map(|()| {
        let connecting = endpoint.connect_with(config.clone(), unused, NAME);
        connecting.unwrap()
    });
    let ended = soon("a handshake", first).await.unwrap_err();
    assert_eq!(ended, ConnectionError::HandshakeTimedOut);
    drop(second);
    soon("wait_idle", endpoint.wait_idle()).await;
    let full = filler.send_to(&[0; 1200], unused).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
}

/// After a runtime ends before the connections of its endpoint, no sockets or timers are left
/// behind.
#[test]
fn endpoints_end_with_their_runtime() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let (left, outside) = runtime.block_on(async {
        let (server, endpoint) = (serving(), endpoint());
        let connecting = connect(&endpoint, &server);
        let connection = soon("connecting", connecting).await.unwrap();
        let left = [&endpoint, &server].map(|end| Arc::downgrade(&end.shared));
        (left, connection)
    });
    drop(runtime);
    assert!(outside.close_reason().is_some());
    drop(outside);
    assert!(left.iter().all(|endpoint| endpoint.upgrade().is_none()));
}

/// A connection whose task runs in another runtime than its endpoint ends with the endpoint's
/// runtime, whichever socket it uses, because no task there receives for it or watches its
/// deadlines any more.
#[test]
fn connections_end_with_the_runtime_of_their_endpoint() {
    for rebinds in [false, true] {
        let [peers, endpoints, own] = [(); 3].map(|()| runtime(2));
        let server = peers.block_on(async { serving() });
        let endpoint = endpoints.block_on(async { endpoint() });
        own.block_on(async {
            if rebinds {
                rebind(&endpoint);
            }
            let connect = || {
                let config = client(transport());
                endpoint.connect_with(config, server.local_address(), NAME)
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
            until("the endpoint", || left.upgrade().is_none()).await;
        });
    }
}

/// The controller of one connection panics, either in its own task while sending or in the
/// endpoint's while receiving. All tasks that wait for this connection get the error, the endpoint
/// removes it, and other connections continue.
#[tokio::test]
async fn a_panic_leaves_no_task_waiting() {
    for defect in [Defect::Receiving, Defect::Sending] {
        let (server, endpoint) = (serving(), endpoint());
        let connecting = connect(&endpoint, &server);
        let honest = soon("connecting", connecting).await.unwrap();
        let config = client(TransportConfig::new(boundless_but(Some(defect))));
        // The controller may panic before or after the handshake is complete.
        if let Ok(broken) = soon("connecting", connect_with(&endpoint, &server, config)).await {
            if let Ok(mut stream) = broken.open_uni().await {
                let _ = stream.write_all(&[7; 10_000]).await;
            }
            soon("the broken one", broken.closed()).await;
        }
        assert_eq!(honest.close_reason(), None);
        soon("honest", send(&honest, 7)).await;
        drop(honest);
        soon("wait_idle", endpoint.wait_idle()).await;
        assert_eq!(endpoint.shared.lock().core.connections(), 0);
    }
}

/// The role of a connection in [`many`] that downloads and then closes.
const HONEST: u8 = 2;
/// Bytes that each connection downloads.
const BYTES: usize = 1_000_000;

/// Uploads to all clients of a server. The controllers of some connections panic while receiving
/// (1) or sending (0).
async fn many(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let connection = incoming.accept().unwrap().await.unwrap();
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            let role = recv.read_to_end(1).await.unwrap();
            if role != [HONEST] {
                let defect = [Defect::Sending, Defect::Receiving][usize::from(role[0])];
                connection.set_controller(boundless_but(Some(defect)));
            }
            let _ = send.write_all(&[role[0]; BYTES]).await;
            let _ = send.finish();
            let reason = connection.closed().await;
            let was_closed = matches!(reason, ConnectionError::ApplicationClosed(_));
            assert_eq!(was_closed, role == [HONEST], "{reason}");
        });
    }
}

/// Several threads open packets. Some connections panic in the endpoint's task, some in their own
/// task, and some while sending. These connections end, and all others get the data they requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn panics_on_several_threads_end_their_connections_alone() {
    let (server, endpoint) = (server(), endpoint());
    let serving = tokio::spawn(many(server.clone()));
    let mut config = transport();
    // The server has removed the connections that panicked, and answers their packets with a reset.
    config.keep_alive = Some(Duration::from_millis(50));
    // A client whose handshake is not confirmed yet sends packets that nothing answers.
    config.max_idle_timeout = Some(Duration::from_secs(5));
    let downloads: Vec<_> = (0..48)
        .map(|n: u8| {
            let connecting = connect_with(&endpoint, &server, client(config.clone()));
            tokio::spawn(async move {
                let connection = connecting.await.unwrap();
                let role = [0, 1, HONEST][usize::from(n % 3)];
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(&[role]).await.unwrap();
                send.finish().unwrap();
                if role == HONEST {
                    let all = recv.read_to_end(BYTES).await.unwrap();
                    assert!(all.len() == BYTES && all.iter().all(|byte| *byte == HONEST));
                    connection.close(0_u32.into(), b"thanks");
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
    until("what waited", || server.shared.groups.held() == 0).await;
    server.close(0_u32.into(), b"");
    soon("the server", serving).await.unwrap();
}
