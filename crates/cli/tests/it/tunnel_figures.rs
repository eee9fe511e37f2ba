//! Figures of `pathmark proxy` and `pathmark tunnel`, printed with their conditions. Each is a run
//! of its own on an idle machine:
//!
//! ```sh
//! cargo test --release -p pathmark-cli --test it tunnel_figures::NAME -- --ignored --nocapture
//! ```

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use pathmark_cli::demo::bed::{CLIENT, SERVER};
use pathmark_testbed::{ChildGuard, Node, Testbed};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::common::long_path::path;
use crate::common::on_node::start;

/// A proxy and a tunnel, each on a node, with one forward to a target on the proxy's node.
struct Pair {
    proxy: ChildGuard,
    tunnel: ChildGuard,
    forward: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Pair {
    fn new(far: (&Node, IpAddr), near: &Node, target: SocketAddr) -> Self {
        Self::with(far, near, target, &[])
    }

    /// With more arguments of the tunnel.
    fn with(
        (far, address): (&Node, IpAddr),
        near: &Node,
        target: SocketAddr,
        more: &[&str],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let tokens = path("tokens");
        std::fs::write(&tokens, "a 0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&tokens, PermissionsExt::from_mode(0o600)).unwrap();
        let listen = SocketAddr::new(address, 4433);
        let text = format!(
            "listen = '{listen}'\ntokens = 'tokens'\nallow = ['0.0.0.0/0']\n\
             [limits]\nflows = 30000\nflows_per_user = 30000\n"
        );
        std::fs::write(path("proxy.toml"), text).unwrap();
        let config = path("proxy.toml");
        let (proxy, said) = start(far, &["proxy", "--show-uri", "--config", &config]);
        std::fs::write(path("uri"), said["uris"][0]["uri"].as_str().unwrap()).unwrap();
        let (uri, forward) = (path("uri"), format!("127.0.0.1:0:{target}"));
        let arguments = [&["tunnel", "--uri-file", &uri, "-L", &forward], more].concat();
        let (tunnel, said) = start(near, &arguments);
        let forward = said["listeners"][0]["address"].as_str().unwrap();
        Self {
            proxy,
            tunnel,
            forward: forward.parse().unwrap(),
            _directory: directory,
        }
    }

    /// Descriptors and resident memory in MiB of the proxy and of the tunnel.
    fn taken(&self) -> String {
        let of = |guard: &ChildGuard| {
            let process = format!("/proc/{}", guard.id());
            let files = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
            let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:"));
            let kib = line.and_then(|line| line.split_whitespace().nth(1));
            let kib: u64 = kib.unwrap().parse().unwrap();
            format!("{files} descriptors, {} MiB", kib / 1024)
        };
        format!("proxy {}; tunnel {}", of(&self.proxy), of(&self.tunnel))
    }
}

/// A listener of a node.
fn listener(node: &Node, address: SocketAddr) -> TcpListener {
    let listener = node.tcp_listener(address).unwrap();
    SockRef::from(&listener).listen(4096).unwrap();
    listener.set_nonblocking(true).unwrap();
    TcpListener::from_std(listener).unwrap()
}

/// Connects from a node.
async fn connect(node: &Node, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = node.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(true)?;
    TcpSocket::from_std_stream(socket).connect(to).await
}

/// Answers each byte with one, until the client ends.
async fn echo(listener: TcpListener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(async move {
            while let Ok(byte) = stream.read_u8().await {
                if stream.write_u8(byte).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends this many bytes to each client, then the end.
async fn source(listener: TcpListener, bytes: usize) {
    let chunk = vec![7; 256 * 1024];
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let chunk = chunk.clone();
        tokio::spawn(async move {
            let mut left = bytes;
            while left > 0 {
                let piece = left.min(chunk.len());
                if stream.write_all(&chunk[..piece]).await.is_err() {
                    return;
                }
                left -= piece;
            }
        });
    }
}

/// One node, on whose loopback all is.
async fn one_node() -> (Testbed, Node, Pair) {
    let bed = Testbed::new().unwrap();
    let node = bed.node("all").unwrap();
    let target = listener(&node, "127.0.0.1:7000".parse().unwrap());
    let address = target.local_addr().unwrap();
    tokio::spawn(echo(target));
    let pair = Pair::new((&node, [127, 0, 0, 1].into()), &node, address);
    (bed, node, pair)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a figure: 9,000 flows at once"]
async fn flows_at_once() {
    // The hard limit of descriptors is 20,000 on many machines, and this process has two for each.
    const FLOWS: usize = 9_000;
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, hard) = nix::sys::resource::getrlimit(limit).unwrap();
    nix::sys::resource::setrlimit(limit, hard, hard).unwrap();
    let (_bed, node, pair) = one_node().await;
    println!("before: {}", pair.taken());
    for round in 1..=2 {
        let began = Instant::now();
        let mut flows = Vec::new();
        for _ in 0..FLOWS {
            let mut flow = connect(&node, pair.forward).await.unwrap();
            flow.write_u8(1).await.unwrap();
            flows.push(flow);
        }
        for flow in &mut flows {
            assert_eq!(flow.read_u8().await.unwrap(), 1);
        }
        let took = began.elapsed();
        println!(
            "round {round}: {FLOWS} flows open after {took:.1?}: {}",
            pair.taken()
        );
        for flow in &mut flows {
            flow.write_u8(2).await.unwrap();
            assert_eq!(flow.read_u8().await.unwrap(), 2);
        }
        drop(flows);
        tokio::time::sleep(Duration::from_secs(5)).await;
        println!("round {round}: 5 s after their end: {}", pair.taken());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a figure: new flows per second, twice for PATHMARK_SECONDS"]
async fn new_flows() {
    let seconds = std::env::var("PATHMARK_SECONDS").map_or(10, |text| text.parse().unwrap());
    let each = Duration::from_secs(seconds);
    let (_bed, node, pair) = one_node().await;
    // TIME_WAIT would use up the ports.
    node.sysctl("net.ipv4.tcp_tw_reuse", "1").unwrap();
    node.sysctl("net.ipv4.ip_local_port_range", "10000 65000")
        .unwrap();
    println!("before: {}", pair.taken());
    for round in 1..=2 {
        let began = Instant::now();
        let mut workers = JoinSet::new();
        for _ in 0..64 {
            let (node, forward) = (node.clone(), pair.forward);
            workers.spawn(async move {
                let mut flows = 0;
                while began.elapsed() < each {
                    let mut flow = connect(&node, forward).await.unwrap();
                    flow.write_u8(1).await.unwrap();
                    assert_eq!(flow.read_u8().await.unwrap(), 1);
                    flows += 1;
                }
                flows
            });
        }
        let flows: u64 = workers.join_all().await.iter().sum();
        let rate = flows as f64 / began.elapsed().as_secs_f64();
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!(
            "round {round}: {flows} flows, {rate:.0} each second: {}",
            pair.taken()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a figure: throughput on loopback"]
async fn loopback() {
    const BYTES: usize = 2 << 30;
    let bed = Testbed::new().unwrap();
    let node = bed.node("all").unwrap();
    let target = listener(&node, "127.0.0.1:7001".parse().unwrap());
    let address = target.local_addr().unwrap();
    let flows_of = [1, 8];
    for flows in flows_of {
        let target = listener(&node, SocketAddr::new(address.ip(), 7100 + flows));
        let to = target.local_addr().unwrap();
        let bytes = BYTES / usize::from(flows);
        tokio::spawn(source(target, bytes));
        let pair = Pair::new((&node, [127, 0, 0, 1].into()), &node, to);
        for (what, through) in [("direct TCP", to), ("tunnel", pair.forward)] {
            let began = Instant::now();
            let mut clients = JoinSet::new();
            for _ in 0..flows {
                let node = node.clone();
                clients.spawn(async move { read(&node, through).await });
            }
            let got: usize = clients.join_all().await.iter().sum();
            assert_eq!(got, bytes * usize::from(flows));
            let rate = got as f64 * 8e-9 / began.elapsed().as_secs_f64();
            println!("{flows} flows, {what}: {rate:.2} Gbit/s");
        }
    }
}

/// Reads a flow to its end: how many bytes it had.
async fn read(node: &Node, from: SocketAddr) -> usize {
    let mut flow = connect(node, from).await.unwrap();
    let (mut buffer, mut got) = (vec![0; 256 * 1024], 0);
    loop {
        match flow.read(&mut buffer).await.unwrap() {
            0 => return got,
            more => got += more,
        }
    }
}

/// Round trips until the first byte of a new flow has come back.
async fn first_byte(node: &Node, through: SocketAddr) -> f64 {
    let began = Instant::now();
    let mut flow = connect(node, through).await.unwrap();
    flow.write_u8(1).await.unwrap();
    assert_eq!(flow.read_u8().await.unwrap(), 1);
    began.elapsed().as_secs_f64() / 0.6
}

/// A request and its answer take one round trip, and two where the request waits for the target.
#[tokio::test(flavor = "multi_thread")]
async fn first_bytes_go_with_the_request() {
    let bed = path(100_000_000, 0.0, "cubic");
    let target = listener(bed.server(), SocketAddr::new(SERVER, 7000));
    let to = target.local_addr().unwrap();
    tokio::spawn(echo(target));
    let far = (bed.server(), SERVER);
    let pair = Pair::with(far, bed.client(), to, &["--fast-open"]);
    // The tunnel has its connection then.
    first_byte(bed.client(), pair.forward).await;
    let early = first_byte(bed.client(), pair.forward).await;
    let direct = first_byte(bed.client(), to).await;
    println!("{early:.2} round trips, directly {direct:.2}");
    assert!(early < 1.5 && direct >= 2.0, "{early} {direct}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a figure: 100 flows of 10 kB over 600 ms"]
async fn short_flows_over_a_long_path() {
    for law in ["cubic", "vcp+bise+wlte", "xcp"] {
        short_flows(law).await;
    }
}

async fn short_flows(law: &str) {
    let bed = path(100_000_000, 0.0, law);
    let target = listener(bed.server(), SocketAddr::new(SERVER, 7000));
    let to = target.local_addr().unwrap();
    tokio::spawn(source(target, 10_000));
    let pair = Pair::new((bed.server(), SERVER), bed.client(), to);
    // The tunnel has its connection: a first flow is not counted.
    assert_eq!(read(bed.client(), pair.forward).await, 10_000);
    println!("client {CLIENT}, 100 Mbit/s, 600 ms, no loss, a port for {law}");
    for (what, through) in [("direct TCP", to), ("tunnel", pair.forward)] {
        let began = Instant::now();
        let mut flows = JoinSet::new();
        for _ in 0..100 {
            let node = bed.client().clone();
            flows.spawn(async move {
                assert_eq!(read(&node, through).await, 10_000);
                began.elapsed().as_secs_f64() / 0.6
            });
        }
        let mut took = flows.join_all().await;
        took.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.2} round trips, last {:.2}",
            took[50], took[99]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a figure: one flow over 100 Mbit/s, 600 ms and 1 % loss, next to the kernel's"]
async fn one_flow_over_a_lossy_path() {
    const TIME: Duration = Duration::from_secs(30);
    for law in ["vcp+bise+wlte", "cubic", "bbr"] {
        let bed = path(100_000_000, 0.01, law);
        for (port, control) in (7000..).zip(["tunnel", "cubic", "bbr"]) {
            if control != "tunnel" && law != "cubic" {
                // The kernel's, once, at a port without a law.
                continue;
            }
            let target = listener(bed.server(), SocketAddr::new(SERVER, port));
            if control != "tunnel" {
                SockRef::from(&target)
                    .set_tcp_congestion(control.as_bytes())
                    .unwrap();
            }
            let to = target.local_addr().unwrap();
            let serving = tokio::spawn(source(target, usize::MAX));
            let pair = (control == "tunnel").then(|| {
                let pair = Pair::new((bed.server(), SERVER), bed.client(), to);
                (pair.forward, pair)
            });
            let through = pair.as_ref().map_or(to, |(forward, _)| *forward);
            let mut flow = connect(bed.client(), through).await.unwrap();
            let (mut buffer, mut got) = (vec![0; 256 * 1024], 0);
            let began = Instant::now();
            while began.elapsed() < TIME {
                got += flow.read(&mut buffer).await.unwrap();
            }
            let rate = got as f64 * 8e-6 / began.elapsed().as_secs_f64();
            let name = match control {
                "tunnel" => format!("tunnel (--cc auto), a port for {law}"),
                control => format!("kernel {control}, a port without a law"),
            };
            println!("{name}: {rate:.1} Mbit/s in {TIME:?}");
            serving.abort();
        }
    }
}
