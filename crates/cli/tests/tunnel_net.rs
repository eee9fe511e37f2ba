//! `pathmark proxy` and `pathmark tunnel` as processes in namespaces, whose network changes.
//!
//! ```text
//!   inside ──── gateway: tunnel ──── outside: proxy, targets
//! ```

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::pathmark;
use pathmark_testbed::{ChildGuard, IpNet, Node, Testbed};
use serde_json::Value;

const WAIT: Duration = Duration::from_secs(30);
/// Addresses of the proxy.
const PROXIES: [&str; 2] = ["203.0.113.2", "203.0.113.3"];
/// Addresses of targets, on the node outside.
const TARGETS: [&str; 4] = [
    "198.51.100.9",
    "198.51.100.10",
    "2001:db8:9::9",
    "2001:db8:9::10",
];

struct Bed {
    inside: Node,
    gateway: Node,
    outside: Node,
    directory: tempfile::TempDir,
}

/// A process on a node.
struct Running {
    guard: ChildGuard,
    /// The object that it has printed.
    said: Value,
    log: Receiver<String>,
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn run(node: &Node, script: &str) -> String {
    let mut shell = Command::new("sh");
    let path = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";
    shell.args(["-e", "-c", script]).env("PATH", path);
    shell.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut shell = node.spawn(shell, &[]).unwrap();
    let mut text = String::new();
    let mut stdout = shell.child().stdout.take().unwrap();
    stdout.read_to_string(&mut text).unwrap();
    assert!(shell.wait().unwrap().success(), "{script}");
    text
}

impl Running {
    fn new(node: &Node, mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = node.spawn(command, &[]).unwrap();
        let mut line = String::new();
        let stdout = guard.child().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let stderr = guard.child().stderr.take().unwrap();
        let (lines, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let said = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log: Vec<_> = log.iter().collect();
            panic!("{line}{log:?}")
        });
        Self { guard, said, log }
    }

    /// Waits for a line of the log that has `words`.
    #[track_caller]
    fn logged(&self, words: &str) {
        let mut before = Vec::new();
        loop {
            match self.log.recv_timeout(WAIT) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => before.push(line),
                Err(error) => panic!("{error}: no `{words}` in {before:#?}"),
            }
        }
    }

    /// The address of a listener.
    fn listener(&self, kind: &str) -> SocketAddr {
        let listeners = self.said["listeners"].as_array().unwrap();
        let address = |listener: &Value| listener["address"].as_str().unwrap().parse().unwrap();
        listeners
            .iter()
            .filter(|listener| listener["kind"] == kind)
            .map(address)
            .find(SocketAddr::is_ipv4)
            .unwrap()
    }
}

impl Bed {
    fn new() -> Self {
        let bed = Testbed::new().unwrap();
        let [inside, gateway, outside] =
            ["inside", "gateway", "outside"].map(|name| bed.node(name).unwrap());
        bed.veth((&inside, "a"), (&gateway, "b"), 1500).unwrap();
        bed.veth((&gateway, "c"), (&outside, "d"), 1500).unwrap();
        for (node, interface, addresses) in [
            (&inside, "a", &["192.168.7.2/24", "fd00:7::2/64"][..]),
            (&gateway, "b", &["192.168.7.1/24", "fd00:7::1/64"]),
            (&gateway, "c", &["203.0.113.1/24", "2001:db8:2::1/64"]),
            (&outside, "d", &["203.0.113.2/24", "203.0.113.3/24"]),
            (&outside, "d", &["2001:db8:2::2/64"]),
        ] {
            for address in addresses {
                node.add_address(interface, net(address)).unwrap();
            }
        }
        for target in TARGETS {
            outside.add_address("d", ip(target).into()).unwrap();
        }
        for (node, interface, routers) in [
            (&inside, "a", ["192.168.7.1", "fd00:7::1"]),
            (&gateway, "c", ["203.0.113.2", "2001:db8:2::2"]),
            (&outside, "d", ["203.0.113.1", "2001:db8:2::1"]),
        ] {
            let [v4, v6] = routers.map(|router| Some(ip(router)));
            node.add_route(net("0.0.0.0/0"), interface, v4).unwrap();
            node.add_route(net("::/0"), interface, v6).unwrap();
        }
        gateway.forward().unwrap();
        Self {
            inside,
            gateway,
            outside,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Starts a proxy, and writes its URI, with `name` in place of its address if there is one.
    fn proxy(&self, address: &str, name: Option<&str>) -> Running {
        let config = self.path("proxy.toml");
        let text = format!(
            "listen = '{address}:4433'\ntokens = 'tokens'\ncontrol = 'control.sock'\n\
             allow = ['198.51.100.0/24', '2001:db8:9::/64']\n"
        );
        std::fs::write(&config, text).unwrap();
        let command = pathmark(&["proxy", "--json", "--show-uri", "--config", &config]);
        let proxy = Running::new(&self.outside, command);
        let uri = proxy.said["uris"][0]["uri"].as_str().unwrap();
        let uri = uri.replace(address, name.unwrap_or(address));
        std::fs::write(self.path("uri"), uri).unwrap();
        proxy
    }

    /// Starts a tunnel that finds names in the file `hosts`.
    fn tunnel(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        command.args(["-m", "sh", "-c", script, &self.path("hosts")]);
        let hosts = self.path("hosts");
        if !std::path::Path::new(&hosts).exists() {
            std::fs::write(hosts, "").unwrap();
        }
        let program = pathmark(&[]);
        command.arg(program.get_program()).env_remove("RUST_LOG");
        command.args(["tunnel", "--json", "--uri-file", &self.path("uri")]);
        command.args(arguments).stdin(Stdio::null());
        let tunnel = Running::new(&self.gateway, command);
        tunnel.logged("connected");
        tunnel
    }

    /// A counter of the proxy.
    fn counted(&self, name: &str) -> u64 {
        let show = [
            "proxy",
            "show",
            "--json",
            "--config",
            &self.path("proxy.toml"),
        ];
        let shown = pathmark(&show).output().unwrap().stdout;
        let shown: Value = serde_json::from_slice(&shown).unwrap();
        shown["counts"][name].as_u64().unwrap()
    }

    fn rules(&self) {
        let mut command = pathmark(&["tunnel", "rules", "--tproxy", "12345", "--uri-file"]);
        command.arg(self.path("uri"));
        let mut rules = self.gateway.spawn(command, &[]).unwrap();
        assert!(rules.wait().unwrap().success());
    }

    /// A target that returns each datagram.
    fn echo(&self, address: SocketAddr) {
        let socket = self.outside.udp(address).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
    }

    /// A target that returns what it reads.
    fn echo_tcp(&self, address: SocketAddr) {
        let listener = self.outside.tcp_listener(address).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut read = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut read, &mut stream);
                });
            }
        });
    }

    fn client(&self, node: &Node, address: &str) -> UdpSocket {
        let socket = node.udp(SocketAddr::new(ip(address), 0)).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket
    }

    /// A connection on the gateway itself.
    fn connect(&self, to: SocketAddr) -> TcpStream {
        let socket = self.gateway.socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let socket = socket2::Socket::from(socket.unwrap());
        socket.connect(&to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream
    }
}

#[track_caller]
fn echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut got = vec![0; text.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, text);
}

/// Sends a datagram until it comes back: those of a connection that was lost are lost.
#[track_caller]
fn echoes_in_the_end(socket: &UdpSocket, to: SocketAddr, text: &[u8]) {
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut got = [0; 100];
    for _ in 0..150 {
        socket.send_to(text, to).unwrap();
        if let Ok(length) = socket.recv(&mut got)
            && &got[..length] == text
        {
            return;
        }
    }
    panic!("{} did not come back", String::from_utf8_lossy(text));
}

/// The applications know of no tunnel: one socket has two targets, and answers have the source
/// that the application expects.
#[test]
fn datagrams_of_the_gateway_and_of_a_subnet_take_the_tunnel() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let tunnel = bed.tunnel(&["--tproxy", "12345"]);
    for target in TARGETS {
        bed.echo(SocketAddr::new(ip(target), 53));
    }
    bed.rules();
    for (node, addresses) in [
        (&bed.inside, ["192.168.7.2", "fd00:7::2"]),
        (&bed.gateway, ["203.0.113.1", "2001:db8:2::1"]),
    ] {
        for (at, targets) in [(0, &TARGETS[..2]), (1, &TARGETS[2..])] {
            let (first, second) = (
                bed.client(node, addresses[at]),
                bed.client(node, addresses[at]),
            );
            for round in 0..3_u8 {
                for (client, name) in [(&first, b'a'), (&second, b'b')] {
                    for (number, target) in (0..).zip(targets) {
                        let to = SocketAddr::new(ip(target), 53);
                        client.send_to(&[name, number, round], to).unwrap();
                        let mut got = [0; 10];
                        let (length, from) = client.recv_from(&mut got).unwrap();
                        assert_eq!((length, from), (3, to), "{target}");
                        assert_eq!(got[..3], [name, number, round], "{target}");
                    }
                }
            }
        }
    }
    // Nothing has left the gateway directly: the targets have seen the proxy alone.
    let passed = run(&bed.gateway, "nft list table inet pathmark_tunnel");
    assert!(passed.contains("meta l4proto udp tproxy ip6"), "{passed}");
    drop(tunnel);
    let client = bed.client(&bed.inside, "192.168.7.2");
    client
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    client
        .send_to(b"direct", SocketAddr::new(ip(TARGETS[0]), 53))
        .unwrap();
    assert!(client.recv(&mut [0; 10]).is_err());
    let dropped = run(&bed.gateway, "nft list table inet pathmark_tunnel");
    assert!(!dropped.contains("counter packets 0 "), "{dropped}");
}

/// Packets of 1,280 bytes, which each path of IPv6 carries (RFC 8200 section 5), pass a path of
/// 1,500 bytes. Once its MTU is known, none goes as a capsule.
#[test]
fn ipv6_packets_of_1280_bytes_pass_a_path_of_1500() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let _tunnel = bed.tunnel(&["--tproxy", "12345"]);
    let to = SocketAddr::new(ip(TARGETS[2]), 53);
    bed.echo(to);
    bed.rules();
    let client = bed.client(&bed.inside, "fd00:7::2");
    // Less the headers of IPv6 and UDP.
    let packet = [7; 1280 - 48];
    let mut got = [0; 2000];
    let whole = (0..100).any(|_| {
        let before = bed.counted("capsules_down");
        for _ in 0..3 {
            client.send_to(&packet, to).unwrap();
            assert_eq!(client.recv_from(&mut got).unwrap(), (packet.len(), to));
        }
        bed.counted("capsules_down") == before
    });
    assert!(whole, "each packet went as a capsule");
}

/// The proxy is killed and comes back, then its name leads to another address.
#[test]
fn a_proxy_that_restarts_and_moves_is_found_again() {
    let bed = Bed::new();
    let name = Some("proxy.test");
    let hosts = |address: &str| {
        std::fs::write(bed.path("hosts"), format!("{address} proxy.test\n")).unwrap();
    };
    let to = SocketAddr::new(ip(TARGETS[0]), 7);
    bed.echo(to);
    bed.echo_tcp(to);
    hosts(PROXIES[0]);
    let mut proxy = bed.proxy(PROXIES[0], name);
    let forwards = ["-L", &format!("0:{to}"), "-L", &format!("0:{to}/udp")];
    let tunnel = bed.tunnel(&forwards);
    let (tcp, udp) = (tunnel.listener("forward"), tunnel.listener("udp forward"));
    let client = bed.client(&bed.gateway, "127.0.0.1");
    let mut first = bed.connect(tcp);
    echoes(&mut first, b"first");
    echoes_in_the_end(&client, udp, b"first");

    proxy.guard.kill().unwrap();
    drop(proxy);
    let proxy = bed.proxy(PROXIES[0], name);
    tunnel.logged("connection lost");
    tunnel.logged("connected");
    // A flow of TCP ends with its connection: a proxy cannot continue what another began.
    assert!(!matches!(first.read(&mut [0]), Ok(1)));
    echoes(&mut bed.connect(tcp), b"second");
    echoes_in_the_end(&client, udp, b"second");

    proxy.guard.terminate().unwrap();
    tunnel.logged("connection lost");
    hosts(PROXIES[1]);
    drop(proxy);
    let _proxy = bed.proxy(PROXIES[1], name);
    tunnel.logged("the name has other addresses");
    tunnel.logged("connected");
    echoes(&mut bed.connect(tcp), b"third");
    echoes_in_the_end(&client, udp, b"third");
}

#[test]
fn flows_go_on_when_the_clients_address_changes() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let to = SocketAddr::new(ip(TARGETS[0]), 7);
    bed.echo_tcp(to);
    let tunnel = bed.tunnel(&["-L", &format!("0:{to}")]);
    let mut flow = bed.connect(tunnel.listener("forward"));
    echoes(&mut flow, b"before");
    for address in ["203.0.113.77", "203.0.113.78"] {
        run(
            &bed.gateway,
            &format!(
                "ip addr flush dev c scope global; ip addr add {address}/24 dev c; \
                 ip route add default via 203.0.113.2"
            ),
        );
        echoes(&mut flow, b"after");
        tunnel.logged("the connection goes on");
    }
}
