//! `pathmark proxy` and `pathmark tunnel` as processes in namespaces.
//!
//! ```text
//!   inside ──── gateway: tunnel ──── outside: proxy, targets
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use pathmark_testbed::subnet::Subnet;
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

use crate::common::{lines, logged, pathmark, run};

pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Addresses of the proxy.
pub(crate) const PROXIES: [&str; 2] = ["203.0.113.2", "203.0.113.3"];
/// Addresses of targets on the outside node.
pub(crate) const TARGETS: [&str; 4] = [
    "198.51.100.9",
    "198.51.100.10",
    "2001:db8:9::9",
    "2001:db8:9::10",
];

pub(crate) struct Bed {
    pub(crate) net: Subnet,
    directory: tempfile::TempDir,
}

/// A process on a node.
pub(crate) struct Running {
    pub(crate) guard: ChildGuard,
    /// The JSON object that it has printed.
    pub(crate) said: Value,
    log: Mutex<Receiver<String>>,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Running {
    pub(crate) fn new(node: &Node, mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = node.spawn(command, &[]).unwrap();
        let mut line = String::new();
        let stdout = guard.child().stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let log = lines(guard.child().stderr.take().unwrap());
        let said = serde_json::from_str(&line).unwrap_or_else(|_| {
            let log: Vec<_> = log.iter().collect();
            panic!("{line}{log:?}")
        });
        Self {
            guard,
            said,
            log: Mutex::new(log),
        }
    }

    /// Waits for a log line that contains `words`.
    #[track_caller]
    pub(crate) fn logged(&self, words: &str) {
        self.logged_within(words, WAIT);
    }

    /// Like [`logged`](Self::logged), with this time limit between two lines.
    #[track_caller]
    pub(crate) fn logged_within(&self, words: &str, time: Duration) {
        logged(&self.log.lock().unwrap(), words, time);
    }

    /// Returns the IPv4 address of the first listener that has this text for `key`.
    pub(crate) fn listener_with(&self, key: &str, text: &str) -> SocketAddr {
        let listeners = self.said["listeners"].as_array().unwrap().iter();
        let its = listeners.filter(|listener| listener[key] == text);
        let mut addresses = its.map(|its| its["address"].as_str().unwrap().parse().unwrap());
        addresses.find(SocketAddr::is_ipv4).unwrap()
    }

    pub(crate) fn listener(&self, kind: &str) -> SocketAddr {
        self.listener_with("kind", kind)
    }
}

impl Drop for Running {
    /// Prints the log if the test fails.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.log.get_mut().unwrap().try_iter() {
                eprintln!("{line}");
            }
        }
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        let net = Subnet::new().unwrap();
        for target in TARGETS {
            net.outside.add_address("d", ip(target).into()).unwrap();
        }
        Self {
            net,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Starts a proxy and writes its URI, with `name` instead of its address if given.
    pub(crate) fn proxy(&self, address: &str, name: Option<&str>) -> Running {
        let config = self.path("proxy.toml");
        let text = format!(
            "listen = '{address}:4433'\ntokens = 'tokens'\ncontrol = 'control.sock'\n\
             allow = ['198.51.100.0/24', '2001:db8:9::/64']\n\
             [seconds]\nconnect = 2\n"
        );
        std::fs::write(&config, text).unwrap();
        let command = pathmark(&["proxy", "--json", "--show-uri", "--config", &config]);
        let proxy = Running::new(&self.net.outside, command);
        let uri = proxy.said["uris"][0]["uri"].as_str().unwrap();
        let uri = uri.replace(address, name.unwrap_or(address));
        std::fs::write(self.path("uri"), uri).unwrap();
        proxy
    }

    /// Starts a tunnel that looks up names in the file `hosts`.
    pub(crate) fn tunnel(&self, arguments: &[&str]) -> Running {
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
        let tunnel = Running::new(&self.net.gateway, command);
        tunnel.logged("connected");
        tunnel
    }

    /// Returns a counter of the proxy.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let config = self.path("proxy.toml");
        let shown = run(&["proxy", "show", "--json", "--config", &config]).stdout;
        let shown: Value = serde_json::from_slice(&shown).unwrap();
        shown["counts"][name].as_u64().unwrap()
    }

    pub(crate) fn rules(&self) {
        let mut command = pathmark(&["tunnel", "rules", "--tproxy", "12345", "--uri-file"]);
        command.arg(self.path("uri"));
        let mut rules = self.net.gateway.spawn(command, &[]).unwrap();
        assert!(rules.wait().unwrap().success());
    }

    /// Starts a target that returns each datagram.
    pub(crate) fn echo(&self, address: SocketAddr) {
        let socket = self.net.outside.udp(address).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
    }

    /// Starts a target that returns the bytes that it reads.
    pub(crate) fn echo_tcp(&self, address: SocketAddr) {
        let listener = self.net.outside.tcp_listener(address).unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut read = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut read, &mut stream);
                });
            }
        });
    }

    /// Starts a proxy, a target that returns what it reads, and a tunnel that forwards to it.
    /// Returns proxy and tunnel, and where the tunnel listens.
    pub(crate) fn echoing(&self) -> (Running, Running, SocketAddr) {
        let proxy = self.proxy(PROXIES[0], None);
        let to = SocketAddr::new(ip(TARGETS[0]), 7);
        self.echo_tcp(to);
        let tunnel = self.tunnel(&["-L", &format!("0:{to}")]);
        let forward = tunnel.listener("forward");
        (proxy, tunnel, forward)
    }

    pub(crate) fn client(&self, node: &Node, address: &str) -> UdpSocket {
        let socket = node.udp(SocketAddr::new(ip(address), 0)).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket
    }

    /// Connects from the gateway itself.
    pub(crate) fn connect(&self, to: SocketAddr) -> TcpStream {
        let socket = self.net.gateway.socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let socket = socket2::Socket::from(socket.unwrap());
        socket.connect(&to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream
    }
}

#[track_caller]
pub(crate) fn echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut got = vec![0; text.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, text);
}

/// Sends a datagram until it is returned, because those of a lost connection are lost.
#[track_caller]
pub(crate) fn echoes_in_the_end(socket: &UdpSocket, to: SocketAddr, text: &[u8]) {
    let limit = Some(Duration::from_millis(200));
    socket.set_read_timeout(limit).unwrap();
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
