//! Two hosts and a `vcp-router` between them, on real TUN interfaces in namespaces of the test's
//! own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pathmark_testbed::{ChildGuard, Node, Testbed, Tun};
use serde_json::Value;
use socket2::{Domain, Socket};
use tempfile::TempDir;

use crate::cards::{next_line, run};

/// Addresses of a host on its own link.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) v4: &'static str,
    pub(crate) v6: &'static str,
}

pub(crate) const LEFT: Host = Host {
    v4: "10.0.1.2",
    v6: "fd00:1::2",
};
pub(crate) const RIGHT: Host = Host {
    v4: "10.0.2.2",
    v6: "fd00:2::2",
};

/// Where a router tells Prometheus of itself, in its own namespace.
const METRICS: &str = "127.0.0.1:9464";

pub(crate) struct Bed {
    pub(crate) left: Node,
    pub(crate) right: Node,
    pub(crate) middle: Node,
    tuns: [Tun; 2],
    pub(crate) dir: TempDir,
    /// Keys of the router itself, for its configuration.
    pub(crate) keys: String,
    router: Option<ChildGuard>,
}

impl Bed {
    /// Namespaces and interfaces, without a router yet.
    pub(crate) fn new() -> Self {
        let bed = Testbed::new().expect(
            "these tests need user namespaces and /dev/net/tun; allow them, or run as root",
        );
        let host = |name: &str, host: Host| {
            let node = bed.node(name).expect("a network namespace");
            let tun = node.tun("tun0", 1500).expect("a TUN interface");
            for address in [format!("{}/24", host.v4), format!("{}/64", host.v6)] {
                node.add_address("tun0", address.parse().unwrap()).unwrap();
            }
            for prefix in ["0.0.0.0/0", "::/0"] {
                let prefix = prefix.parse().unwrap();
                node.add_route(prefix, "tun0", None).unwrap();
            }
            (node, tun)
        };
        let (left, left_tun) = host("left", LEFT);
        let (right, right_tun) = host("right", RIGHT);
        Self {
            middle: bed.node("router").unwrap(),
            left,
            right,
            tuns: [left_tun, right_tun],
            dir: tempfile::tempdir().unwrap(),
            keys: String::new(),
            router: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a configuration, but for the `control` and `metrics` in front.
    pub(crate) fn write(&self, text: &str) {
        let control = self.path("control.sock");
        let text = format!("control = {control:?}\nmetrics = \"{METRICS}\"\n{text}");
        std::fs::write(self.path("router.toml"), text).unwrap();
    }

    /// Writes the configuration: `left` and `right` are the keys of the ports that lead there.
    pub(crate) fn configure(&self, left: &str, right: &str) {
        let [a, b] = self.tuns.each_ref().map(|tun| tun.fd.as_raw_fd());
        let keys = &self.keys;
        self.write(&format!(
            "{keys}\n\
             [[port]]\nname = \"left\"\nfd = {a}\naddresses = [\"10.0.1.1\", \"fd00:1::1\"]\n\
             {left}\n\
             [[port]]\nname = \"right\"\nfd = {b}\n{right}\n\
             [[route]]\nprefix = \"10.0.1.0/24\"\nport = \"left\"\n\
             [[route]]\nprefix = \"fd00:1::/64\"\nport = \"left\"\n\
             [[route]]\nprefix = \"10.0.2.0/24\"\nport = \"right\"\n\
             [[route]]\nprefix = \"fd00:2::/64\"\nport = \"right\"\n"
        ));
    }

    /// Runs a program in the router's namespace: exit code, stdout and stderr.
    pub(crate) fn inside(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> (Option<i32>, String, String) {
        let mut command = Command::new(program);
        command.args(arguments);
        let said = run(&self.middle, command);
        (said.code, said.out, said.err)
    }

    /// Runs a line of shell in the router's namespace, which must succeed.
    pub(crate) fn does(&self, line: &str) {
        let (code, _, stderr) = self.inside("sh", &["-ec", line]);
        assert_eq!(code, Some(0), "{line}: {stderr}");
    }

    fn spawn(&self) -> ChildGuard {
        self.spawn_with(Stdio::piped(), Stdio::piped())
    }

    /// Starts a router that writes to these.
    pub(crate) fn spawn_with(&self, stdout: Stdio, stderr: Stdio) -> ChildGuard {
        let mut command = crate::vcp_router();
        command.args(["run", "--json", "--config"]);
        command.arg(self.path("router.toml"));
        command.arg("--record").arg(self.path("record.csv"));
        command.stdout(stdout).stderr(stderr);
        let inherit = self.tuns.each_ref().map(|tun| tun.fd.as_fd());
        self.middle.spawn(command, &inherit).unwrap()
    }

    /// Starts the router and waits until it is ready.
    pub(crate) fn start(&mut self) {
        self.router = Some(self.started().0);
    }

    /// A router that is ready, and what it says then.
    pub(crate) fn started(&self) -> (ChildGuard, Value) {
        let mut router = self.spawn();
        let mut line = String::new();
        let mut stdout = BufReader::new(router.child().stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("a line that says it is ready");
        assert_eq!(ready["ready"], true);
        (router, ready)
    }

    pub(crate) fn with(left: &str, right: &str) -> Self {
        let mut bed = Self::new();
        bed.configure(left, right);
        bed.start();
        bed
    }

    pub(crate) fn router(&mut self) -> &mut ChildGuard {
        self.router.as_mut().unwrap()
    }

    /// SIGHUP, and what the router says to it.
    pub(crate) fn reload(&mut self) -> String {
        self.router().hang_up().unwrap();
        self.next_reload()
    }

    /// What the router says to the next reload.
    pub(crate) fn next_reload(&mut self) -> String {
        next_line(self.router(), "eloaded")
    }

    /// A connection to the router's address for Prometheus.
    pub(crate) fn metrics(&self) -> TcpStream {
        self.connect(METRICS.parse().unwrap())
    }

    /// A TCP connection inside the router's namespace.
    pub(crate) fn connect(&self, address: SocketAddr) -> TcpStream {
        let socket = tcp_socket(&self.middle, false);
        socket.connect(&address.into()).unwrap();
        socket.into()
    }

    /// Runs `vcp-router COMMAND … --socket SOCKET`.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let socket = self.path("control.sock");
        vcp_router(&[arguments, &["--socket", socket.to_str().unwrap()]].concat())
    }

    /// What `show` prints in this form.
    pub(crate) fn shown(&self, form: &[&str]) -> String {
        let output = self.ask(&[&["show"], form].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn show(&self) -> Value {
        serde_json::from_str(&self.shown(&["--json"])).unwrap()
    }

    /// One of the router's counters.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.show()["counters"][name].as_u64().unwrap()
    }

    pub(crate) fn link(&self, name: &str) -> Value {
        let state = self.show();
        let links = state["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["name"] == name);
        link.unwrap().clone()
    }

    /// A TCP connection from left to right: both ends.
    pub(crate) fn tcp(&self, v6: bool) -> (TcpStream, TcpStream) {
        let listener = self.right.tcp_listener(address(RIGHT, v6, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.unconnected(v6);
        client.connect(&to.into()).unwrap();
        (client.into(), listener.accept().unwrap().0)
    }

    /// A TCP socket of the left host.
    pub(crate) fn unconnected(&self, v6: bool) -> Socket {
        tcp_socket(&self.left, v6)
    }

    /// UDP sockets of both hosts, connected to each other, that wait for ten seconds.
    pub(crate) fn udp(&self, v6: bool) -> (UdpSocket, UdpSocket) {
        let a = self.left.udp(address(LEFT, v6, 0)).unwrap();
        let b = self.right.udp(address(RIGHT, v6, 0)).unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        for socket in [&a, &b] {
            let patience = Some(Duration::from_secs(10));
            socket.set_read_timeout(patience).unwrap();
        }
        (a, b)
    }

    /// Sends one datagram from left to right, which arrives.
    pub(crate) fn pass_one(&self) {
        let (a, b) = self.udp(false);
        a.send(b"x").unwrap();
        b.recv(&mut [0; 10]).unwrap();
    }

    /// What the router still writes to its log until it ends.
    pub(crate) fn rest_of_log(&mut self) -> String {
        io::read_to_string(self.router().child().stderr.as_mut().unwrap()).unwrap()
    }

    /// SIGTERM, which ends the router cleanly.
    pub(crate) fn stop(&mut self) {
        self.router().terminate().unwrap();
        assert!(self.router().wait().unwrap().success());
    }
}

/// Waits until something holds, which it must within 30 s.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        let late = start.elapsed() > Duration::from_secs(30);
        assert!(!late, "not in time: {what}");
        thread::yield_now();
    }
}

fn tcp_socket(node: &Node, v6: bool) -> Socket {
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let fd = node.socket(domain.into(), socket2::Type::STREAM.into(), 0);
    Socket::from(fd.unwrap())
}

/// Pings from a host, one after the other.
pub(crate) struct Pinger {
    socket: Socket,
    sequence: u16,
}

impl Pinger {
    pub(crate) fn new(from: &Node, to: &str) -> Self {
        let fd = from.socket(Domain::IPV4.into(), socket2::Type::RAW.into(), 1);
        let socket = Socket::from(fd.unwrap());
        let to = SocketAddr::new(to.parse().unwrap(), 0);
        socket.connect(&to.into()).unwrap();
        let patience = Some(Duration::from_secs(2));
        socket.set_read_timeout(patience).unwrap();
        let sequence = 0;
        Self { socket, sequence }
    }

    /// Sends an echo request with `len` bytes of data; the time to its reply, if one comes within
    /// two seconds.
    pub(crate) fn ping(&mut self, len: usize) -> Option<Duration> {
        self.sequence = self.sequence.wrapping_add(1);
        let [high, low] = self.sequence.to_be_bytes();
        let mut request = vec![8, 0, 0, 0, 0x12, 0x34, high, low];
        request.extend(bytes(len));
        let sum = pathmark_shim::checksum::Sum::new().bytes(&request).finish();
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        let start = Instant::now();
        self.socket.send(&request).unwrap();
        let mut buffer = vec![0; 70_000];
        loop {
            let len = (&self.socket).read(&mut buffer).ok()?;
            let reply = &buffer[20..len];
            if reply[0] == 0 && reply[4..] == request[4..] {
                return Some(start.elapsed());
            }
        }
    }
}

pub(crate) fn address(host: Host, v6: bool, port: u16) -> SocketAddr {
    let ip: IpAddr = if v6 { host.v6 } else { host.v4 }.parse().unwrap();
    SocketAddr::new(ip, port)
}

pub(crate) fn vcp_router(arguments: &[&str]) -> Output {
    let output = crate::vcp_router().args(arguments).output();
    output.unwrap()
}

/// `len` bytes that are the same nowhere.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Sends `data` from one end to the other and compares what arrives.
pub(crate) fn transfer(mut from: TcpStream, mut to: TcpStream, data: &[u8]) {
    let expected = data.to_vec();
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        to.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), expected.len());
        assert!(got == expected, "the bytes differ");
    });
    from.write_all(data).unwrap();
    drop(from);
    reader.join().unwrap();
}
