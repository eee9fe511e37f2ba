//! Interfaces with a larger MTU than Ethernet's, and interfaces that change: two hosts in network
//! namespaces, joined by veth pairs.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::{Controller, NewReno};
use pathmark_testbed::{ChildGuard, Node, Testbed};

use super::*;
use pathmark_transport::{Instant, TransportConfig};

const ALPN: &[u8] = b"interfaces";
const FORBIDDEN: &str = "this test needs user namespaces; allow them, or run as root";
/// Set for the uploading process; its value is the destination.
const ROLE: &str = "PATHMARK_UPLOAD_TO";
/// Bytes that each connection uploads, enough for the probes of an MTU search.
const BYTES: usize = 2_000_000;

fn transport(max_mtu: Option<u16>) -> Arc<TransportConfig> {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    let mut transport = TransportConfig::new(Arc::new(factory));
    transport.max_mtu = max_mtu;
    Arc::new(transport)
}

pub(super) fn client(max_mtu: Option<u16>) -> ClientConfig {
    let crypto = testing::client(&[ALPN]);
    ClientConfig::new(Arc::new(crypto), transport(max_mtu))
}

/// Returns an endpoint on `node` that reads all streams of all clients.
pub(super) fn sink(node: &Node, at: &str) -> Endpoint {
    let crypto = Arc::new(testing::server(&[ALPN]));
    let config = ServerConfig::new(crypto, transport(None));
    let socket = node.udp(at.parse().unwrap()).unwrap();
    let server = Endpoint::new(socket, Some(config)).unwrap();
    let serving = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = serving.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                let Ok(connection) = connecting.await else {
                    return;
                };
                while let Ok(mut stream) = connection.accept_uni().await {
                    let _ = stream.read_to_end(usize::MAX).await;
                }
            });
        }
    });
    server
}

pub(super) async fn upload(connection: &Connection, bytes: usize) {
    let mut stream = connection.open_uni().await.unwrap();
    for _ in 0..bytes / 100_000 {
        stream.write_all(&[7; 100_000]).await.unwrap();
    }
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await, Ok(None));
}

pub(super) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(60), test).await;
    done.expect("it is done within a minute")
}

/// Creates two hosts, and returns them with the addresses of the second.
pub(super) fn joined(mtu: u32) -> (Node, Node) {
    let bed = Testbed::new().expect(FORBIDDEN);
    let [a, b] = ["a", "b"].map(|name| bed.node(name).unwrap());
    bed.veth((&a, "eth0"), (&b, "eth0"), mtu).unwrap();
    for (node, host) in [(&a, 1), (&b, 2)] {
        for address in [format!("10.0.0.{host}/24"), format!("fd00::{host}/64")] {
            node.add_address("eth0", address.parse().unwrap()).unwrap();
        }
    }
    (a, b)
}

/// An interface becomes narrower while trains of segments are in flight. Each connection continues
/// at the remaining size, and trains are still sent by one system call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trains_of_segments_go_on_where_an_interface_becomes_narrower() {
    // [9000 14 no-fragments]
    for (at, from, narrow, left) in [
        ("10.0.0.2:4433", "10.0.0.1:0", 1500, 1472),
        ("[fd00::2]:4433", "[fd00::1]:0", 1400, 1352),
    ] {
        let (a, b) = joined(9000);
        let _server = sink(&b, at);
        let socket = a.udp(from.parse().unwrap()).unwrap();
        let endpoint = Endpoint::new(socket, None).unwrap();
        assert!(endpoint.shared.socket().max_segments() > 1, "no offload");
        let at = at.parse().unwrap();
        let connecting = endpoint.connect_with(client(Some(8952)), at, "server.test");
        let connection = bounded(connecting.unwrap()).await.unwrap();
        bounded(upload(&connection, BYTES)).await;
        assert_eq!(connection.path_report().mtu, 8952);
        let sent = connection.stats().bytes_sent;
        let narrowing = async {
            // Once the second upload is in progress.
            while connection.stats().bytes_sent < sent + 1_000_000 {
                tokio::task::yield_now().await;
            }
            a.set_mtu("eth0", narrow).unwrap();
        };
        bounded(async { tokio::join!(upload(&connection, 10 * BYTES), narrowing) }).await;
        let mtu = connection.path_report().mtu;
        assert!((left - 11..=left).contains(&mtu), "{mtu} of {left}");
        assert_eq!(connection.stats().mtu_black_holes, 0);
        assert!(endpoint.shared.socket().max_segments() > 1);
    }
}

#[test]
#[ignore = "a part of the tests in this file: they start it as a process of its own"]
fn uploading_client() {
    let Ok(at) = std::env::var(ROLE) else {
        return;
    };
    let at: SocketAddr = at.parse().unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(async {
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let endpoint = Endpoint::client(any.parse().unwrap()).unwrap();
        for line in std::io::stdin().lines() {
            assert_eq!(line.unwrap(), "upload");
            let connecting = endpoint.connect_with(client(None), at, "server.test");
            let connection = connecting.unwrap().await.unwrap();
            upload(&connection, BYTES).await;
            let (mtu, lost) = (
                connection.path_report().mtu,
                connection.stats().mtu_probes_lost,
            );
            println!("\nuploaded {mtu} {lost}");
        }
    });
}

/// The uploading process. It needs to be a separate one because an endpoint looks up the interfaces
/// of its process's namespace.
struct Uploads {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: ChildGuard,
}

impl Uploads {
    fn start(node: &Node, to: &str) -> Self {
        let name = "interface_tests::uploading_client";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ROLE, to)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = node.spawn(command, &[]).unwrap();
        Self {
            input: child.child().stdin.take().unwrap(),
            output: BufReader::new(child.child().stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// Runs a new connection, and returns its final MTU and the number of lost probes.
    fn next(&mut self) -> (u16, u64) {
        self.input.write_all(b"upload\n").unwrap();
        let figures = self.output.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (mtu, lost) = line.strip_prefix("uploaded ")?.split_once(' ')?;
            Some((mtu.parse().unwrap(), lost.parse().unwrap()))
        });
        figures.expect("the process goes on")
    }
}

/// Without any configuration, packets have 9000 bytes. Connections that start after the interface
/// has changed notice a lower MTU immediately, and a higher one soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_use_what_their_interface_carries_now() {
    for (at, headers) in [("10.0.0.2:4433", 28), ("[fd00::2]:4433", 48)] {
        let (a, b) = joined(9000);
        let _server = sink(&b, at);
        let test = tokio::task::spawn_blocking(move || {
            let mut uploads = Uploads::start(&a, at);
            assert_eq!(uploads.next(), (9000 - headers, 0));
            a.set_mtu("eth0", 1500).unwrap();
            // A cached value of the interface may be tried once more. Nothing but the packet that
            // the kernel refuses is lost by this.
            let (mtu, lost) = uploads.next();
            let left = 1500 - headers;
            assert!((left - 11..=left).contains(&mtu), "{mtu} of {left}");
            assert!(lost <= 11, "{lost}");
            a.set_mtu("eth0", 4000).unwrap();
            while uploads.next().0 != 4000 - headers {}
        });
        bounded(test).await.unwrap();
    }
}
