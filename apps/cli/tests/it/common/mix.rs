//! Flows of different kinds through one tunnel.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv4Tos};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

use super::on_node::{PROGRAM, router, start};
use super::write_private;

pub(crate) const PAYLOAD: usize = 1150;
pub(crate) const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
pub(crate) const ECT_0: u8 = 2;
pub(crate) const CE: u8 = 3;

/// The side at whose ingress the data enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Proxy,
}

/// Ports of targets. Flows to 7004 have the weight 3.
const FORWARDS: [(u16, &str); 5] = [
    (7001, ""),
    (7002, "/udp"),
    (7003, "/udp"),
    (7004, ""),
    (7004, "/udp"),
];
const CLASS: &str = "[[class]]\nports = [7004]\nweight = 3\n";

/// A path with a proxy and its client.
pub(crate) struct Bed {
    pub(crate) chain: Chain,
    side: Side,
    /// In the order of [`FORWARDS`].
    pub(crate) forwards: [SocketAddr; FORWARDS.len()],
    pub(crate) targets: [SocketAddr; FORWARDS.len()],
    directory: tempfile::TempDir,
    _processes: [ChildGuard; 2],
}

impl Bed {
    /// Creates a path whose port toward the receiver has `controller`, with a tunnel that uses
    /// `law`.
    pub(crate) fn new(side: Side, controller: &str, loss: f64, law: &str) -> Self {
        let port = |controller: &str| {
            format!(
                "rate = \"20Mbit\"\ndelay = \"20ms\"\ncontroller = \"{controller}\"\n\
                 queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"40ms\" }}\n"
            )
        };
        let mut forward = port(controller);
        if loss > 0.0 {
            forward += &format!("loss = {{ kind = \"bernoulli\", per = {loss} }}\n");
        }
        let reverse = port("none");
        let chain = Chain::new(router(), 1500, &[Hop { forward, reverse }]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        write_private(path("tokens"), "a 0123456789abcdef\n");
        let (far, far_node, near) = match side {
            Side::Client => (RECEIVER, &chain.receiver, &chain.sender),
            Side::Proxy => (SENDER, &chain.sender, &chain.receiver),
        };
        let text = format!(
            "listen = '{far}:4433'\ntokens = 'tokens'\nallow = ['10.0.0.0/8']\ncc = '{law}'\n\
             control = 'proxy.sock'\n{CLASS}"
        );
        std::fs::write(path("proxy.toml"), text).unwrap();
        let config = path("proxy.toml");
        let (proxy, said) = start(far_node, &["proxy", "--show-uri", "--config", &config]);
        std::fs::write(path("uri"), said["uris"][0]["uri"].as_str().unwrap()).unwrap();
        let targets = FORWARDS.map(|(port, _)| SocketAddr::new(far, port));
        let forwards = FORWARDS.map(|(port, kind)| format!("127.0.0.1:0:{far}:{port}{kind}"));
        let text =
            format!("uri_file = 'uri'\ncontrol = 'tunnel.sock'\nforward = {forwards:?}\n{CLASS}");
        std::fs::write(path("tunnel.toml"), text).unwrap();
        let config = path("tunnel.toml");
        let (tunnel, said) = start(near, &["tunnel", "--cc", law, "--config", &config]);
        let forwards = std::array::from_fn(|at| {
            let address = said["listeners"][at]["address"].as_str().unwrap();
            address.parse().unwrap()
        });
        Self {
            side,
            forwards,
            targets,
            directory,
            _processes: [proxy, tunnel],
            chain,
        }
    }

    /// Returns the output of `show --json` at the side where the data enters.
    pub(crate) fn shown(&self) -> Value {
        serde_json::from_str(&self.show("--json")).unwrap()
    }

    pub(crate) fn show(&self, format: &str) -> String {
        let (command, file) = match self.side {
            Side::Client => ("tunnel", "tunnel.toml"),
            Side::Proxy => ("proxy", "proxy.toml"),
        };
        let config = self.directory.path().join(file);
        let mut show = Command::new(PROGRAM);
        show.args([command, "show", format, "--config"]).arg(config);
        String::from_utf8(show.output().unwrap().stdout).unwrap()
    }

    /// Returns the nodes of the tunnel's client and of the proxy.
    pub(crate) fn nodes(&self) -> [&Node; 2] {
        let Chain {
            sender, receiver, ..
        } = &self.chain;
        match self.side {
            Side::Client => [sender, receiver],
            Side::Proxy => [receiver, sender],
        }
    }
}

/// A TCP connection that sends as fast as possible.
pub(crate) struct Bulk {
    got: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

pub(crate) fn connect(node: &Node, to: SocketAddr) -> TcpStream {
    let socket = node.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let socket = socket2::Socket::from(socket);
    socket.connect(&to.into()).unwrap();
    socket.into()
}

impl Bulk {
    /// Opens a flow through the forward at `place`, whose target is `listener`.
    pub(crate) fn new(bed: &Bed, place: usize, listener: &TcpListener) -> Self {
        let [near, _] = bed.nodes();
        let client = connect(near, bed.forwards[place]);
        let (target, _) = listener.accept().unwrap();
        let (mut from, mut to) = match bed.side {
            Side::Client => (client, target),
            Side::Proxy => (target, client),
        };
        let (got, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, over) = (Arc::clone(&got), Arc::clone(&stop));
        thread::spawn(move || {
            let chunk = vec![7; 64 * 1024];
            while !over.load(Ordering::Relaxed) && from.write_all(&chunk).is_ok() {}
        });
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = to.read(&mut buffer) {
                counted.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        Self { got, stop }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.got.load(Ordering::Relaxed)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) number: u64,
    /// Time since the start of the run.
    pub(crate) sent: Duration,
    pub(crate) delay: Duration,
    pub(crate) ecn: u8,
}

/// How a UDP flow sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Bits of payload per second, and the ECN field.
    Constant(f64, u8),
    /// ECT(1): in each round, the rate is reduced by half the share of marks, or rises otherwise.
    Scalable,
}

/// A UDP flow, with its datagrams in order of arrival.
pub(crate) struct Udp {
    sending: JoinHandle<u64>,
    arrived: Receiver<Arrived>,
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr, u8)> {
    let mut control = cmsg_space!(i32);
    let mut parts = [std::io::IoSliceMut::new(buffer)];
    let fd = socket.as_raw_fd();
    let received =
        recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), MsgFlags::empty()).ok()?;
    let ecn = received.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos & 3),
        _ => None,
    });
    let from = std::net::SocketAddrV4::from(received.address?);
    Some((received.bytes, from.into(), ecn.unwrap_or(NOT_ECT)))
}

impl Udp {
    /// Sends for `time`.
    pub(crate) fn new(
        bed: &Bed,
        place: usize,
        pace: Pace,
        (start, time): (Instant, Duration),
    ) -> Self {
        let [near, far] = bed.nodes();
        let target = far.udp(bed.targets[place]).unwrap();
        let client = near.udp("127.0.0.1:0".parse().unwrap()).unwrap();
        client.connect(bed.forwards[place]).unwrap();
        let mut buffer = [0; 2000];
        // The path may lose a greeting.
        let limit = Some(Duration::from_millis(500));
        target.set_read_timeout(limit).unwrap();
        let greeted = (0..20).find_map(|_| {
            client.send(b"hello").unwrap();
            receive(&target, &mut buffer)
        });
        target.connect(greeted.unwrap().1).unwrap();
        target.set_read_timeout(None).unwrap();
        let (from, to) = match bed.side {
            Side::Client => (client, target),
            Side::Proxy => (target, client),
        };
        Self::between(from, to, pace, (start, time))
    }

    pub(crate) fn between(
        from: UdpSocket,
        to: UdpSocket,
        pace: Pace,
        (start, time): (Instant, Duration),
    ) -> Self {
        let (tell, arrived) = channel();
        setsockopt(&to, IpRecvTos, &true).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Some((length, _, ecn)) = receive(&to, &mut buffer) {
                let Some(head) = buffer.first_chunk::<16>().filter(|_| length == PAYLOAD) else {
                    continue;
                };
                let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap());
                let sent = Duration::from_nanos(number(8));
                let arrived = Arrived {
                    number: number(0),
                    sent,
                    delay: start.elapsed() - sent,
                    ecn,
                };
                // Feedback is as large as its packet number.
                let _ = to.send(&[u8::from(ecn == CE)]);
                if tell.send(arrived).is_err() {
                    return;
                }
            }
        });
        let sending = thread::spawn(move || send(&from, pace, (start, time)));
        Self { sending, arrived }
    }

    /// Returns how many datagrams were sent, and which arrived.
    pub(crate) fn finish(self) -> (u64, Vec<Arrived>) {
        let sent = self.sending.join().unwrap();
        (sent, self.arrived.iter().collect())
    }
}

/// Sends until the end, and returns the number of datagrams.
fn send(socket: &UdpSocket, pace: Pace, (start, time): (Instant, Duration)) -> u64 {
    const ROUND: Duration = Duration::from_millis(50);
    let (mut rate, ecn) = match pace {
        Pace::Constant(rate, ecn) => (rate, ecn),
        Pace::Scalable => (1e6, ECT_1),
    };
    setsockopt(socket, Ipv4Tos, &ecn.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut payload = vec![0; PAYLOAD];
    let (mut number, mut next, mut round) = (0_u64, start.elapsed(), start.elapsed() + ROUND);
    let (mut seen, mut marked, mut share, mut starting) = (0, 0, 0.0, true);
    while start.elapsed() < time {
        if let Some(wait) = next.checked_sub(start.elapsed()) {
            thread::sleep(wait);
        }
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let now = start.elapsed();
        payload[8..16].copy_from_slice(&(now.as_nanos() as u64).to_be_bytes());
        let _ = socket.send(&payload);
        number += 1;
        next = next.max(now.saturating_sub(Duration::from_millis(1)));
        next += Duration::from_secs_f64(PAYLOAD as f64 * 8.0 / rate);
        if matches!(pace, Pace::Constant(..)) {
            continue;
        }
        let mut feedback = [0];
        while let Ok(1) = socket.recv(&mut feedback) {
            seen += 1;
            marked += u32::from(feedback[0]);
        }
        if now >= round && seen > 0 {
            round = now + ROUND;
            let fraction = f64::from(marked) / f64::from(seen);
            share += (fraction - share) / 8.0;
            if marked > 0 && starting {
                (starting, share) = (false, 1.0);
            }
            rate = match (marked, starting) {
                (0, true) => rate * 1.5,
                (0, false) => rate + 200e3,
                _ => (rate * (1.0 - share / 2.0)).max(200e3),
            };
            (seen, marked) = (0, 0);
        }
    }
    number
}

pub(crate) fn target_tcp(bed: &Bed, place: usize) -> TcpListener {
    let [_, far] = bed.nodes();
    far.tcp_listener(bed.targets[place]).unwrap()
}

/// Figures of a UDP flow after a warm-up.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "some are printed alone")]
pub(crate) struct Figures {
    /// Bits of payload per second.
    pub(crate) rate: f64,
    pub(crate) lost: f64,
    pub(crate) marked: f64,
    /// Median, 99th percentile and maximum of the delay in milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) most: f64,
}

pub(crate) fn figures(arrived: &[Arrived], (from, to): (Duration, Duration)) -> Figures {
    let in_time = |arrived: &&Arrived| (from..to).contains(&arrived.sent);
    let some: Vec<_> = arrived.iter().filter(in_time).collect();
    assert!(some.len() > 100, "{} datagrams arrived", some.len());
    let mut delays: Vec<_> = some.iter().map(|a| a.delay.as_secs_f64() * 1e3).collect();
    delays.sort_by(f64::total_cmp);
    let (first, last) = (
        some.iter().map(|a| a.number).min(),
        some.iter().map(|a| a.number).max(),
    );
    let sent = (last.unwrap() - first.unwrap() + 1) as f64;
    let count = some.len() as f64;
    Figures {
        rate: count * PAYLOAD as f64 * 8.0 / (to - from).as_secs_f64(),
        lost: 1.0 - count / sent,
        marked: some.iter().filter(|a| a.ecn == CE).count() as f64 / count,
        p50: delays[delays.len() / 2],
        p99: delays[delays.len() * 99 / 100],
        most: delays[delays.len() - 1],
    }
}

/// UDP flows and bulk TCP flows, with the places of their forwards.
pub(crate) type Flows<'a> = (&'a [(usize, Pace)], &'a [usize]);

/// Runs flows, and returns the figures of the UDP flows and the rates of the TCP flows.
pub(crate) fn run(
    bed: &Bed,
    (udp, tcp): Flows<'_>,
    time: Duration,
) -> (Vec<Figures>, Vec<f64>, Value) {
    let warm = time / 3;
    let start = Instant::now();
    let targets = [0, 3].map(|place| (place, target_tcp(bed, place)));
    let target = |place| &targets.iter().find(|(at, _)| *at == place).unwrap().1;
    let bulks = tcp
        .iter()
        .map(|place| Bulk::new(bed, *place, target(*place)));
    let bulks: Vec<_> = bulks.collect();
    let flows = udp
        .iter()
        .map(|(place, pace)| Udp::new(bed, *place, *pace, (start, time)));
    let flows: Vec<_> = flows.collect();
    thread::sleep(warm.saturating_sub(start.elapsed()));
    let (before, since): (Vec<_>, _) = (bulks.iter().map(Bulk::bytes).collect(), start.elapsed());
    // Waiting times are counted since the last call of `show`.
    bed.shown();
    thread::sleep(time.saturating_sub(start.elapsed()));
    let spent = (start.elapsed() - since).as_secs_f64();
    let rates = bulks
        .iter()
        .zip(before)
        .map(|(bulk, before)| (bulk.bytes() - before) as f64 * 8.0 / spent);
    let rates = rates.collect();
    let shown = bed.shown();
    let figures = flows
        .into_iter()
        .map(|flow| figures(&flow.finish().1, (warm, time)));
    (figures.collect(), rates, shown)
}
