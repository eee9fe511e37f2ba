//! The memory that connections and endpoints need, both at rest and during a flood at the server.

use std::net::UdpSocket;

use pathmark_testbed::own_process;
use tokio::task::JoinSet;

use super::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Number of connections at rest, and the largest memory of each at either side.
const CONNECTIONS: usize = 500;
const AT_REST: usize = 50 * KIB;
/// Number of endpoints at rest, and the largest memory of each. This includes tasks and timers, but
/// not the buffers of a whole receive batch (2 MiB), which are never touched.
const ENDPOINTS: usize = 200;
const ENDPOINT: usize = 300 * KIB;
/// Number of attacking addresses, each with its own socket.
const STRANGERS: usize = 256;
/// Datagrams that each sends. In total, loopback needs a second or two for these.
const DATAGRAMS: usize = 800;
/// Bytes that an honest client fetches during the flood.
const HONEST: usize = 8 * MIB;

fn in_own_process(name: &str, test: impl Future<Output = ()>) {
    let path = format!("attack_tests::memory::{name}");
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    own_process(&path, || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(test);
    });
}

async fn connect(endpoint: &Endpoint, server: SocketAddr) -> Connection {
    let mut transport = transport();
    transport.max_idle_timeout = Some(Duration::from_secs(120));
    let connecting = endpoint.connect_with(client(transport), server, NAME);
    connecting.unwrap().await.unwrap()
}

/// This also holds if the allocator reuses memory that was touched before.
#[test]
fn endpoints_at_rest_are_small() {
    in_own_process("endpoints_at_rest_are_small", async {
        let make = |count| -> Vec<Endpoint> { (0..count).map(|_| endpoint()).collect() };
        // From here on, the allocator takes large pieces from its heap.
        for _ in 0..4 {
            drop(make(2));
            until("the end of all tasks", || tasks() == 0).await;
        }
        let before = resident("self");
        let endpoints = make(ENDPOINTS);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let each = resident("self").saturating_sub(before) / endpoints.len();
        println!("endpoints at rest: {each} bytes each");
        assert!(each <= ENDPOINT, "{each} bytes for each endpoint");
    });
}

/// Connections that have been used and are idle now.
#[test]
fn connections_at_rest_are_small() {
    in_own_process("connections_at_rest_are_small", async {
        let server = Served::start(Role::OneThread);
        let endpoint = endpoint();
        let open = async |count: usize| {
            let mut connections = Vec::new();
            for _ in 0..count {
                let connection = connect(&endpoint, server.address).await;
                fetch(&connection, 20_000).await;
                connections.push(connection);
            }
            // Wait until acknowledgements have arrived and the path carries datagrams of
            // Ethernet's size. Reports have no event, so they are polled.
            for connection in &connections {
                connection.confirmed().await.unwrap();
                while connection.path_report().mtu < 1472 || connection.path_report().in_flight > 0
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            connections
        };
        // One-time costs don't belong to a connection.
        let first = open(20).await;
        let before = [resident("self"), server.resident()];
        let rest = open(CONNECTIONS).await;
        let after = [resident("self"), server.resident()];
        let sides = ["client", "server"]
            .into_iter()
            .zip(before.into_iter().zip(after));
        for (side, (before, after)) in sides {
            let each = after.saturating_sub(before) / CONNECTIONS;
            let kib = each as f64 / KIB as f64;
            println!("a connection at rest: {kib:.1} KiB at the {side}");
            assert!(each <= AT_REST, "{each} bytes at the {side}");
        }
        drop((first, rest));
        server.end();
    });
}

/// Returns first packets of real clients, whose handshakes are never completed. Each is followed by
/// the packet that abandons its handshake, which ends a connection as soon as it has started.
async fn first_packets(count: usize) -> Vec<Vec<u8>> {
    let trap = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let target = trap.local_addr().unwrap();
    let endpoint = endpoint();
    let config = client(transport());
    let mut packets = Vec::new();
    let mut buffer = [0; 2048];
    while packets.len() < count {
        let connecting = endpoint.connect_with(config.clone(), target, NAME);
        let length = trap.recv(&mut buffer).await.unwrap();
        packets.push(buffer[..length].to_vec());
        drop(connecting.unwrap());
        let length = trap.recv(&mut buffer).await.unwrap();
        packets.push(buffer[..length].to_vec());
    }
    packets
}

/// Hundreds of attackers send garbage and first packets as fast as possible.
fn flood(server: SocketAddr, packets: &[Vec<u8>]) {
    let sockets = [(); STRANGERS].map(|()| {
        let socket = UdpSocket::bind(loopback()).unwrap();
        socket.connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let mut draw = 1u64;
    let mut garbage = [0; 1200];
    for n in 0..DATAGRAMS {
        for (m, socket) in sockets.iter().enumerate() {
            for word in garbage.chunks_exact_mut(8) {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                word.copy_from_slice(&draw.to_be_bytes());
            }
            // Initial packets that can't be opened, unknown versions, short headers, and first
            // packets. A datagram for which there is no room is lost.
            match (n + m) % 4 {
                0 => garbage[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]),
                1 => garbage[0] = 0xc0,
                2 => garbage[0] = 0x41,
                _ => {
                    let _ = socket.send(&packets[(n * STRANGERS + m) % packets.len()]);
                    continue;
                }
            }
            let _ = socket.send(&garbage);
        }
    }
}

/// Floods a server during two downloads, and returns the statistics of its endpoint.
async fn flooded(role: Role) -> String {
    let packets = first_packets(4000).await;
    let server = Served::start(role);
    let address = server.address;
    let endpoint = endpoint();
    let connection = connect(&endpoint, address).await;
    fetch(&connection, HONEST).await;
    let rest = server.resident();
    let attackers = tokio::task::spawn_blocking(move || flood(address, &packets));
    let mut tasks = JoinSet::new();
    // A connection that existed before, and one that starts during the flood, to which Retry
    // gives a place.
    tasks.spawn(async move { fetch(&connection, HONEST).await });
    if role != Role::WithoutRetry {
        tasks.spawn(async move { fetch(&connect(&endpoint, address).await, HONEST).await });
    }
    // The size of the process is sampled, because no event reports its growth.
    let mut most = rest;
    while !attackers.is_finished() || !tasks.is_empty() {
        tokio::select! {
            Some(served) = tasks.join_next() => served.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
        most = most.max(server.resident());
    }
    attackers.await.unwrap();
    println!("{role:?}: {} KiB above rest", (most - rest) / KIB);
    assert!(most - rest <= GROWTH, "{} bytes", most - rest);
    let stats = server.end();
    println!("{stats}");
    stats
}

#[test]
fn a_flood_costs_bounded_memory_and_the_server_goes_on_serving() {
    let name = "a_flood_costs_bounded_memory_and_the_server_goes_on_serving";
    in_own_process(name, async {
        flooded(Role::OneThread).await;
    });
}

/// The limit on handshakes also works if Retry doesn't keep attackers out, or if they have proved
/// their address.
#[test]
fn as_many_half_open_handshakes_as_are_allowed_are_bounded_too() {
    let name = "as_many_half_open_handshakes_as_are_allowed_are_bounded_too";
    in_own_process(name, async {
        let stats = flooded(Role::WithoutRetry).await;
        assert!(!stats.contains("dropped_full: 0,"), "the bound was reached");
    });
}
