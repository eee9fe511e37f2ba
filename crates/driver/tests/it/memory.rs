//! The memory that connections need, both at rest and during a flood at the server.
//!
//! The server is a separate process, so that its memory is measured without that of its clients and
//! attackers. Linux only: resident memory is read from `/proc`.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_testbed::own_process;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::endpoint::RetryPolicy;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const ALPN: &[u8] = b"memory";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Number of connections at rest, and the largest memory of each at either side.
const CONNECTIONS: usize = 500;
const AT_REST: usize = 50 * KIB;
/// Largest memory for a flood at the server, above that at rest.
const FLOOD: usize = 32 * MIB;
/// Number of attacking addresses, each with its own socket.
const STRANGERS: usize = 256;
/// Datagrams that each sends. In total, loopback needs a second or two for these.
const DATAGRAMS: usize = 800;
/// Bytes that an honest client fetches during the flood.
const HONEST: usize = 8 * MIB;

/// Tells the server's process whether clients must prove their address.
const ROLE: &str = "PATHMARK_MEMORY_SERVER";

/// Only runs as a child process of the tests below, as their server.
#[test]
fn role_of_a_server() {
    match std::env::var(ROLE).as_deref() {
        Ok("server") => serve(None),
        Ok("server-without-retry") => serve(Some(RetryPolicy::Never)),
        _ => {}
    }
}

/// Number of endpoints at rest, and the largest memory of each. This includes tasks and timers, but
/// not the buffers of a whole receive batch (2 MiB), which are never touched.
const ENDPOINTS: usize = 200;
const ENDPOINT: usize = 300 * KIB;

/// This also holds if the allocator reuses memory that was touched before.
#[test]
fn endpoints_at_rest_are_small() {
    own_process("memory::endpoints_at_rest_are_small", || {
        runtime().block_on(async {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let make = |count| -> Vec<Endpoint> {
                let endpoints = (0..count).map(|_| Endpoint::client(address).expect("a socket"));
                endpoints.collect()
            };
            // From here on, the allocator takes large pieces from its heap.
            for _ in 0..4 {
                drop(make(2));
                while tokio::runtime::Handle::current()
                    .metrics()
                    .num_alive_tasks()
                    > 0
                {
                    tokio::task::yield_now().await;
                }
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
    });
}

fn resident(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux has it");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a line for resident memory");
    let kib = line.trim().trim_end_matches("kB").trim();
    kib.parse::<usize>().expect("a number") * KIB
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn transport() -> Arc<TransportConfig> {
    let algorithm = Algorithm::parse("cubic").expect("known");
    let mut config = TransportConfig::new(Arc::new(move |now, mtu| algorithm.controller(now, mtu)));
    config.max_idle_timeout = Some(Duration::from_secs(120));
    Arc::new(config)
}

/// The server's part: prints its address, sends each client as many bytes as it requests, and ends
/// when its standard input is closed.
fn serve(retry: Option<RetryPolicy>) {
    runtime().block_on(async {
        let made = rcgen::generate_simple_self_signed(["server.test".to_owned()]).expect("made");
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]);
        let mut config = ServerConfig::new(Arc::new(tls.expect("usable")), transport());
        if let Some(policy) = retry {
            config.retry(policy);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::server(config, address).expect("a socket");
        println!("address {}", endpoint.local_address());
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let accepting = async {
            while let Some(incoming) = endpoint.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move {
                        if let Ok(connection) = connecting.await {
                            answer(&connection).await;
                        }
                    });
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            _ = end => {}
        }
        println!("stats {:?}", endpoint.stats());
    });
}

async fn answer(connection: &Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let Ok(asked) = recv.read_to_end(8).await else {
            continue;
        };
        let asked = asked.try_into().map_or(0, u64::from_be_bytes) as usize;
        let piece = vec![7; 64 * KIB];
        for at in (0..asked).step_by(piece.len()) {
            if send
                .write_all(&piece[..piece.len().min(asked - at)])
                .await
                .is_err()
            {
                break;
            }
        }
    }
}

/// Requests `length` bytes, and counts those that arrive.
async fn fetch(connection: &Connection, length: usize) -> usize {
    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
    send.write_all(&(length as u64).to_be_bytes())
        .await
        .expect("sent");
    send.finish().expect("finished");
    let mut got = 0;
    while let Some(chunk) = recv.read_chunk().await.expect("received") {
        assert!(chunk.iter().all(|&byte| byte == 7));
        got += chunk.len();
    }
    got
}

/// The server's process.
struct Server {
    child: Child,
    /// Closing this ends the server.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

/// Returns the text that a server's process prints after `word`, skipping the test program's lines.
fn said(output: &mut impl BufRead, word: &str) -> String {
    let mut lines = output.lines().map(|line| line.expect("a line"));
    lines
        .find_map(|line| line.split_once(word).map(|(_, rest)| rest.to_owned()))
        .expect("a server says it")
}

impl Server {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "memory::role_of_a_server", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let address = said(&mut output, "address ").parse().expect("an address");
        Self {
            input: child.stdin.take(),
            child,
            output,
            address,
        }
    }

    fn resident(&self) -> usize {
        resident(&self.child.id().to_string())
    }

    /// Ends the process, and returns the statistics that it prints about its endpoint.
    fn end(mut self) -> String {
        self.input = None;
        let stats = said(&mut self.output, "stats ");
        assert!(self.child.wait().expect("an end").success());
        stats
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This is needed after a failure; otherwise the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> (Endpoint, ClientConfig) {
    let endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a socket");
    let tls = TlsClientConfig::new(Trust::Anyone, &[ALPN]).expect("usable");
    (endpoint, ClientConfig::new(Arc::new(tls), transport()))
}

async fn connect(endpoint: &Endpoint, config: &ClientConfig, server: SocketAddr) -> Connection {
    let connecting = endpoint.connect_with(config.clone(), server, "server.test");
    connecting.expect("begun").await.expect("connected")
}

/// Connections that have been used and are idle now.
#[test]
fn connections_at_rest_are_small() {
    own_process("memory::connections_at_rest_are_small", || {
        let server = Server::start("server");
        runtime().block_on(async {
            let (endpoint, config) = client();
            let open = async |count: usize| {
                let mut connections = Vec::new();
                for _ in 0..count {
                    let connection = connect(&endpoint, &config, server.address).await;
                    assert_eq!(fetch(&connection, 20_000).await, 20_000);
                    connections.push(connection);
                }
                // Wait until acknowledgements have arrived and the path carries datagrams of
                // Ethernet's size. Reports have no event, so they are polled.
                for connection in &connections {
                    connection.confirmed().await.expect("confirmed");
                    while connection.path_report().mtu < 1472
                        || connection.path_report().in_flight > 0
                    {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                connections
            };
            // One-time costs don't belong to a connection.
            let first = open(20).await;
            let before = (resident("self"), server.resident());
            let rest = open(CONNECTIONS).await;
            let after = (resident("self"), server.resident());
            let each = |before: usize, after: usize| after.saturating_sub(before) / CONNECTIONS;
            let (ours, theirs) = (each(before.0, after.0), each(before.1, after.1));
            println!(
                "a connection at rest: {:.1} KiB at the client, {:.1} KiB at the server",
                ours as f64 / KIB as f64,
                theirs as f64 / KIB as f64
            );
            assert!(ours <= AT_REST, "{ours} bytes at the client");
            assert!(theirs <= AT_REST, "{theirs} bytes at the server");
            drop((first, rest));
        });
        server.end();
    });
}

/// Returns first packets of real clients, whose handshakes are never completed. Each is followed by
/// the packet that abandons its handshake, which ends a connection as soon as it has started.
fn first_packets(count: usize) -> Vec<Vec<u8>> {
    runtime().block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let trap = tokio::net::UdpSocket::bind(address)
            .await
            .expect("a socket");
        let target = trap.local_addr().expect("bound");
        let (endpoint, config) = client();
        let mut packets = Vec::new();
        let mut buffer = [0; 2048];
        while packets.len() < count {
            let connecting = endpoint.connect_with(config.clone(), target, "server.test");
            let length = trap.recv(&mut buffer).await.expect("a datagram");
            packets.push(buffer[..length].to_vec());
            drop(connecting.expect("begun"));
            let length = trap.recv(&mut buffer).await.expect("a datagram");
            packets.push(buffer[..length].to_vec());
        }
        packets
    })
}

/// Hundreds of attackers send garbage and first packets as fast as possible.
fn flood(server: SocketAddr, packets: &[Vec<u8>]) -> u64 {
    let sockets: Vec<UdpSocket> = (0..STRANGERS)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.connect(server).expect("a peer");
            socket.set_nonblocking(true).expect("set");
            socket
        })
        .collect();
    let mut sent = 0;
    let mut draw = 1u64;
    let mut garbage = [0; 1200];
    for n in 0..DATAGRAMS {
        for (m, socket) in sockets.iter().enumerate() {
            for word in garbage.chunks_exact_mut(8) {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                word.copy_from_slice(&draw.to_be_bytes());
            }
            match (n + m) % 4 {
                // Initial packets that can't be opened, unknown versions, short headers.
                0 => garbage[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]),
                1 => garbage[0] = 0xc0,
                2 => garbage[0] = 0x41,
                _ => {
                    let packet = &packets[(n * STRANGERS + m) % packets.len()];
                    sent += u64::from(socket.send(packet).is_ok());
                    continue;
                }
            }
            sent += u64::from(socket.send(&garbage).is_ok());
        }
    }
    sent
}

#[test]
fn a_flood_costs_bounded_memory_and_the_server_goes_on_serving() {
    own_process(
        "memory::a_flood_costs_bounded_memory_and_the_server_goes_on_serving",
        || {
            let server = Server::start("server");
            let packets = first_packets(4000);
            let address = server.address;
            let (rest, most, sent) = runtime().block_on(async {
                let (endpoint, config) = client();
                let connection = connect(&endpoint, &config, address).await;
                assert_eq!(fetch(&connection, HONEST).await, HONEST);
                let rest = server.resident();
                let attackers = tokio::task::spawn_blocking(move || flood(address, &packets));
                let mut tasks = JoinSet::new();
                // A connection that existed before, and one that starts during the flood.
                tasks.spawn(async move { fetch(&connection, HONEST).await });
                tasks.spawn(async move {
                    let connection = connect(&endpoint, &config, address).await;
                    fetch(&connection, HONEST).await
                });
                // The size of the process is sampled, because no event reports its growth.
                let mut most = rest;
                while !attackers.is_finished() || !tasks.is_empty() {
                    tokio::select! {
                        Some(got) = tasks.join_next() => assert_eq!(got.expect("served"), HONEST),
                        () = tokio::time::sleep(Duration::from_millis(5)) => {}
                    }
                    most = most.max(server.resident());
                }
                (rest, most, attackers.await.expect("done"))
            });
            println!(
                "{sent} datagrams of strangers cost the server {} KiB above rest",
                (most - rest) / KIB
            );
            assert!(most - rest <= FLOOD, "{} bytes", most - rest);
            println!("{}", server.end().trim());
        },
    );
}

/// The limit on handshakes also works if Retry doesn't keep attackers out, or if they have proved
/// their address.
#[test]
fn as_many_half_open_handshakes_as_are_allowed_are_bounded_too() {
    own_process(
        "memory::as_many_half_open_handshakes_as_are_allowed_are_bounded_too",
        || {
            let server = Server::start("server-without-retry");
            let packets = first_packets(4000);
            runtime().block_on(async {
                let (endpoint, config) = client();
                let connection = connect(&endpoint, &config, server.address).await;
                assert_eq!(fetch(&connection, HONEST).await, HONEST);
                let rest = server.resident();
                flood(server.address, &packets);
                // Existing connections are still served. By the end of this, the flood has been
                // processed.
                assert_eq!(fetch(&connection, HONEST).await, HONEST);
                let grown = server.resident().saturating_sub(rest);
                println!(
                    "half-open handshakes at their bound: {} KiB above rest",
                    grown / KIB
                );
                assert!(grown <= FLOOD, "{grown} bytes");
            });
            let stats = server.end();
            println!("{}", stats.trim());
            assert!(!stats.contains("dropped_full: 0,"), "the bound was reached");
        },
    );
}
