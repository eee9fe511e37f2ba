//! Ends, resets and refusals of TCP flows through each ingress of `pathmark tunnel`, and without
//! one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use pathmark_testbed::{ChildGuard, Node};
use socket2::{Domain, SockRef, Socket, Type};

use crate::common::gateway::{Bed, PROXIES, Running, TARGETS, WAIT, ip};
use crate::common::pathmark;

/// How a client reaches its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Straight,
    Forward,
    Socks,
    Http,
    Connect,
    Transparent,
}

const WAYS: [Way; 6] = [
    Way::Straight,
    Way::Forward,
    Way::Socks,
    Way::Http,
    Way::Connect,
    // Its rules also intercept direct connections, so it must be the last.
    Way::Transparent,
];

/// How a client's attempt fails.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Reset,
    /// The code of a reply, or the status of a response.
    Code(u16),
    /// The output of `connect`.
    Says(String),
}

/// The client's side of a flow.
enum Client {
    Socket(TcpStream),
    Pipes(ChildGuard, Option<ChildStdin>, ChildStdout),
}

impl Client {
    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Socket(stream) => stream.write_all(bytes).unwrap(),
            Self::Pipes(_, stdin, _) => {
                let stdin = stdin.as_mut().unwrap();
                stdin.write_all(bytes).unwrap();
                stdin.flush().unwrap();
            }
        }
    }

    fn end(&mut self) {
        match self {
            Self::Socket(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Self::Pipes(_, stdin, _) => *stdin = None,
        }
    }

    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let mut got = Vec::new();
        match self {
            Self::Socket(stream) => stream.read_to_end(&mut got),
            Self::Pipes(_, _, stdout) => stdout.read_to_end(&mut got),
        }
        .map(|_| got)
    }

    /// Reads until the flow is reset.
    #[track_caller]
    fn expect_reset(mut self) {
        let read = self.read();
        match self {
            Self::Socket(_) => assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset),
            Self::Pipes(mut process, _stdin, _) => {
                assert_eq!(process.wait().unwrap().code(), Some(1));
            }
        }
    }

    /// Ends by SIGTERM (SIGHUP, as sent by ssh(1), has no effect below nohup(1)) or by RST.
    fn reset(self) {
        match self {
            Self::Socket(stream) => reset(&stream),
            Self::Pipes(mut process, ..) => {
                process.terminate().unwrap();
                process.wait().unwrap();
            }
        }
    }
}

/// Makes dropping the stream send RST.
fn reset(stream: &TcpStream) {
    let linger = Some(Duration::ZERO);
    SockRef::from(stream).set_linger(linger).unwrap();
}

/// A proxy, a tunnel with all listeners, and targets.
struct Net {
    bed: Bed,
    listener: TcpListener,
    tunnel: Running,
    _proxy: Running,
}

/// The port of the target that serves; others refuse or are silent.
const SERVES: u16 = 7;
const REFUSES: u16 = 9;
const SILENT: u16 = 10;
/// An address without a route.
const NOWHERE: &str = "198.51.100.77";

impl Net {
    fn new() -> Self {
        let bed = Bed::new();
        let script = format!(
            "ip route add unreachable {NOWHERE}
             nft add table inet silent
             nft 'add chain inet silent in {{ type filter hook input priority 0; }}'
             nft add rule inet silent in tcp dport {SILENT} drop"
        );
        bed.net.outside.script(&script).unwrap();
        let serves = SocketAddr::new(ip(TARGETS[0]), SERVES);
        let listener = bed.net.outside.tcp_listener(serves).unwrap();
        let proxy = bed.proxy(PROXIES[0], None);
        let mut arguments = vec!["-D", "0", "--http", "0", "--tproxy", "12345"];
        let targets = targets().map(|target| format!("0:{target}"));
        arguments.extend(targets.iter().flat_map(|target| ["-L", target]));
        let tunnel = bed.tunnel(&arguments);
        Self {
            bed,
            listener,
            tunnel,
            _proxy: proxy,
        }
    }

    fn forward(&self, target: SocketAddr) -> SocketAddr {
        self.tunnel.listener_with("target", &target.to_string())
    }

    /// Requests a flow to a target.
    fn open(&self, way: Way, target: SocketAddr) -> Result<Client, Failure> {
        let gateway = &self.bed.net.gateway;
        let stream = match way {
            Way::Straight | Way::Transparent => socket(&self.bed.net.inside, target),
            Way::Forward => socket(gateway, self.forward(target)),
            Way::Socks => socks(socket(gateway, self.tunnel.listener("socks")), target)?,
            Way::Http => http(socket(gateway, self.tunnel.listener("http")), target)?,
            Way::Connect => {
                let (host, port) = (target.ip().to_string(), target.port().to_string());
                let uri = self.bed.path("uri");
                let arguments = ["tunnel", "connect", "--uri-file", &uri, &host, &port];
                let mut command = pathmark(&arguments);
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                command.stderr(Stdio::piped());
                let mut process = gateway.spawn(command, &[]).unwrap();
                let child = process.child();
                let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
                if target == serves() {
                    return Ok(Client::Pipes(process, stdin, stdout));
                }
                let mut said = String::new();
                let mut stderr = child.stderr.take().unwrap();
                stderr.read_to_string(&mut said).unwrap();
                assert_eq!(process.wait().unwrap().code(), Some(1), "{said}");
                return Err(Failure::Says(said));
            }
        };
        Ok(Client::Socket(stream))
    }

    /// Returns both ends of a flow.
    fn pair(&self, way: Way) -> (Client, TcpStream) {
        let client = self.open(way, serves()).unwrap();
        let (served, _) = self.listener.accept().unwrap();
        served.set_read_timeout(Some(WAIT)).unwrap();
        (client, served)
    }
}

fn serves() -> SocketAddr {
    SocketAddr::new(ip(TARGETS[0]), SERVES)
}

/// Returns a target that serves, and those that don't: refused, silent, without a route.
fn targets() -> [SocketAddr; 4] {
    let at = |address, port| SocketAddr::new(ip(address), port);
    [
        serves(),
        at(TARGETS[0], REFUSES),
        at(TARGETS[0], SILENT),
        at(NOWHERE, SERVES),
    ]
}

fn socket(node: &Node, to: SocketAddr) -> TcpStream {
    let (domain, kind) = (Domain::IPV4.into(), Type::STREAM.into());
    let socket = Socket::from(node.socket(domain, kind, 0).unwrap());
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket.into()
}

fn socks(mut stream: TcpStream, target: SocketAddr) -> Result<TcpStream, Failure> {
    let name = target.ip().to_string();
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, name.len() as u8];
    request.extend(name.as_bytes());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut reply = [9; 12];
    stream.read_exact(&mut reply).unwrap();
    match reply[3] {
        0 => Ok(stream),
        code => Err(Failure::Code(code.into())),
    }
}

fn http(mut stream: TcpStream, target: SocketAddr) -> Result<TcpStream, Failure> {
    let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    match head.split(' ').nth(1).unwrap().parse().unwrap() {
        200 => Ok(stream),
        status => Err(Failure::Code(status)),
    }
}

#[test]
fn each_way_ends_flows_as_a_connection_does() {
    let net = Net::new();
    for way in WAYS {
        if way == Way::Transparent {
            net.bed.rules();
        }
        // The client's end leaves the other direction open.
        let (mut client, mut served) = net.pair(way);
        client.write(b"request");
        client.end();
        let mut request = String::new();
        served.read_to_string(&mut request).unwrap();
        assert_eq!(request, "request", "{way:?}");
        let answer = vec![7; 3 << 20];
        std::thread::scope(|scope| {
            let read = scope.spawn(|| client.read());
            served.write_all(&answer).unwrap();
            drop(served);
            assert!(read.join().unwrap().unwrap() == answer, "{way:?}");
        });

        // So does the target's end.
        let (mut client, mut served) = net.pair(way);
        served.write_all(b"greeting").unwrap();
        served.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read().unwrap(), b"greeting", "{way:?}");
        client.write(b"late");
        client.end();
        let mut late = String::new();
        served.read_to_string(&mut late).unwrap();
        assert_eq!(late, "late", "{way:?}");

        let (mut client, mut served) = net.pair(way);
        client.write(b"x");
        served.read_exact(&mut [0]).unwrap();
        client.reset();
        let error = served.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{way:?}: client");

        let (client, served) = net.pair(way);
        reset(&served);
        drop(served);
        client.expect_reset();
    }
}

#[test]
fn each_way_says_why_a_flow_is_not_opened() {
    let net = Net::new();
    net.bed.rules();
    let [_, refuses, silent, nowhere] = targets();
    let causes = [
        (refuses, 5, 502, "the target refused the connection"),
        (silent, 6, 504, "the target did not answer in time"),
        (nowhere, 3, 502, "no route leads to the target"),
    ];
    let net = &net;
    std::thread::scope(|scope| {
        for (target, reply, status, words) in causes {
            for way in &WAYS[1..] {
                scope.spawn(move || {
                    let failed = match net.open(*way, target) {
                        Ok(client) => {
                            client.expect_reset();
                            Failure::Reset
                        }
                        Err(failed) => failed,
                    };
                    match (way, failed) {
                        (Way::Socks, failed) => assert_eq!(failed, Failure::Code(reply)),
                        (Way::Http, failed) => assert_eq!(failed, Failure::Code(status)),
                        (Way::Connect, Failure::Says(said)) => {
                            assert!(said.contains(words), "{said}");
                        }
                        (way, failed) => assert_eq!(failed, Failure::Reset, "{way:?} {target}"),
                    }
                });
            }
        }
    });
}
