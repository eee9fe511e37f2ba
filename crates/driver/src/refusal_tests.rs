//! Missing servers: closed ports, no route, and false reports of such errors.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use pathmark_testbed::{Node, Testbed};

use super::testing::*;
use super::*;
use pathmark_transport::connection::ConnectionError;

const REFUSED: ConnectionError =
    ConnectionError::Unreachable(std::io::ErrorKind::ConnectionRefused);

/// Returns a port of this host that no socket uses, at an address of the same family as `at`.
fn closed_port(at: &str) -> SocketAddr {
    UdpSocket::bind(at).unwrap().local_addr().unwrap()
}

fn begin(endpoint: &Endpoint, to: SocketAddr) -> Connecting {
    let connecting = endpoint.connect_with(client(transport()), to, NAME);
    connecting.unwrap()
}

/// Returns why connecting fails. This must take far less than the 30 s of the handshake timeout.
async fn why(endpoint: &Endpoint, to: SocketAddr) -> ConnectionError {
    let connecting = begin(endpoint, to);
    let ended = tokio::time::timeout(Duration::from_secs(2), connecting).await;
    let ended = ended.unwrap_or_else(|_| panic!("{to}: no end within 2 s"));
    ended.expect_err("there is no server")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_port_ends_an_attempt_at_once() {
    for (from, at) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        // A socket for both IP versions.
        ("[::]:0", "127.0.0.1:0"),
        ("[::]:0", "[::1]:0"),
    ] {
        let endpoint = Endpoint::client(from.parse().unwrap()).unwrap();
        let error = why(&endpoint, closed_port(at)).await;
        assert_eq!(error, REFUSED, "{from} {at}");
    }
}

/// Of many attempts at one socket, those that are refused end, whereas one to a silent port
/// continues. Established connections remain open, even when the port of their server is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_ends_the_attempts_that_it_is_about_and_no_others() {
    // [9000 14.2.1 icmp-validated]
    let (endpoint, there) = (endpoint(), server());
    serve(&there);
    let connection = connect(&endpoint, &there).await.unwrap();
    let silent = UdpSocket::bind(loopback()).unwrap();
    let mut waits = begin(&endpoint, silent.local_addr().unwrap());
    for _ in 0..20 {
        assert_eq!(why(&endpoint, closed_port("127.0.0.1:0")).await, REFUSED);
        connect(&endpoint, &there).await.unwrap();
    }
    let silence = tokio::time::timeout(Duration::from_millis(10), &mut waits).await;
    assert!(silence.is_err(), "a silent port refuses nothing");
    soon("it goes on", send(&connection, 10_000)).await;
}

const PORT_UNREACHABLE: u8 = 3;

/// Returns an ICMP message (RFC 792, type 3) that quotes the beginning `quote` of a datagram from
/// `ours` to `theirs`.
fn unreachable(code: u8, ours: SocketAddr, theirs: SocketAddr, quote: &[u8]) -> Vec<u8> {
    let octets = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => v4.ip().octets(),
        SocketAddr::V6(_) => panic!("IPv4 only"),
    };
    let mut bytes = vec![3, code, 0, 0, 0, 0, 0, 0];
    // IPv4 header, then UDP header and the quote, which has an even number of bytes.
    let udp = 8 + quote.len() as u8;
    bytes.extend([0x45, 0, 0, 20 + udp, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend(octets(ours));
    bytes.extend(octets(theirs));
    bytes.extend(ours.port().to_be_bytes());
    bytes.extend(theirs.port().to_be_bytes());
    bytes.extend([0, udp, 0, 0]);
    bytes.extend(quote);
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !(((folded & 0xffff) + (folded >> 16)) as u16);
    bytes[2..4].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// A separate host that can forge ICMP messages.
struct Forger {
    node: Node,
    raw: UdpSocket,
    _bed: Testbed,
}

impl Forger {
    fn new() -> Self {
        let bed = bed();
        let node = bed.node("a").unwrap();
        let raw = node.socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
        Self {
            // A raw socket sends in the same way as a UDP socket.
            raw: UdpSocket::from(raw.unwrap()),
            node,
            _bed: bed,
        }
    }

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn socket(&self) -> UdpSocket {
        self.node.udp(Self::at(0)).unwrap()
    }

    fn report(&self, code: u8, ours: SocketAddr, theirs: SocketAddr, quote: &[u8]) {
        let message = unreachable(code, ours, theirs, quote);
        self.raw.send_to(&message, Self::at(0)).unwrap();
    }
}

/// Returns the beginning of the first packet to a silent server.
async fn first_packet(silent: UdpSocket) -> Vec<u8> {
    silent.set_nonblocking(true).unwrap();
    let silent = tokio::net::UdpSocket::from_std(silent).unwrap();
    let mut packet = [0; 32];
    silent.recv(&mut packet).await.unwrap();
    packet.to_vec()
}

/// The same message ends an attempt without an answer, but no established connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_icmp_ends_no_established_connection() {
    // [9000 14.2.1 icmp-validated]
    let forger = Forger::new();
    let there = Endpoint::from_socket(forger.socket(), Some(server_config())).unwrap();
    serve(&there);
    let ours = forger.socket();
    let local = ours.local_addr().unwrap();
    let endpoint = Endpoint::from_socket(ours, None).unwrap();
    let connection = connect(&endpoint, &there).await.unwrap();

    let silent = forger.socket();
    let to = silent.local_addr().unwrap();
    let waits = begin(&endpoint, to);
    let quote = first_packet(silent.try_clone().unwrap()).await;
    let forge = |to: SocketAddr| {
        for _ in 0..50 {
            forger.report(PORT_UNREACHABLE, local, to, &quote);
        }
    };
    // The error queue is on at this time and contains these reports, too.
    forge(there.local_address());
    forge(to);
    let ended = tokio::time::timeout(Duration::from_secs(2), waits).await;
    assert_eq!(ended.expect("the report counts").unwrap_err(), REFUSED);

    forge(there.local_address());
    soon("it goes on", send(&connection, 10_000)).await;
    assert!(connection.close_reason().is_none());
}

/// An attacker that guesses ports can't quote the connection ID.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_without_the_connection_id_has_no_effect() {
    // [9000 14.2.1 icmp-validated]
    let forger = Forger::new();
    let (ours, silent) = (forger.socket(), forger.socket());
    let (local, to) = (ours.local_addr().unwrap(), silent.local_addr().unwrap());
    let endpoint = Endpoint::from_socket(ours, None).unwrap();
    let mut waits = begin(&endpoint, to);
    let mut quote = first_packet(silent.try_clone().unwrap()).await;
    // Another ID of eight bytes or more.
    quote[8] ^= 1;
    let mut sweeps = tokio::time::interval(Duration::from_millis(20));
    let ended = tokio::time::timeout(Duration::from_secs(4), async {
        loop {
            tokio::select! {
                ended = &mut waits => return ended.err(),
                _ = sweeps.tick() => {}
            }
            for code in [PORT_UNREACHABLE, 0, 1, 13] {
                forger.report(code, local, to, b"garbage!");
                forger.report(code, local, to, &quote);
            }
        }
    });
    assert!(ended.await.is_err(), "it goes on");
}

/// An attempt to connect to a socket without an endpoint.
struct Attempt {
    forger: Forger,
    theirs: UdpSocket,
    local: SocketAddr,
    quote: Vec<u8>,
    connecting: Connecting,
    _endpoint: Endpoint,
}

impl Attempt {
    async fn begin() -> Self {
        let forger = Forger::new();
        let (ours, theirs) = (forger.socket(), forger.socket());
        let local = ours.local_addr().unwrap();
        let endpoint = Endpoint::from_socket(ours, None).unwrap();
        let connecting = begin(&endpoint, theirs.local_addr().unwrap());
        let quote = first_packet(theirs.try_clone().unwrap()).await;
        Self {
            forger,
            theirs,
            local,
            quote,
            connecting,
            _endpoint: endpoint,
        }
    }

    /// Reports the host as unreachable until the attempt fails, and returns why it did.
    async fn report(&mut self) -> ConnectionError {
        const HOST_UNREACHABLE: u8 = 1;
        let to = self.theirs.local_addr().unwrap();
        let mut reports = tokio::time::interval(Duration::from_millis(20));
        loop {
            tokio::select! {
                ended = &mut self.connecting => return ended.unwrap_err(),
                _ = reports.tick() => {}
            }
            let (forger, quote) = (&self.forger, &self.quote);
            forger.report(HOST_UNREACHABLE, self.local, to, quote);
        }
    }
}

/// A missing route only ends an attempt if it lasts, and not if it is temporary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_out_of_reach_ends_an_attempt_after_a_while() {
    let mut attempt = Attempt::begin().await;
    let begun = tokio::time::Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(20), attempt.report()).await;
    let unreachable = ConnectionError::Unreachable(std::io::ErrorKind::HostUnreachable);
    assert_eq!(ended.expect("an end"), unreachable);
    assert!(begun.elapsed() > Duration::from_secs(1));
}

/// A route that is missing for a second only delays an attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_is_missing_for_a_second_delays_an_attempt() {
    let mut attempt = Attempt::begin().await;
    let missing = tokio::time::timeout(Duration::from_secs(1), attempt.report());
    assert!(missing.await.is_err(), "it goes on");
    let server = Endpoint::from_socket(attempt.theirs, Some(server_config())).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let connecting = attempt.connecting;
    let both = async { tokio::join!(connecting, accepting) };
    let (connected, _accepted) = soon("both ends", both).await;
    connected.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_kernel_does_not_send_ends_an_attempt_at_once() {
    let bed = bed();
    // With a loopback interface and no route.
    let node = bed.node("a").unwrap();
    for (from, to) in [
        ("0.0.0.0:0", "192.0.2.1:4433"),
        ("[::]:0", "[2001:db8::1]:4433"),
        ("[::]:0", "192.0.2.1:4433"),
    ] {
        let endpoint = endpoint_on(&node, from, None);
        let error = why(&endpoint, to.parse().unwrap()).await;
        let no_route = ConnectionError::Socket(std::io::ErrorKind::NetworkUnreachable);
        assert_eq!(error, no_route, "{to}");
    }
}

/// If no datagram of a handshake fits the interface, the attempt immediately ends with this error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interface_that_is_too_narrow_ends_an_attempt_at_once() {
    let (host, _other) = hosts(1200);
    let endpoint = endpoint_on(&host, "10.0.0.1:0", None);
    let error = why(&endpoint, "10.0.0.2:4433".parse().unwrap()).await;
    assert_eq!(error, ConnectionError::PathTooNarrow(1200));
}

/// If none fits the link behind a router, the router's reports end the attempt after some probe
/// timeouts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_too_narrow_ends_an_attempt() {
    let bed = bed();
    let [host, router, there] = ["a", "r", "b"].map(|name| bed.node(name).unwrap());
    bed.veth((&host, "eth0"), (&router, "eth0"), 1500).unwrap();
    bed.veth((&router, "eth1"), (&there, "eth0"), 1200).unwrap();
    for (node, interface, address) in [
        (&host, "eth0", "10.0.0.1/24"),
        (&router, "eth0", "10.0.0.2/24"),
        (&router, "eth1", "10.0.1.2/24"),
        (&there, "eth0", "10.0.1.1/24"),
    ] {
        let address = address.parse().unwrap();
        node.add_address(interface, address).unwrap();
    }
    router.forward().unwrap();
    let gateway = Some("10.0.0.2".parse().unwrap());
    let there = "10.0.1.0/24".parse().unwrap();
    host.add_route(there, "eth0", gateway).unwrap();
    let endpoint = endpoint_on(&host, "10.0.0.1:0", None);
    let connecting = begin(&endpoint, "10.0.1.1:4433".parse().unwrap());
    let error = soon("the router's report", connecting).await;
    assert_eq!(error.unwrap_err(), ConnectionError::PathTooNarrow(1200));
}
