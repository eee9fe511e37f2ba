//! A server in a process of its own, attacked by 64 connections at once, with an honest client
//! beside them: what the server's process grows by, and how long the honest client waits.
//!
//! Linux only: resident memory is read from `/proc`.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pathmark_cc::{Controller, NewReno};

use super::shared::Shared;
use super::*;
use crate::connection::tests::inject;
use crate::connection::{self as core, Received};
use crate::crypto::Random;
use crate::crypto::tls::{EndpointSecret, Trust, testing};
use crate::endpoint::{self, ConnectionHandle, EndpointConfig};
use crate::wire::frame::Stream;
use crate::wire::{Dir, Frame, Side, SpaceId, StreamId};
use crate::{Ecn, Instant, TransportConfig};

/// Connections that attack, each from an address of its own.
const ATTACKERS: u8 = 64;
/// Bits per second of UDP payload and headers, of all of them together.
const RATE: u64 = 10_000_000;
/// Bytes of IPv4 and UDP headers.
const HEADERS: usize = 28;
/// What an attack may cost the server's process above rest.
const GROWTH: usize = 32 << 20;
/// How long an honest client may wait for a connection and an answer over it.
const WAIT: Duration = Duration::from_secs(2);
/// What it fetches each time.
const ANSWER: usize = 64 << 10;
const ALPN: &[u8] = b"attacked";
/// Set for the process that serves.
const ROLE: &str = "PATHMARK_ATTACKED_SERVER";

fn transport() -> Arc<TransportConfig> {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    Arc::new(TransportConfig::new(Arc::new(factory)))
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
#[ignore = "the server's part of the tests beside it: they start it as a process of its own"]
fn attacked_server() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    runtime(1).block_on(async {
        let crypto = Arc::new(testing::server("server", &[ALPN]));
        let at = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Endpoint::server(ServerConfig::new(crypto, transport()), at).unwrap();
        println!("\nlistening {}", server.local_address());
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let serving = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = serving.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move {
                        let Ok(connection) = connecting.await else {
                            return;
                        };
                        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                            let _ = recv.read_to_end(8).await;
                            let _ = send.write_all(&[7; ANSWER]).await;
                            let _ = send.finish();
                        }
                    });
                }
            }
        });
        let _ = end.await;
        println!("\n{:?}", server.stats());
    });
}

/// The server's process.
struct Served {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
}

impl Served {
    fn start() -> Self {
        let name = "driver::attack_tests::attacked_server";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = Self::line(&mut output, "listening ");
        Self {
            child,
            output,
            address: address.parse().unwrap(),
        }
    }

    /// What stands behind `start` in the next line that has it.
    fn line(output: &mut impl BufRead, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server ended");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Bytes of it that are in memory.
    fn resident(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches("kB").trim();
        kib.parse::<usize>().unwrap() * 1024
    }

    /// Ends it; what it says of its endpoint.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let stats = Self::line(&mut self.output, "EndpointStats ");
        assert!(self.child.wait().unwrap().success());
        stats
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After a failure in between; else it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of `server` at 127.0.1.`host`.
async fn connect(server: SocketAddr, host: u8) -> (Endpoint, Arc<Shared>, Connection) {
    let endpoint = Endpoint::client((Ipv4Addr::new(127, 0, 1, host), 0).into()).unwrap();
    let crypto = Arc::new(testing::client(Trust::Anyone, &[ALPN]));
    let config = ClientConfig::new(crypto, transport());
    let connecting = endpoint.connect(config, server, "server.test").unwrap();
    let shared = Arc::clone(connecting.shared());
    let connection = connecting.await.unwrap();
    connection.confirmed().await.unwrap();
    (endpoint, shared, connection)
}

/// What an attack sends by one of its connections.
trait Attack: Send + 'static {
    /// Sends something to `server`; its bytes with headers.
    fn send(&mut self, server: SocketAddr) -> usize;
}

/// Sends `RATE` shared by all, until `over`.
async fn attack(mut attack: impl Attack, server: SocketAddr, over: Arc<AtomicBool>) -> u64 {
    let began = clock::now();
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        let elapsed = clock::now().saturating_since(began).as_secs_f64();
        let due = (elapsed * RATE as f64 / 8.0 / f64::from(ATTACKERS)) as u64;
        while sent < due {
            sent += attack.send(server) as u64;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    sent
}

/// A connection whose packets are made by hand.
struct Forger {
    shared: Arc<Shared>,
    /// Where the packets leave from, in turn.
    sockets: Vec<UdpSocket>,
    sent: u64,
    kind: Kind,
    _alive: (Endpoint, Connection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Pieces of one byte, far apart.
    Pieces,
    /// Small packets of whose numbers every second is missing.
    Gaps,
    /// Packets from ever other addresses.
    Rebinding,
}

impl Forger {
    async fn new(kind: Kind, server: SocketAddr, host: u8) -> Self {
        let (endpoint, shared, connection) = connect(server, host).await;
        let sockets = match kind {
            Kind::Rebinding => 8u8,
            Kind::Pieces | Kind::Gaps => 0,
        };
        let socket = |n: u8| UdpSocket::bind((Ipv4Addr::new(127, 0, 2 + n, host), 0)).unwrap();
        Self {
            shared,
            sockets: (0..sockets).map(socket).collect(),
            sent: 0,
            kind,
            _alive: (endpoint, connection),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let n = self.sent;
        match self.kind {
            Kind::Pieces => {
                let piece = |i: u64| {
                    // Over all streams that may be opened, and the whole of their windows.
                    let stream = (n * 150 + i) % 100;
                    Frame::Stream(Stream {
                        id: StreamId::new(Side::Client, Dir::Uni, stream).unwrap(),
                        offset: 1 + (n * 150 + i) / 100 * 2 % 200_000,
                        fin: false,
                        data: b"x",
                    })
                };
                inject::frames(&(0..150).map(piece).collect::<Vec<_>>())
            }
            Kind::Gaps => inject::frames(&[Frame::Ping]),
            // Every second of full size, so that the path can be validated if anyone answers.
            Kind::Rebinding => {
                let mut frames = inject::frames(&[Frame::Ping]);
                frames.resize(if n.is_multiple_of(2) { 1 } else { 1150 }, 0);
                frames
            }
        }
    }
}

impl Attack for Forger {
    fn send(&mut self, server: SocketAddr) -> usize {
        let payload = self.payload();
        let mut state = self.shared.lock();
        assert_eq!(state.lost(), None, "{:?}", self.kind);
        let now = clock::now();
        if self.kind == Kind::Gaps {
            inject::packet(&mut state.core, now, SpaceId::Data, &payload);
        }
        let bytes = inject::packet(&mut state.core, now, SpaceId::Data, &payload);
        drop(state);
        self.sent += 1;
        let turn = self.sent as usize % self.sockets.len().max(1);
        if let Some(socket) = self.sockets.get(turn) {
            let _ = socket.send_to(&bytes, server);
        } else {
            self.shared.endpoint.socket().send(&socket::Outgoing {
                to: server,
                from: None,
                ecn: Ecn::NotEct,
                dscp: 0,
                bytes: &bytes,
                segment: bytes.len(),
            });
        }
        bytes.len() + HEADERS
    }
}

/// Begins one handshake after the other, proves its address where that is asked for, and goes on
/// with none.
struct SlowHandshakes {
    socket: UdpSocket,
    crypto: Arc<crate::crypto::tls::TlsClientConfig>,
    seed: u64,
    /// The handshake that was begun last.
    last: Option<core::Connection>,
}

impl SlowHandshakes {
    fn new(host: u8) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, host), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            crypto: Arc::new(testing::client(Trust::Anyone, &[ALPN])),
            seed: u64::from(host),
            last: None,
        }
    }

    fn begin(&mut self, server: SocketAddr) -> (ConnectionHandle, core::Connection) {
        self.seed += 1000;
        let key = Arc::new(EndpointSecret::new(&[3; 32]).unwrap());
        let config = EndpointConfig::new(key, clock::unix_time());
        let random = Random::from_u64(self.seed);
        let connect = endpoint::Connect {
            config: transport(),
            crypto: Arc::clone(&self.crypto) as _,
            server_name: "server.test".into(),
            remote: server,
            local: None,
            token: Vec::new(),
        };
        let mut endpoint = endpoint::Endpoint::new(config, random);
        endpoint.connect(clock::now(), connect).unwrap()
    }

    fn flight(&self, connection: &mut core::Connection, server: SocketAddr) -> usize {
        let mut buffer = [0; 4096];
        let mut sent = 0;
        while let Some(transmit) = connection.poll_transmit(clock::now(), &mut buffer, 1) {
            let _ = self.socket.send_to(&buffer[..transmit.len], server);
            sent += transmit.len + HEADERS;
        }
        sent
    }
}

impl Attack for SlowHandshakes {
    fn send(&mut self, server: SocketAddr) -> usize {
        let mut sent = 0;
        let mut bytes = [0; 2048];
        let mut last = self.last.take();
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let received = Received {
                remote: server,
                local: None,
                ecn: Ecn::NotEct,
                ttl: None,
            };
            // Only a Retry: what comes of a handshake is left unanswered.
            if let Some(last) = &mut last
                && bytes[0] & 0xf0 == 0xf0
            {
                last.handle_datagram(clock::now(), received, &mut bytes[..length]);
                sent += self.flight(last, server);
            }
        }
        let (_, mut connection) = self.begin(server);
        sent += self.flight(&mut connection, server);
        self.last = Some(connection);
        sent
    }
}

/// Attacks for `time`, and prints and judges what came of it: what went wrong.
fn withstands<A: Attack>(
    name: &str,
    time: Duration,
    attacker: impl AsyncFn(SocketAddr, u8) -> A,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let served = Served::start();
    let server = served.address;
    let (rest, most, worst, waits, sent) = runtime(2).block_on(async {
        let mut attackers = Vec::new();
        for host in 1..=ATTACKERS {
            attackers.push(attacker(server, host).await);
        }
        let honest = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        fetch(&honest, server).await;
        let rest = served.resident();
        let over = Arc::new(AtomicBool::new(false));
        let spawn = |one: A| tokio::spawn(attack(one, server, Arc::clone(&over)));
        let attackers: Vec<_> = attackers.into_iter().map(spawn).collect();
        let (mut worst, mut waits) = (Duration::ZERO, 0);
        let asking = async {
            let end = clock::now() + time;
            while clock::now() < end {
                let began = clock::now();
                let asked = tokio::time::timeout(5 * WAIT, fetch(&honest, server)).await;
                if asked.is_err() {
                    wrong.push(format!("{name}: nothing came within {:?}", 5 * WAIT));
                }
                worst = worst.max(clock::now().saturating_since(began));
                waits += 1;
            }
        };
        let mut most = rest;
        let sampling = async {
            // Nothing tells when the process grows.
            loop {
                most = most.max(served.resident());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = asking => {}
            () = sampling => {}
        }
        over.store(true, Ordering::Relaxed);
        let mut sent = 0;
        for attacker in attackers {
            match attacker.await {
                Ok(bytes) => sent += bytes,
                Err(error) => wrong.push(format!("{name}: an attacker ended: {error}")),
            }
        }
        (rest, most, worst, waits, sent)
    });
    println!(
        "{name}: {:.1} Mbit/s for {time:?}, {} KiB above {}, {waits} waits, longest {worst:?}",
        sent as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        (most - rest) / 1024,
        rest / 1024,
    );
    println!("{}", served.end());
    if sent * 8 < RATE * time.as_secs() / 2 {
        wrong.push(format!("{name}: the attack was slow, {sent} bytes"));
    }
    if most - rest > GROWTH {
        wrong.push(format!("{name}: it grew by {} bytes", most - rest));
    }
    if worst > WAIT {
        wrong.push(format!("{name}: {waits} waits, longest {worst:?}"));
    }
    wrong
}

/// A connection of its own, and an answer over it.
async fn fetch(endpoint: &Endpoint, server: SocketAddr) {
    let crypto = Arc::new(testing::client(Trust::Anyone, &[ALPN]));
    let config = ClientConfig::new(crypto, transport());
    let connecting = endpoint.connect(config, server, "server.test").unwrap();
    let connection = connecting.await.unwrap();
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(b"?").await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(ANSWER).await.unwrap().len(), ANSWER);
}

/// All kinds one after the other, also those after one that went wrong.
fn all(time: Duration) {
    let mut wrong = Vec::new();
    for kind in [Kind::Pieces, Kind::Gaps, Kind::Rebinding] {
        let name = format!("{kind:?}");
        wrong.extend(withstands(&name, time, async |server, host| {
            Forger::new(kind, server, host).await
        }));
    }
    wrong.extend(withstands("slow handshakes", time, async |_, host| {
        SlowHandshakes::new(host)
    }));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sixty_four_attackers_for_a_while() {
    all(Duration::from_secs(2));
}

#[test]
#[ignore = "four minutes: cargo test -p pathmark-transport --lib attackers -- --ignored"]
fn sixty_four_attackers_for_a_minute_each() {
    all(Duration::from_secs(60));
}
