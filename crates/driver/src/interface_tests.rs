//! Interfaces with a larger MTU than Ethernet's, and interfaces that change: two hosts in network
//! namespaces, joined by veth pairs.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use pathmark_testbed::{ChildGuard, Node};

use super::testing::*;
use super::*;

/// Set for the uploading process; its value is the destination.
const ROLE: &str = "PATHMARK_UPLOAD_TO";
/// Bytes that each connection uploads, enough for the probes of an MTU search.
const BYTES: usize = 2_000_000;

/// Returns a server on `node` that reads all streams of all clients.
fn sink(node: &Node, at: &str) -> Endpoint {
    let server = endpoint_on(node, at, Some(server_config()));
    serve(&server);
    server
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
        let (a, b) = hosts(9000);
        let server = sink(&b, at);
        let endpoint = endpoint_on(&a, from, None);
        assert!(endpoint.shared.socket().max_segments() > 1, "no offload");
        let mut transport = transport();
        transport.max_mtu = Some(8952);
        let connecting = connect_with(&endpoint, &server, client(transport));
        let connection = soon("a handshake", connecting).await.unwrap();
        soon("an upload", send(&connection, BYTES)).await;
        assert_eq!(connection.path_report().mtu, 8952);
        let narrowing = async {
            let sent = || connection.stats().bytes_sent;
            let before = sent();
            until("a second upload", || sent() > before + 1_000_000).await;
            a.set_mtu("eth0", narrow).unwrap();
        };
        let both = async { tokio::join!(send(&connection, 10 * BYTES), narrowing) };
        soon("the second upload", both).await;
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
    runtime(1).block_on(async {
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let endpoint = Endpoint::client(any.parse().unwrap()).unwrap();
        for line in std::io::stdin().lines() {
            assert_eq!(line.unwrap(), "upload");
            let connecting = endpoint.connect_with(client(transport()), at, NAME);
            let connection = connecting.unwrap().await.unwrap();
            send(&connection, BYTES).await;
            let lost = connection.stats().mtu_probes_lost;
            println!("\nuploaded {} {lost}", connection.path_report().mtu);
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
        command.args(["--exact", name, "--ignored", "--nocapture"]);
        command.env(ROLE, to);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
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
        let (a, b) = hosts(9000);
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
        soon("three uploads", test).await.unwrap();
    }
}
