//! Forwarding between two TUN interfaces as a share of what a program moves that only copies
//! between them.
//!
//! `cargo bench -p pathmark-router --bench tun`. Same interfaces, same offloads, same process,
//! taking turns.
//!
//! First the CPU time per datagram of a port of 100 Mbit/s that is in use in part. Then what
//! arrives while a sender sends all it can, the forwarder in a thread of its own, and
//! the forwarder's CPU time per byte. Each round gives a share of the copying program's figure in
//! the same round; medians over the rounds, so that what else the machine does decides less. Then,
//! on one thread, the CPU time that it takes to empty an interface whose queue is full: no thread
//! waits for another there, and the fastest tenth of the runs gives the cost of the work.
//!
//! The aims: TCP of the kernel and bulk datagrams in super-packets 90 %, single UDP datagrams 85 %.
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

#[path = "tun/forwarders.rs"]
mod forwarders;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forwarders::{Forwarder, Hosts, LEFT, RIGHT, copy, copy_batch, driver, route, set_offloads};
use pathmark_cc::Request;
use pathmark_link::keys::LinkSpec;
use pathmark_testbed::Node;
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};
use vcp_proto::Repr;

const ROUNDS: usize = 15;
/// Of emptying an interface.
const RUNS: usize = 300;
const ROUND: Duration = Duration::from_millis(300);
const SEGMENT: usize = 1200;

/// Bytes per second of one TCP connection.
fn tcp(hosts: &Hosts) -> f64 {
    let listener = hosts
        .right
        .tcp_listener("10.0.2.2:0".parse().unwrap())
        .unwrap();
    let fd: OwnedFd = hosts
        .left
        .socket(Domain::IPV4.into(), Type::STREAM.into(), 0)
        .unwrap();
    let socket = Socket::from(fd);
    socket
        .connect(&listener.local_addr().unwrap().into())
        .unwrap();
    let mut from = TcpStream::from(socket);
    let mut to = listener.accept().unwrap().0;
    let received = Arc::new(AtomicU64::new(0));
    let count = received.clone();
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        while let Ok(n @ 1..) = to.read(&mut buffer) {
            count.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    let data = vec![0; 256 * 1024];
    let start = Instant::now();
    while start.elapsed() < ROUND / 4 {
        from.write_all(&data).unwrap();
    }
    let (start, before) = (Instant::now(), received.load(Ordering::Relaxed));
    while start.elapsed() < ROUND {
        from.write_all(&data).unwrap();
    }
    let rate = (received.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    drop(from);
    reader.join().unwrap();
    rate
}

/// Packets per second that reach the far interface. No process reads them there: sockets are too
/// small to hold them.
fn arriving(hosts: &Hosts, send: impl FnOnce(&AtomicBool) + Send) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send(&stop));
        thread::sleep(ROUND / 4);
        let (start, before) = (Instant::now(), received(hosts));
        thread::sleep(ROUND);
        let rate = (received(hosts) - before) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// Bytes that the far host's interface has received.
fn received(hosts: &Hosts) -> u64 {
    let mut command = std::process::Command::new("cat");
    command
        .arg("/proc/net/dev")
        .stdout(std::process::Stdio::piped());
    let mut child = hosts.right.spawn(command, &[]).unwrap();
    let text = io::read_to_string(child.child().stdout.take().unwrap()).unwrap();
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("tun0:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn sockets(hosts: &Hosts) -> (UdpSocket, UdpSocket) {
    let bind = |node: &Node, address: &str| {
        let ip: IpAddr = address.parse().unwrap();
        node.udp((ip, 0).into()).unwrap()
    };
    let (from, to) = (bind(&hosts.left, LEFT), bind(&hosts.right, RIGHT));
    from.connect(to.local_addr().unwrap()).unwrap();
    (from, to)
}

fn udp(hosts: &Hosts, len: usize) -> f64 {
    let (from, _to) = sockets(hosts);
    let data = vec![0x55; len];
    arriving(hosts, |stop| {
        while !stop.load(Ordering::Relaxed) {
            let _ = from.send(&data);
        }
    })
}

/// Datagrams that each begin with a VCP shim, in super-packets.
struct Bulk {
    data: Vec<u8>,
    state: UdpSocketState,
    destination: SocketAddr,
}

impl Bulk {
    fn new(from: &UdpSocket, to: &UdpSocket) -> Self {
        let mut datagram = Repr::initial(&Request::default(), true).emit().to_vec();
        datagram.resize(SEGMENT, 0x55);
        let state = UdpSocketState::new(UdpSockRef::from(from)).unwrap();
        from.set_nonblocking(false).unwrap();
        Self {
            data: datagram.repeat(40),
            state,
            destination: to.local_addr().unwrap(),
        }
    }

    fn send(&self, from: &UdpSocket) {
        let transmit = Transmit {
            destination: self.destination,
            ecn: None,
            contents: &self.data,
            segment_size: Some(SEGMENT),
            src_ip: None,
        };
        let _ = self.state.try_send(UdpSockRef::from(from), &transmit);
    }
}

fn bulk(hosts: &Hosts) -> f64 {
    let (from, to) = sockets(hosts);
    let bulk = Bulk::new(&from, &to);
    arriving(hosts, |stop| {
        while !stop.load(Ordering::Relaxed) {
            bulk.send(&from);
        }
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Shares of the first of each row, in percent.
fn shares(rounds: &[[f64; 3]], share: impl Fn(f64, f64) -> f64) -> [f64; 3] {
    [0, 1, 2].map(|kind| {
        let mut shares: Vec<f64> = rounds
            .iter()
            .map(|round| share(round[kind], round[0]) * 100.0)
            .collect();
        median(&mut shares)
    })
}

fn row(name: &str, scale: f64, copied: &mut [f64], shares: [f64; 3]) {
    let [_, plain, vcp] = shares;
    println!(
        "{name:<44} {:>10.2} {plain:>11.0}% {vcp:>11.0}%",
        median(copied) * scale
    );
}

/// What arrives, and what it costs.
fn throughput(hosts: &Hosts, specs: [&LinkSpec; 2]) {
    type Load = (&'static str, fn(&Hosts) -> f64);
    let loads: [Load; 4] = [
        ("kernel TCP", tcp),
        ("UDP of 64 bytes", |hosts| udp(hosts, 64)),
        ("UDP of 1400 bytes", |hosts| udp(hosts, 1400)),
        ("VCP datagrams in super-packets", bulk),
    ];
    for (name, load) in loads {
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (mut rate, mut cost) = ([0.0; 3], [0.0; 3]);
            for turn in 0..3 {
                let kind = (round + turn) % 3;
                let before = received(hosts);
                let running = match kind {
                    0 => copy(hosts),
                    other => route(hosts, specs[other - 1]),
                };
                rate[kind] = load(hosts);
                let cpu = running.finish().as_secs_f64();
                cost[kind] = cpu / (received(hosts) - before) as f64;
            }
            rates.push(rate);
            costs.push(cost);
        }
        let mut copied: Vec<f64> = rates.iter().map(|round| round[0]).collect();
        let rates = shares(&rates, |mine, copied| mine / copied);
        row(&format!("{name}: Mbit/s"), 8e-6, &mut copied, rates);
        let mut copied: Vec<f64> = costs.iter().map(|round| round[0]).collect();
        let costs = shares(&costs, |mine, copied| copied / mine);
        row("  CPU s/GB", 1e9, &mut copied, costs);
    }
}

/// CPU time of this thread in nanoseconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// What it costs to empty a full interface.
fn emptying(hosts: &Hosts, specs: [&LinkSpec; 2]) {
    let (from, to) = sockets(hosts);
    let bulk = Bulk::new(&from, &to);
    let files = hosts
        .tuns
        .each_ref()
        .map(|tun| File::from(tun.fd.try_clone().unwrap()));
    let mut drivers = specs.map(|spec| driver(hosts, spec));
    let mut buffer = vec![0; 70_000];
    let mut empty = |kind: usize, packets: u64| {
        let before = cpu_time();
        if kind == 0 {
            let mut copied = 0;
            while copied < packets {
                let mut fds = files
                    .each_ref()
                    .map(|file| PollFd::new(file, PollFlags::IN));
                poll(&mut fds, None).unwrap();
                copied += copy_batch(&files[0], &files[1], &mut buffer);
            }
        } else {
            let driver = &mut drivers[kind - 1];
            let end = driver.router().counters().received + packets;
            while driver.router().counters().received < end {
                let now = driver.now();
                driver.turn(&[], Some(now)).unwrap();
            }
        }
        (cpu_time() - before) / packets as f64
    };
    let single = |len| vec![0x55; len];
    let (small, large) = (single(64), single(1400));
    let send = |data: &[u8]| drop(from.send(data));
    let loads: [(&str, u64, &dyn Fn()); 3] = [
        ("UDP of 64 bytes", 400, &|| send(&small)),
        ("UDP of 1400 bytes", 400, &|| send(&large)),
        ("VCP datagrams in super-packets of 40", 40, &|| {
            bulk.send(&from);
        }),
    ];
    for (name, packets, send) in loads {
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..RUNS {
            for (kind, costs) in costs.iter_mut().enumerate() {
                for _ in 0..packets {
                    send();
                }
                costs.push(empty(kind, packets));
            }
        }
        let best = costs.each_mut().map(|costs| {
            costs.sort_by(f64::total_cmp);
            costs[RUNS / 10]
        });
        row(
            &format!("{name}: CPU ns each"),
            1.0,
            &mut [best[0]],
            best.map(|mine| best[0] / mine * 100.0),
        );
    }
}

/// Datagrams of [`SEGMENT`] bytes at `rate` per second for a second; CPU time of the forwarder per
/// datagram that arrives, microseconds.
fn paced(hosts: &Hosts, rate: u32, running: Forwarder) -> f64 {
    let (from, _to) = sockets(hosts);
    let data = vec![0x55; SEGMENT];
    let before = received(hosts);
    let start = Instant::now();
    for number in 0..rate {
        let due = Duration::from_secs(1) * number / rate;
        thread::sleep(due.saturating_sub(start.elapsed()));
        let _ = from.send(&data);
    }
    let arrived = received(hosts) - before;
    let datagrams = arrived as f64 / (SEGMENT + 28) as f64;
    running.finish().as_secs_f64() * 1e6 / datagrams
}

/// What a packet costs where a port of 100 Mbit/s is in use in part.
fn moderate(hosts: &Hosts) {
    let rate = Some("100Mbit".parse().unwrap());
    let plain = LinkSpec {
        rate,
        ..LinkSpec::default()
    };
    let vcp = LinkSpec {
        controller: Some("vcp+bise".parse().unwrap()),
        ..plain.clone()
    };
    let specs = [plain, vcp];
    for share in [10, 50, 95] {
        let rate = 100_000_000 / 8 / (SEGMENT as u32 + 28) * share / 100;
        let mut costs = [const { Vec::new() }; 3];
        for round in 0..5 {
            for turn in 0..3 {
                let kind = (round + turn) % 3;
                let running = match kind {
                    0 => copy(hosts),
                    other => route(hosts, &specs[other - 1]),
                };
                costs[kind].push(paced(hosts, rate, running));
            }
        }
        let cells = costs.each_mut().map(|costs| {
            let median = median(costs);
            format!(
                "{median:.1} ({:.1}-{:.1})",
                costs[0],
                costs[costs.len() - 1]
            )
        });
        let [copied, plain, vcp] = cells;
        let name = format!("{share} Mbit/s: CPU us each");
        println!("{name:<32} {copied:>18} {plain:>18} {vcp:>18}");
    }
}

fn main() {
    let hosts = Hosts::new();
    set_offloads(&hosts);
    println!(
        "{:<32} {:>18} {:>18} {:>18}",
        "", "copy", "plain port", "vcp port"
    );
    println!("a port of 100 Mbit/s, median and range of five rounds");
    moderate(&hosts);
    let plain = LinkSpec::default();
    let vcp = LinkSpec {
        rate: Some("40Gbit".parse().unwrap()),
        controller: Some("vcp+bise".parse().unwrap()),
        ..LinkSpec::default()
    };
    println!(
        "{:<44} {:>10} {:>12} {:>12}",
        "", "copy", "plain port", "vcp port"
    );
    throughput(&hosts, [&plain, &vcp]);
    println!("emptying a full interface");
    emptying(&hosts, [&plain, &vcp]);
}
