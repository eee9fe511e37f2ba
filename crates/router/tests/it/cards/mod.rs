//! A host on either side and between them a box with two network cards, a kernel that forwards, and
//! `vcp-router`:
//!
//! ```text
//!   lan (10.0.1.2) ── lan0 ─ box ─ wan0 ── wan (203.0.113.2)
//! ```

mod udp;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pathmark_testbed::{ChildGuard, Node, Testbed};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use tempfile::TempDir;

/// Addresses of a host: IPv4, IPv6.
pub(crate) type Host = [&'static str; 2];

pub(crate) struct Cards {
    pub(crate) lan: Node,
    pub(crate) kernel: Node,
    pub(crate) wan: Node,
    pub(crate) hosts: Hosts,
    pub(crate) dir: TempDir,
    /// Of the router.
    pub(crate) environment: Vec<(&'static str, String)>,
    router: Option<ChildGuard>,
}

/// Who is on either side.
#[derive(Clone, Copy)]
pub(crate) struct Hosts {
    pub(crate) lan: Host,
    pub(crate) wan: Host,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Asserts that the command ended with this code, and that its errors have these parts.
    #[track_caller]
    pub(crate) fn ended(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part}: {self:?}");
        }
    }
}

impl Cards {
    /// Two networks; the box forwards between them, nothing is steered yet.
    pub(crate) fn new() -> Self {
        let hosts = Hosts {
            lan: ["10.0.1.2", "fd00:1::2"],
            wan: ["203.0.113.2", "fd00:2::2"],
        };
        let [lan, wan] = [["10.0.1.1", "fd00:1::1"], ["203.0.113.1", "fd00:2::1"]];
        let cards = Self::of(hosts, lan, wan);
        cards.kernel.forward().unwrap();
        cards.name("lan0", lan);
        cards.name("wan0", wan);
        cards
    }

    /// One network, whose gateway is on the side of the WAN; the box is nothing yet.
    #[allow(dead_code, reason = "the tests of `pathmark` use it")]
    pub(crate) fn in_one_network() -> Self {
        let gateway = ["10.0.1.254", "fd00:1::fe"];
        let hosts = Hosts {
            lan: ["10.0.1.2", "fd00:1::2"],
            wan: gateway,
        };
        let cards = Self::of(hosts, gateway, ["10.0.1.1", "fd00:1::1"]);
        cards.kernel.forward().unwrap();
        cards
    }

    fn of(hosts: Hosts, lan_gateway: Host, wan_gateway: Host) -> Self {
        let bed = Testbed::new().expect(
            "these tests need user namespaces and /dev/net/tun; allow them, or run as root",
        );
        let [lan, kernel, wan] = ["lan", "box", "wan"].map(|name| bed.node(name).unwrap());
        bed.veth((&lan, "eth0"), (&kernel, "lan0"), 1500).unwrap();
        bed.veth((&kernel, "wan0"), (&wan, "eth0"), 1500).unwrap();
        let host = |node: &Node, [v4, v6]: Host, gateway: Host| {
            for address in [format!("{v4}/24"), format!("{v6}/64")] {
                node.add_address("eth0", address.parse().unwrap()).unwrap();
            }
            for (to, via) in ["0.0.0.0/0", "::/0"].into_iter().zip(gateway) {
                let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
                node.add_route(to, "eth0", Some(via)).unwrap();
            }
        };
        host(&lan, hosts.lan, lan_gateway);
        host(&wan, hosts.wan, wan_gateway);
        Self {
            lan,
            kernel,
            wan,
            hosts,
            dir: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
            router: None,
        }
    }

    fn name(&self, card: &str, [v4, v6]: Host) {
        for address in [format!("{v4}/24"), format!("{v6}/64")] {
            let address = address.parse().unwrap();
            self.kernel.add_address(card, address).unwrap();
        }
    }

    /// With a configuration as [`configure`](Self::configure) writes it.
    pub(crate) fn with(more: &str, wan: &str) -> Self {
        let cards = Self::new();
        cards.configure(more, wan);
        cards
    }

    /// The same, set up, with a router that runs.
    pub(crate) fn started(more: &str, wan: &str) -> Self {
        let mut cards = Self::with(more, wan);
        cards.setup();
        cards.start();
        cards
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.path("control.sock")
    }

    /// Writes a configuration: `more` are the keys of both ports, `wan` those of the port that
    /// leads there.
    pub(crate) fn configure(&self, more: &str, wan: &str) {
        let control = self.control();
        let text = format!(
            "control = {control:?}\nuser = \"root\"\n\
             [[port]]\nname = \"wan\"\ntun = \"vcp-wan\"\n{more}\n{wan}\n\
             [[port]]\nname = \"lan\"\ntun = \"vcp-lan\"\naddresses = \
             [\"192.0.2.1\", \"fd00:9::1\"]\n{more}\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nport = \"wan\"\n\
             [[route]]\nprefix = \"::/0\"\nport = \"wan\"\n\
             [[route]]\nprefix = \"10.0.1.0/24\"\nport = \"lan\"\n\
             [[route]]\nprefix = \"fd00:1::/64\"\nport = \"lan\"\n\
             [[steer]]\nfrom = \"lan0\"\nport = \"lan\"\n\
             [[steer]]\nfrom = \"wan0\"\nport = \"wan\"\n"
        );
        self.write(&text);
    }

    /// The text of the configuration.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path("router.toml")).unwrap()
    }

    /// Writes this text as the configuration.
    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.path("router.toml"), text).unwrap();
    }

    /// Lets the box send pings.
    pub(crate) fn let_ping(&self) {
        let key = "net.ipv4.ping_group_range";
        self.kernel.sysctl(key, "0 0").unwrap();
    }

    /// Runs a line of shell on the box, which must succeed.
    #[track_caller]
    pub(crate) fn does(&self, line: &str) {
        let said = shell(&self.kernel, line);
        assert_eq!(said.code, Some(0), "{line}: {said:?}");
    }

    /// `vcp-router COMMAND --config FILE …` on the box.
    pub(crate) fn tool(&self, command: &str, more: &[&str]) -> Said {
        let mut program = crate::vcp_router();
        program.args([command, "--config"]);
        program.arg(self.path("router.toml")).args(more);
        run(&self.kernel, program)
    }

    /// Sets up; what ran.
    pub(crate) fn setup(&self) -> String {
        let said = self.tool("setup", &[]);
        said.ended(0, &[]);
        said.out
    }

    /// Starts the router without any capability, and waits until it is ready.
    pub(crate) fn start(&mut self) {
        let said = self.try_start();
        assert!(said.is_ok(), "{said:?}");
    }

    /// Starts the router without any capability; what it says if it does not get ready.
    pub(crate) fn try_start(&mut self) -> Result<(), String> {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
        let router = crate::vcp_router();
        command.arg(router.get_program()).args(router.get_args());
        command.args(["run", "--json", "--config"]);
        command.arg(self.path("router.toml"));
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut router = self.kernel.spawn(command, &[]).unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(router.child().stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = router.child().stderr.take().unwrap();
            stderr.read_to_string(&mut line).unwrap();
            return Err(line);
        }
        self.router = Some(router);
        Ok(())
    }

    /// The running router.
    pub(crate) fn router(&mut self) -> &mut ChildGuard {
        self.router.as_mut().unwrap()
    }

    /// SIGHUP, until the router says that it has reloaded.
    pub(crate) fn reload(&mut self) {
        let router = self.router();
        router.hang_up().unwrap();
        let line = next_line(router, "eloaded");
        assert!(!line.contains("not reloaded"), "{line}");
    }

    /// Ends the router as a crash would.
    pub(crate) fn kill(&mut self) {
        self.router.take().unwrap().kill().unwrap();
    }

    pub(crate) fn show(&self) -> Value {
        let said = self.ask(&["show", "--json"]);
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"))
    }

    /// `vcp-router COMMAND … --socket SOCKET` on the box.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Said {
        let mut program = crate::vcp_router();
        program.args(arguments).arg("--socket").arg(self.control());
        run(&self.kernel, program)
    }

    pub(crate) fn link(&self, name: &str) -> Value {
        let state = self.show();
        let links = state["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["name"] == name);
        link.unwrap().clone()
    }

    /// A listener of the host in the WAN, and where it is.
    pub(crate) fn listener(&self, v6: bool) -> (TcpListener, SocketAddr) {
        let at = address(self.hosts.wan, v6, 0);
        let listener = self.wan.tcp_listener(at).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    /// A TCP connection from LAN to WAN: both ends.
    pub(crate) fn tcp(&self, v6: bool) -> (TcpStream, TcpStream) {
        let (listener, at) = self.listener(v6);
        (self.connect(at), listener.accept().unwrap().0)
    }

    /// A TCP connection of the host in the LAN.
    pub(crate) fn connect(&self, to: SocketAddr) -> TcpStream {
        let client = self.client(to.is_ipv6());
        let patience = Duration::from_secs(10);
        client.connect_timeout(&to.into(), patience).unwrap();
        client.into()
    }

    /// A TCP socket of the host in the LAN.
    fn client(&self, v6: bool) -> Socket {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let fd = self.lan.socket(domain.into(), Type::STREAM.into(), 0);
        Socket::from(fd.unwrap())
    }

    /// The round trip of a ping from `node` to `to`; panics if none of 20 is answered.
    pub(crate) fn ping(node: &Node, to: IpAddr) -> Duration {
        node.sysctl("net.ipv4.ping_group_range", "0 0").unwrap();
        let (domain, protocol, request) = match to {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128),
        };
        let fd = node.socket(domain.into(), Type::DGRAM.into(), protocol.into());
        let mut socket = Socket::from(fd.unwrap());
        socket.connect(&SocketAddr::new(to, 0).into()).unwrap();
        let wait = Duration::from_millis(250);
        socket.set_read_timeout(Some(wait)).unwrap();
        for _ in 0..20 {
            let start = Instant::now();
            // Type, code, checksum and identifier (the kernel's), sequence number, data.
            let mut packet = [0; 64];
            packet[0] = request;
            if socket.send(&packet).is_ok() && socket.read(&mut packet).is_ok() {
                return start.elapsed();
            }
        }
        panic!("{} gets no answer from {to}", node.name());
    }
}

/// Sends for `time` after TCP has got up to speed, and returns the bits per second that arrive.
pub(crate) fn goodput(mut from: TcpStream, mut to: TcpStream, time: Duration) -> f64 {
    let sender = std::thread::spawn(move || while from.write_all(&[7; 16_384]).is_ok() {});
    let mut buffer = vec![0; 1 << 18];
    let mut receive = |time: Duration| {
        let start = Instant::now();
        let mut got = 0;
        while start.elapsed() < time {
            got += to.read(&mut buffer).unwrap();
        }
        got as f64 * 8.0 / start.elapsed().as_secs_f64()
    };
    receive(Duration::from_millis(500));
    let rate = receive(time);
    drop(to);
    sender.join().unwrap();
    rate
}

/// The next line of a router's log that contains these words.
pub(crate) fn next_line(router: &mut ChildGuard, words: &str) -> String {
    let mut stderr = BufReader::new(router.child().stderr.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the router ended");
    }
    line
}

fn address(host: Host, v6: bool, port: u16) -> SocketAddr {
    let ip: IpAddr = host[usize::from(v6)].parse().unwrap();
    SocketAddr::new(ip, port)
}

/// Runs a command on a node to its end.
pub(crate) fn run(node: &Node, mut command: Command) -> Said {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = node.spawn(command, &[]).unwrap();
    let mut stderr = child.child().stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let mut out = String::new();
    let mut stdout = child.child().stdout.take().unwrap();
    stdout.read_to_string(&mut out).unwrap();
    Said {
        code: child.wait().unwrap().code(),
        out,
        err: errors.join().unwrap(),
    }
}

/// Runs a line of shell on a node.
pub(crate) fn shell(node: &Node, line: &str) -> Said {
    let mut command = Command::new("sh");
    command.args(["-euc", line]);
    run(node, command)
}
