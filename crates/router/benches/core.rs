//! The router without I/O: from classification to the rewritten packet.
//!
//! `cargo bench -p pathmark-router --bench core`. 5 M packets per second and core is the aim.
//!
//! Each figure is the fastest tenth of many short runs, so that other load on the machine matters
//! little. A copy of the packet is measured in the same way for comparison.
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant as Clock;

use pathmark_cc::{Duration, Instant, LinkAlgorithm, Request, XcpRequest};
use pathmark_link::impair::Random;
use pathmark_link::queue::{DropTail, Limit};
use pathmark_link::{Link, LinkConfig, Port, Schedule, Separation, Shaper, WireConfig};
use pathmark_router::forward::{
    Classifier, Identity, PortSettings, Router, RouterConfig, RouterPort, Target, USUAL,
};
use pathmark_router::ip::{Routes, TokenBucket};
use pathmark_router::offload::Offload;
use pathmark_shim::checksum::Sum;
use vcp_proto::Repr;

const PACKET: usize = 1228;
/// Packets of a run, and runs.
const CALLS: usize = 500;
const RUNS: usize = 4000;

/// Bytes at the start of a packet that differ from flow to flow, or that routers change.
const HEAD: usize = 48;

/// What stands in front of the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shim {
    None,
    Vcp,
    Xcp,
}

fn template(shim: Shim) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((PACKET as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1]);
    bytes.extend([0x12, 0x34, 0x11, 0x51]);
    bytes.extend((PACKET as u16 - 20).to_be_bytes());
    bytes.extend([0xAB, 0xCD]);
    match shim {
        Shim::None => {}
        Shim::Vcp => bytes.extend(Repr::initial(&Request::default(), true).emit()),
        Shim::Xcp => {
            // A packet each 982 ns over 20 ms, which would like to be faster.
            let request = XcpRequest {
                rtt_us: 20_000,
                x: 982 * (1 << 40) / 1_000_000_000,
                delta: 1 << 40,
                covers: 1,
                window: 25_000_000,
                packet: 1200,
            };
            let mut shim = [0; 36];
            let repr = xcp_proto::Repr::initial(xcp_proto::Form::V4, Some(&request), 64);
            assert_eq!(repr.emit(&mut shim), Some(shim.len()));
            bytes.extend(shim);
        }
    }
    bytes.resize(PACKET, 0x55);
    bytes
}

/// What one packet of each flow starts with, as it arrives.
fn flows(count: usize, shim: Shim, random: &mut Random) -> Vec<[u8; HEAD]> {
    let mut head = [0; HEAD];
    head.copy_from_slice(&template(shim)[..HEAD]);
    (0..count)
        .map(|_| {
            head[12..24].fill_with(|| random.next_u32() as u8);
            head[12] = 11;
            head[16] = 64 | head[16] & 63;
            head[10..12].fill(0);
            let checksum = Sum::new().bytes(&head[..20]).finish();
            head[10..12].copy_from_slice(&checksum.to_be_bytes());
            head
        })
        .collect()
}

fn routes(count: usize, random: &mut Random) -> Routes<Target> {
    let mut routes = Routes::new();
    routes.insert("0.0.0.0/0".parse().unwrap(), Target::Port(1));
    while routes.len() < count {
        // Lengths as in a global table: mostly /24 and /16…/22.
        let length = [24, 24, 24, 22, 20, 16][random.below(6) as usize];
        let mask = u32::MAX << (32 - length);
        let address = Ipv4Addr::from((random.next_u32() & 0x3FFF_FFFF | 0x4000_0000) & mask);
        routes.insert(
            format!("{address}/{length}").parse().unwrap(),
            Target::Port(1),
        );
    }
    routes
}

struct Setup {
    router: Router,
    flows: Vec<[u8; HEAD]>,
    /// What else of a long shim routers change.
    rest: Option<[u8; 16]>,
    buffer: Box<[u8]>,
    now: Instant,
    step: Duration,
    next: usize,
}

struct Shape {
    law: Option<&'static str>,
    rate: Option<u64>,
    separate: bool,
    shim: Shim,
    flows: usize,
    routes: usize,
    backlog: usize,
}

impl Setup {
    fn new(shape: &Shape) -> Self {
        let mut random = Random::new(1, "bench");
        let flows = flows(shape.flows, shape.shim, &mut random);
        let limit = Limit::Bytes(200_000_000);
        let queue = || Box::new(DropTail::new(limit));
        let shaper = Shaper::new(shape.rate);
        let mut port = if shape.separate {
            Port::separated(
                Instant::ZERO,
                Separation::new(queue(), queue(), limit),
                shaper,
            )
        } else {
            Port::new(Instant::ZERO, queue(), shaper)
        };
        if let Some(law) = shape.law {
            let law: LinkAlgorithm = law.parse().unwrap();
            port = port.with_controller(
                Instant::ZERO,
                law.controller(Instant::ZERO, shape.rate.unwrap_or(u64::MAX / 16), 1),
            );
        }
        let side = |port: Port<_>, name: &str| {
            let settings = PortSettings {
                name: name.to_owned(),
                mtu: 1500,
                ..PortSettings::default()
            };
            let link = Link::new(LinkConfig {
                port,
                wire: WireConfig::default(),
                schedule: Schedule::default(),
            });
            RouterPort::new(settings, link)
        };
        let back = Port::new(Instant::ZERO, queue(), Shaper::new(None));
        let mut router = Router::new(RouterConfig {
            id: Identity::new(7),
            memory: 1 << 30,
            classifier: Classifier {
                shims: true,
                ..Classifier::default()
            },
            icmp: TokenBucket::new(1000, 50),
        });
        router.replace(
            vec![side(back, "back"), side(port, "out")],
            routes(shape.routes, &mut random),
        );
        let step = shape
            .rate
            .map_or(0, |rate| PACKET as u64 * 1_000_000_000 / rate);
        let mut setup = Self {
            router,
            flows,
            rest: (shape.shim == Shim::Xcp).then(|| {
                let packet = template(shape.shim);
                *packet[HEAD..].first_chunk().unwrap()
            }),
            buffer: vec![0x55; USUAL].into_boxed_slice(),
            now: Instant::from_millis(1),
            step: Duration::from_nanos(step),
            next: 0,
        };
        for _ in 0..shape.backlog {
            setup.arrive();
        }
        setup
    }

    fn arrive(&mut self) {
        let flow = &self.flows[self.next];
        self.next = if self.next + 1 == self.flows.len() {
            0
        } else {
            self.next + 1
        };
        // As if read from an interface: the headers fresh in the buffer, the payload as it was.
        self.buffer[..HEAD].copy_from_slice(flow);
        if let Some(rest) = &self.rest {
            self.buffer[HEAD..HEAD + rest.len()].copy_from_slice(rest);
        }
        self.router
            .receive(self.now, 0, &mut self.buffer, PACKET, Offload::default());
    }

    fn packet(&mut self) {
        self.now += self.step;
        self.arrive();
        while let Some(frame) = self.router.poll(self.now, 1) {
            black_box(frame.bytes());
            self.router.pool_mut().give(frame);
        }
    }
}

/// Nanoseconds of one call.
fn measure(runs: usize, mut call: impl FnMut()) -> f64 {
    for _ in 0..CALLS * runs / 20 {
        call();
    }
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Clock::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[runs / 10]
}

fn row(name: &str, nanos: f64, copy: f64) {
    println!(
        "{name:<42} {nanos:>8.1} {:>8.2} {:>8.1}",
        1e3 / nanos,
        nanos / copy
    );
}

fn forward(copy: f64, only: Option<&str>, runs: usize) {
    let plain = Shape {
        law: None,
        rate: None,
        separate: false,
        shim: Shim::None,
        flows: 1,
        routes: 1,
        backlog: 0,
    };
    let vcp = Shape {
        law: Some("vcp+bise"),
        rate: Some(1_250_000_000),
        separate: true,
        shim: Shim::Vcp,
        ..plain
    };
    let xcp = Shape {
        law: Some("xcp"),
        shim: Shim::Xcp,
        ..vcp
    };
    let shapes = [
        ("foreign", Shape { ..plain }),
        ("vcp marked", Shape { ..vcp }),
        ("xcp stamped", Shape { ..xcp }),
        (
            "vcp, queue of 1 BDP (10 Gbit/s, 20 ms)",
            Shape {
                backlog: 20_000,
                ..vcp
            },
        ),
        (
            "vcp, 10^5 flows",
            Shape {
                flows: 100_000,
                ..vcp
            },
        ),
        (
            "vcp, 10^5 flows, 10^5 routes",
            Shape {
                flows: 100_000,
                routes: 100_000,
                ..vcp
            },
        ),
        (
            "vcp, 1 BDP, 10^5 flows, 10^5 routes",
            Shape {
                backlog: 20_000,
                flows: 100_000,
                routes: 100_000,
                ..vcp
            },
        ),
    ];
    for (name, shape) in shapes {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let mut setup = Setup::new(&shape);
        row(name, measure(runs, || setup.packet()), copy);
        let port = setup.router.ports()[1].link.port();
        let drops = port.stats().drops().by_queue() + setup.router.counters().no_buffer;
        assert_eq!(drops, 0, "{name}");
    }
}

fn lookup(copy: f64) {
    let mut random = Random::new(2, "bench");
    let table = routes(100_000, &mut random).compile();
    let hosts = flows(100_000, Shim::None, &mut random);
    let mut next = 0;
    let nanos = measure(RUNS, || {
        next = (next + 1) % hosts.len();
        let [.., a, b, c, d] = *hosts[next].first_chunk::<20>().unwrap();
        black_box(table.lookup(Ipv4Addr::new(a, b, c, d).into()));
    });
    row("lookup, IPv4, 10^5 routes", nanos, copy);
    let mut table = Routes::new();
    while table.len() < 100_000 {
        let length = [48, 48, 32, 40, 64][random.below(5) as usize];
        let address = (u128::from(random.next_u32()) << 96 | u128::from(random.next_u32()) << 64)
            & (u128::MAX << (128 - length));
        let address = Ipv6Addr::from(address >> 3 | 1 << 125);
        if let Ok(prefix) = format!("{address}/{}", length + 3).parse() {
            table.insert(prefix, 1);
        }
    }
    let table = table.compile();
    let nanos = measure(RUNS, || {
        let address = Ipv6Addr::from(u128::from(random.next_u32()) << 93 | 1 << 125);
        black_box(table.lookup(address.into()));
    });
    row("lookup, IPv6, 10^5 routes", nanos, copy);
}

fn main() {
    println!(
        "{:<42} {:>8} {:>8} {:>8}",
        format!("packets of {PACKET} bytes"),
        "ns",
        "M/s",
        "x copy"
    );
    let (from, mut to) = (template(Shim::Vcp), vec![0; PACKET]);
    let copy = measure(RUNS, || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    });
    row("copying the packet", copy, copy);
    // `-- NAME [RUNS]` measures only the packets of that name, in `RUNS` runs, for a profiler: 1200
    // runs take 525,000 packets more than 200.
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let only = words.next();
    let runs = words
        .next()
        .map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    forward(copy, only.as_deref(), runs);
    if only.is_none() {
        lookup(copy);
    }
}
