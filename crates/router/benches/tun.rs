//! Forwarding between two TUN interfaces as a share of what a program moves that only copies between them.
//!
//! `cargo bench -p pathmark-router --bench tun`. Same interfaces, same offloads, same process, taking turns, one thread each;
//! medians over the rounds. First what arrives, then the forwarder's CPU time per byte, which other programs on the machine
//! disturb less; each with its share of the copying program's. The aims: TCP of the kernel and bulk datagrams in
//! super-packets 90 %, single UDP datagrams 85 %.
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pathmark_cc::Request;
use pathmark_router::config::{Interface, LinkContext, LinkSpec, build_link};
use pathmark_router::forward::{
    Classifier, Identity, PortSettings, Router, RouterConfig, RouterPort, Target,
};
use pathmark_router::ip::{Routes, TokenBucket};
use pathmark_router::tun::{Device, Driver, Pace};
use pathmark_testbed::{Node, Testbed, Tun};
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket, Type};
use vcp_proto::Repr;

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(300);
const LEFT: &str = "10.0.1.2";
const RIGHT: &str = "10.0.2.2";
const SEGMENT: usize = 1200;

struct Hosts {
    left: Node,
    right: Node,
    tuns: [Tun; 2],
}

impl Hosts {
    fn new() -> Self {
        let bed = Testbed::new().expect("this bench needs user namespaces and /dev/net/tun");
        let host = |name: &str, address: &str| {
            let node = bed.node(name).unwrap();
            let tun = node.tun("tun0", 1500).unwrap();
            node.add_address("tun0", format!("{address}/24").parse().unwrap())
                .unwrap();
            node.add_route("0.0.0.0/0".parse().unwrap(), "tun0", None)
                .unwrap();
            (node, tun)
        };
        let (left, a) = host("left", LEFT);
        let (right, b) = host("right", RIGHT);
        Self {
            left,
            right,
            tuns: [a, b],
        }
    }
}

/// Forwards in a thread of its own.
struct Forwarder {
    stop: Arc<AtomicBool>,
    bell: UnixStream,
    /// Gives the CPU time that it took.
    thread: JoinHandle<Duration>,
}

impl Forwarder {
    /// `run` forwards until it is told to stop.
    fn start(run: impl FnOnce(&AtomicBool, &UnixStream) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (bell, ear) = UnixStream::pair().unwrap();
        let flag = stop.clone();
        let thread = thread::spawn(move || {
            run(&flag, &ear);
            // The first number: nanoseconds that this thread has run.
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            let nanos = stat.split(' ').next().unwrap().parse().unwrap();
            Duration::from_nanos(nanos)
        });
        Self { stop, bell, thread }
    }

    fn finish(mut self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.write_all(&[1]).unwrap();
        self.thread.join().unwrap()
    }
}

/// Copies between the interfaces: a read and a write per packet, and nothing else.
fn copy(hosts: &Hosts) -> Forwarder {
    let files = hosts
        .tuns
        .each_ref()
        .map(|tun| File::from(tun.fd.try_clone().unwrap()));
    Forwarder::start(move |stop, ear| {
        let mut buffer = vec![0; 70_000];
        while !stop.load(Ordering::Relaxed) {
            let mut fds = [
                PollFd::new(&files[0], PollFlags::IN),
                PollFd::new(&files[1], PollFlags::IN),
                PollFd::new(ear, PollFlags::IN),
            ];
            poll(&mut fds, None).unwrap();
            let ready = [0, 1].map(|side: usize| !fds[side].revents().is_empty());
            for (side, ready) in ready.into_iter().enumerate() {
                if !ready {
                    continue;
                }
                for _ in 0..64 {
                    match (&files[side]).read(&mut buffer) {
                        Ok(len) => drop((&files[1 - side]).write(&buffer[..len])),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    })
}

/// Forwards as `vcp-router` does.
fn route(hosts: &Hosts, spec: &LinkSpec) -> Forwarder {
    let fds = hosts.tuns.each_ref().map(|tun| tun.fd.as_raw_fd());
    let spec = spec.clone();
    Forwarder::start(move |stop, ear| {
        let router = Router::new(RouterConfig {
            id: Identity::new(1),
            memory: 1 << 28,
            classifier: Classifier {
                shims: true,
                ..Classifier::default()
            },
            icmp: TokenBucket::new(1000, 50),
        });
        let mut driver = Driver::new(router, Pace::default());
        let devices = fds.map(|fd| Device::open(&Interface::Fd(fd), 1500).unwrap());
        driver.set_devices(devices.into());
        let context = LinkContext {
            now: driver.now(),
            seed: 1,
            name: "bench",
            rtt: None,
        };
        let ports = ["left", "right"].map(|name| RouterPort {
            settings: PortSettings {
                name: name.to_owned(),
                mtu: 1500,
                addresses: Vec::new(),
                per_packet: false,
            },
            link: build_link(&spec, &context).unwrap(),
        });
        let mut routes = Routes::new();
        routes.insert("10.0.1.0/24".parse().unwrap(), Target::Port(0));
        routes.insert("10.0.2.0/24".parse().unwrap(), Target::Port(1));
        driver.router_mut().replace(ports.into(), routes);
        let watched = [ear.as_raw_fd()];
        while !stop.load(Ordering::Relaxed) {
            driver.turn(&watched, None).unwrap();
        }
    })
}

/// Sets the offloads that the router would, for whoever comes next.
fn set_offloads(hosts: &Hosts) {
    for tun in &hosts.tuns {
        drop(Device::open(&Interface::Fd(tun.fd.as_raw_fd()), 1500).unwrap());
    }
}

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

/// Packets per second that reach the far interface; sockets there are too small to hold them, so nobody reads.
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
fn bulk(hosts: &Hosts) -> f64 {
    let (from, to) = sockets(hosts);
    let mut datagram = Repr::initial(&Request::default(), true).emit().to_vec();
    datagram.resize(SEGMENT, 0x55);
    let data = datagram.repeat(40);
    let state = UdpSocketState::new(UdpSockRef::from(&from)).unwrap();
    let destination = to.local_addr().unwrap();
    from.set_nonblocking(false).unwrap();
    arriving(hosts, |stop| {
        while !stop.load(Ordering::Relaxed) {
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &data,
                segment_size: Some(SEGMENT),
                src_ip: None,
            };
            let _ = state.try_send(UdpSockRef::from(&from), &transmit);
        }
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let hosts = Hosts::new();
    set_offloads(&hosts);
    let plain = LinkSpec::default();
    let vcp = LinkSpec {
        rate: Some("40Gbit".parse().unwrap()),
        controller: Some("vcp+bise".parse().unwrap()),
        ..LinkSpec::default()
    };
    type Load = (&'static str, fn(&Hosts) -> f64);
    let loads: [Load; 4] = [
        ("kernel TCP", tcp),
        ("UDP of 64 bytes", |hosts| udp(hosts, 64)),
        ("UDP of 1400 bytes", |hosts| udp(hosts, 1400)),
        ("VCP datagrams in super-packets", bulk),
    ];
    println!(
        "{:<32} {:>12} {:>16} {:>16}",
        "", "copy", "plain port", "vcp port"
    );
    for (name, load) in loads {
        let mut rates = [const { Vec::new() }; 3];
        let mut costs = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            let kinds: [&dyn Fn() -> Forwarder; 3] =
                [&|| copy(&hosts), &|| route(&hosts, &plain), &|| {
                    route(&hosts, &vcp)
                }];
            for (index, kind) in kinds.iter().enumerate() {
                let before = received(&hosts);
                let running = kind();
                rates[index].push(load(&hosts) * 8e-6);
                let cpu = running.finish().as_secs_f64();
                costs[index].push(cpu / (received(&hosts) - before) as f64 * 1e9);
            }
        }
        let [copied, plain, vcp] = rates.each_mut().map(|rates| median(rates));
        let share = |rate: f64| format!("{rate:.0} ({:.0}%)", rate / copied * 100.0);
        println!(
            "{:<32} {copied:>12.0} {:>16} {:>16}",
            format!("{name}, Mbit/s"),
            share(plain),
            share(vcp)
        );
        let [copied, plain, vcp] = costs.each_mut().map(|costs| median(costs));
        let share = |cost: f64| format!("{cost:.2} ({:.0}%)", copied / cost * 100.0);
        println!(
            "{:<32} {copied:>12.2} {:>16} {:>16}",
            "  CPU s/GB",
            share(plain),
            share(vcp)
        );
    }
}
