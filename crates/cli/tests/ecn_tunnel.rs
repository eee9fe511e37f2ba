//! VCP's code in the ECN field, over real sockets and TUN interfaces, through a tunnel that copies
//! nothing but the traffic class (DSCP and ECN) between inner and outer header, as an encryption
//! gateway does.
//!
//! ```text
//!   application ── tun9 ── gateway ══ IP in IP ══ vcp-router ══ gateway ── tun9 ── application
//! ```
//!
//! And through a tunnel of the kernel's (VXLAN), whose ends do what RFC 6040 says of the field.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, RouterProgram, SENDER};
use pathmark_testbed::{IpNet, Node};
use rustls::pki_types::PrivatePkcs8KeyDer;
use socket2::{SockAddr, Socket};

const ALPN: &[u8] = b"ecn-tunnel";
const INNER_SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const INNER_RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const RTT: Duration = Duration::from_millis(100);
const MTU: u32 = 1500;
const OUTER_HEADER: usize = 20;
/// IP in IP (RFC 2003).
const IP_IN_IP: i32 = 4;
/// Protocol number of UDP.
const UDP: u8 = 17;
const VNET_HEADER: usize = 10;
/// VXLAN takes 50 bytes (RFC 7348 §5).
const KERNEL_MTU: u32 = MTU - 50;

/// UDP datagrams that entered a tunnel, by their differentiated services code point.
type CodePoints = [AtomicU64; 64];

/// What the gateway at the far end makes of the outer ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// It takes the place of the inner one.
    Copy,
    /// RFC 6040 §4.2: of what routers did outside only the more severe survives, and ECT(0) counts
    /// as less than ECT(1).
    Rfc6040,
    /// All packets leave with this one: 0 where something bleaches the field.
    Always(u8),
}

impl Exit {
    /// The ECN field that arrives; `None` where the packet must be dropped.
    fn ecn(self, outer: u8, inner: u8) -> Option<u8> {
        match (self, outer, inner) {
            (Self::Copy, _, _) => Some(outer),
            (Self::Always(ecn), _, _) => Some(ecn),
            (Self::Rfc6040, 3, 0) => None,
            (Self::Rfc6040, 3, _) => Some(3),
            (Self::Rfc6040, 1, 2) => Some(1),
            (Self::Rfc6040, _, _) => Some(inner),
        }
    }
}

/// What carries packets past the router.
#[derive(Clone, Copy, Debug)]
enum Tunnel {
    /// IP in IP by threads of this test.
    Own(Exit),
    /// VXLAN by the kernel, which copies the traffic class into the outer header.
    Kernel,
}

/// RFC 1071.
fn ip_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let words = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("the test's own addresses"),
    }
}

/// `inner` behind an outer header with its traffic class.
fn encapsulate(inner: &[u8], from: IpAddr, to: IpAddr) -> Vec<u8> {
    let total = u16::try_from(OUTER_HEADER + inner.len()).unwrap();
    let mut outer = vec![0x45, inner[1]];
    outer.extend(total.to_be_bytes());
    outer.extend([0, 0, 0x40, 0, 64, IP_IN_IP as u8, 0, 0]);
    outer.extend(octets(from));
    outer.extend(octets(to));
    ip_checksum(&mut outer);
    outer.extend(inner);
    outer
}

/// The packet inside, with a vnet header in front. `None` if it is to be dropped.
fn decapsulate(outer: &[u8], exit: Exit) -> Option<Vec<u8>> {
    let inner = outer.get(OUTER_HEADER..)?;
    let mut packet = vec![0; VNET_HEADER];
    packet.extend(inner);
    let header = packet.get_mut(VNET_HEADER..VNET_HEADER + 20)?;
    let ecn = exit.ecn(outer[1] & 3, header[1] & 3)?;
    header[1] = outer[1] & !3 | ecn;
    ip_checksum(header);
    Some(packet)
}

/// One end of the tunnel: an interface and a raw socket of `node`. Its threads live as long as the
/// process.
fn gateway(
    node: &Node,
    own: (IpAddr, IpAddr),
    peer: (IpAddr, IpAddr),
    exit: Exit,
    seen: &Arc<CodePoints>,
) {
    let seen = Arc::clone(seen);
    let ((inner, outer), (inner_peer, outer_peer)) = (own, peer);
    let tun = node.tun("tun9", MTU - OUTER_HEADER as u32).unwrap();
    node.add_address("tun9", IpNet::from(inner)).unwrap();
    node.add_route(IpNet::from(inner_peer), "tun9", None)
        .unwrap();
    let raw = |protocol| {
        let fd = node.socket(nix::libc::AF_INET, nix::libc::SOCK_RAW, protocol);
        Socket::from(fd.unwrap())
    };
    let (sending, mut arriving) = (raw(nix::libc::IPPROTO_RAW), raw(IP_IN_IP));
    // A flag of the descriptor, whatever it is of.
    let descriptor = Socket::from(tun.fd);
    descriptor.set_nonblocking(false).unwrap();
    let mut from_host = File::from(OwnedFd::from(descriptor));
    let mut to_host = from_host.try_clone().unwrap();
    let to = SockAddr::from(SocketAddr::new(outer_peer, 0));
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(len) = from_host.read(&mut buffer) {
            let packet = buffer.get(VNET_HEADER..len).unwrap_or(&[]);
            // What is not IPv4 is the kernel's own talk about neighbours.
            if packet.first().is_some_and(|byte| byte >> 4 == 4) {
                if packet.get(9) == Some(&UDP) {
                    seen[usize::from(packet[1] >> 2)].fetch_add(1, Ordering::Relaxed);
                }
                // What the interface has no room for is lost, as on any link.
                let _ = sending.send_to(&encapsulate(packet, outer, outer_peer), &to);
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(len) = arriving.read(&mut buffer) {
            if let Some(packet) = decapsulate(&buffer[..len], exit) {
                let _ = to_host.write(&packet);
            }
        }
    });
}

/// One end of a tunnel of the kernel's.
fn kernel_gateway(node: &Node, (inner, outer): (IpAddr, IpAddr), peer: IpAddr) {
    let link = format!(
        "link add tun9 mtu {KERNEL_MTU} type vxlan id 9 local {outer} remote {peer} dstport 4789 \
         tos inherit"
    );
    for arguments in [
        link,
        format!("address add {inner}/24 dev tun9"),
        "link set tun9 up".into(),
    ] {
        let mut ip = Command::new("ip");
        ip.args(arguments.split(' '));
        let status = node.spawn(ip, &[]).unwrap().wait().unwrap();
        assert!(status.success(), "ip {arguments}: {status}");
    }
}

fn chain() -> Chain {
    let port = |controller: &str| {
        format!(
            "rate = \"10Mbit\"\ndelay = \"{}ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"100ms\" }}\n",
            RTT.as_millis() / 2
        )
    };
    let program = RouterProgram {
        program: env!("CARGO_BIN_EXE_pathmark").into(),
        prefix: vec!["vcp-router".to_owned()],
    };
    // Tunnels between the two gateways carry VCP's code in the outer header.
    let ecn = format!("\n[[ecn]]\nprefix = \"{RECEIVER}/32\"\n");
    let hop = Hop {
        forward: port("vcp"),
        reverse: port("none") + &ecn,
    };
    Chain::new(program, MTU, &[hop]).unwrap()
}

/// A server on the sending side and a client on the other, through a tunnel or without one.
struct Path {
    server: Endpoint,
    client: Endpoint,
    config: ClientConfig,
    at: SocketAddr,
    /// What entered the tunnel, at either end.
    seen: Arc<CodePoints>,
    _chain: Chain,
}

impl Path {
    fn new(algorithm: &str, tunnel: Option<Tunnel>) -> Self {
        Self::with_dscp(algorithm, tunnel, 0)
    }

    fn with_dscp(algorithm: &str, tunnel: Option<Tunnel>, dscp: u8) -> Self {
        let chain = chain();
        let seen = Arc::new([const { AtomicU64::new(0) }; 64]);
        let (mut here, mut there) = (SENDER, RECEIVER);
        let (sender, receiver) = ((INNER_SENDER, SENDER), (INNER_RECEIVER, RECEIVER));
        match tunnel {
            None => {}
            Some(Tunnel::Own(exit)) => {
                gateway(&chain.sender, sender, receiver, Exit::Copy, &seen);
                gateway(&chain.receiver, receiver, sender, exit, &seen);
            }
            Some(Tunnel::Kernel) => {
                kernel_gateway(&chain.sender, sender, RECEIVER);
                kernel_gateway(&chain.receiver, receiver, SENDER);
            }
        }
        if tunnel.is_some() {
            (here, there) = (INNER_SENDER, INNER_RECEIVER);
        }
        let made = rcgen::generate_simple_self_signed(["sender".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
        let trust = Trust::Pin(tls.pin().unwrap());
        let mut transport = pathmark::transport_config(&Algorithm::parse(algorithm).unwrap());
        transport.dscp = dscp;
        let transport = Arc::new(transport);
        let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
        let at = SocketAddr::new(here, 4433);
        let server = Endpoint::new(chain.sender.udp(at).unwrap(), Some(config)).unwrap();
        let socket = chain.receiver.udp(SocketAddr::new(there, 0)).unwrap();
        let client = Endpoint::new(socket, None).unwrap();
        let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
        Self {
            server,
            client,
            config: ClientConfig::new(Arc::new(tls), transport),
            at,
            seen,
            _chain: chain,
        }
    }

    /// A connection; `sent` bytes are on their way over it from the server, which is the first of
    /// the pair.
    async fn download(&self, bytes: usize) -> (Connection, tokio::task::JoinHandle<usize>) {
        let connecting = self
            .client
            .connect_with(self.config.clone(), self.at, "sender");
        let accepting = async { self.server.accept().await.unwrap().accept().unwrap().await };
        let (ours, theirs) = tokio::try_join!(connecting.unwrap(), accepting).unwrap();
        let sender = theirs.clone();
        tokio::spawn(async move {
            let mut stream = sender.open_uni().await.unwrap();
            // The test may be over before the transfer is.
            if stream.write_all(&vec![7; bytes]).await.is_ok() {
                let _ = stream.finish();
            }
        });
        let receiving = tokio::spawn(async move {
            let mut stream = ours.accept_uni().await.unwrap();
            stream.read_to_end(bytes).await.map_or(0, |data| data.len())
        });
        (theirs, receiving)
    }

    /// Mean completion of three files of `bytes` that start together, in seconds.
    async fn mean_completion(&self, bytes: usize) -> f64 {
        let begun = now();
        let file = || async {
            let (connection, receiving) = self.download(bytes).await;
            assert_eq!(receiving.await.unwrap(), bytes);
            // The server accepts the connections in any order: none may close before all are done.
            (connection, begun.elapsed().as_secs_f64())
        };
        let (a, b, c) = tokio::join!(file(), file(), file());
        (a.1 + b.1 + c.1) / 3.0
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test over real links owns its clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// Behind a gateway only DSCP tells a router whose ECN field it may write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_packet_has_the_code_point_and_the_codes_arrive_with_it() {
    let path = Path::with_dscp("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Copy)), 46);
    let (sender, receiving) = path.download(1_000_000).await;
    assert_eq!(receiving.await.unwrap(), 1_000_000);
    let report = sender.path_report();
    assert!(report.controller.explicit, "{report:?}");
    for (dscp, packets) in path.seen.iter().enumerate() {
        let packets = packets.load(Ordering::Relaxed);
        assert_eq!(packets > 0, dscp == 46, "{packets} with {dscp}");
    }
}

/// The sender follows the codes that the router wrote into the outer header.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_get_through_a_tunnel_of_the_kernels() {
    let path = Path::with_dscp("vcp[carrier=ecn]", Some(Tunnel::Kernel), 46);
    let (sender, receiving) = path.download(2_000_000).await;
    assert_eq!(receiving.await.unwrap(), 2_000_000);
    let report = sender.path_report();
    assert!(report.controller.explicit, "{report:?}");
    assert_eq!(report.controller.ruling, "vcp", "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_take_as_long_as_with_a_shim() {
    const BYTES: usize = 2_500_000;
    let shim = Path::new("vcp", None);
    let copied = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Copy)));
    let by_rfc = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Rfc6040)));
    let kernel = Path::new("vcp[carrier=ecn]", Some(Tunnel::Kernel));
    let (shim, copied, by_rfc, kernel) = tokio::join!(
        shim.mean_completion(BYTES),
        copied.mean_completion(BYTES),
        by_rfc.mean_completion(BYTES),
        kernel.mean_completion(BYTES)
    );
    println!(
        "shim {shim:.2} s, ECN copied {copied:.2} s, by RFC 6040 {by_rfc:.2} s, by the kernel's \
         tunnel {kernel:.2} s"
    );
    for tunnel in [copied, by_rfc, kernel] {
        assert!(tunnel <= 1.1 * shim, "{tunnel} {shim}");
    }
}

/// For how many of its smoothed round trips the sender followed codes, from the receiver's first
/// word on.
async fn believed(exit: Exit) -> f64 {
    let path = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(exit)));
    let (sender, receiving) = path.download(100_000_000).await;
    let (mut first, mut believed) = (None, 0.0f64);
    let begun = now();
    // A report over time is sampled: nothing tells when it changes.
    while begun.elapsed() < 20 * RTT {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let report = sender.path_report();
        if sender.stats().feedback_received > 0 {
            let first = *first.get_or_insert_with(now);
            if report.controller.explicit {
                let rtt = report.smoothed_rtt.expect("measured");
                believed = first.elapsed().as_secs_f64() / rtt.as_secs_f64();
            }
        }
    }
    receiving.abort();
    let report = sender.path_report();
    assert!(first.is_some(), "{exit:?}: feedback");
    assert_eq!(report.controller.ruling, "cubic", "{exit:?}: {report:?}");
    believed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bleached_and_constant_fields_are_found_within_three_round_trips() {
    let exits = [0, 1, 2, 3].map(Exit::Always);
    let [a, b, c, d] = exits.map(believed);
    let (bleached, low, high, over) = tokio::join!(a, b, c, d);
    println!(
        "round trips of belief: {bleached:.2} bleached, {low:.2}, {high:.2}, {over:.2} constant"
    );
    for rounds in [bleached, low, high, over] {
        assert!(rounds <= 3.0, "{rounds}");
    }
}
