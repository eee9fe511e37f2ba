//! Three routers in a row, the middle one plain: the last one measures what it leaves.

use pathmark_cc::{CloudMetrics, LinkAlgorithm, XcpRequest};
use xcp_edge::{Edge, Estimator, Key, Limits, Prober, Requester};
use xcp_proto::header::{Body, LastRouter};
use xcp_proto::{Form, Repr};

use super::super::tests::udp;
use super::super::{Classifier, Identity, PortSettings, RouterConfig, RouterPort};
use super::*;
use crate::core::impair::WireConfig;
use crate::core::queue::{DropTail, Limit};
use crate::core::{Link, LinkConfig, Port, Schedule, Shaper};
use crate::ip::{Routes, TokenBucket};
use crate::offload::{Gso, GsoKind, Partial};

const SENDER: &str = "10.0.0.1";
const RECEIVER: &str = "10.1.0.2";
const BACK: usize = 0;
const OUT: usize = 1;
/// UDP port of messages.
const PORT: u16 = 6653;

fn address(router: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, router, 1)
}

fn port(router: u8, megabits: u64, law: &str) -> RouterPort {
    let rate = megabits * 125_000;
    let queue = Box::new(DropTail::new(Limit::Packets(1000)));
    let mut port = Port::new(Instant::ZERO, queue, Shaper::new(Some(rate)));
    let law: LinkAlgorithm = law.parse().unwrap();
    if law.name() != "none" {
        let controller = law.controller(Instant::ZERO, rate, 1);
        port.set_controller(Instant::ZERO, Some(controller));
    }
    let settings = PortSettings {
        mtu: 1500,
        addresses: vec![address(router).into()],
        measures: law.measured_estimate(),
        ..PortSettings::default()
    };
    let link = Link::new(LinkConfig {
        port,
        wire: WireConfig::default(),
        schedule: Schedule::default(),
    });
    RouterPort::new(settings, link)
}

fn meter(router: u8, secret: &[u8]) -> CloudMeter {
    let own = IpAddr::V4(address(router));
    let key = || Key::new(secret).unwrap();
    let limits = Limits {
        rate: 100_000,
        burst: 1_000_000,
        packet: 1472,
    };
    let start = Key::new(&[router; 32]).unwrap();
    let prober = Prober::new(Instant::ZERO, own, key(), start, limits);
    let first = Estimator::first_train(1472);
    let requester = Requester::new(Instant::ZERO, own, key(), router.into(), first);
    let edge = Edge::new(own, key(), prober, requester);
    CloudMeter::new(address(router), PORT, Measurer::new(edge, 1472))
}

/// Routers 0, 1 and 2 from the sender to the receiver, the links behind them of 80, 30 and 80
/// Mbit/s.
struct Row {
    now: Instant,
    routers: Vec<Router>,
    arrived: Vec<Vec<u8>>,
    /// Messages on their way to the first router, and on the way back.
    requests: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    /// Headers of further packets, ten for each of the sender's, name ever new routers.
    made_up: u32,
    floods: bool,
    /// What a tunnel in the middle gives all packets for a TTL.
    tunnel: Option<u8>,
}

impl Row {
    fn new(laws: [&str; 3]) -> Self {
        let routers = laws
            .iter()
            .zip([80, 30, 80])
            .zip(0u8..)
            .map(|((law, rate), id)| {
                let mut name = Identity::new(u16::from(id) + 1);
                name.v4 = address(id);
                let mut router = Router::new(RouterConfig {
                    id: name,
                    memory: 10_000_000,
                    classifier: Classifier {
                        shims: true,
                        ..Classifier::default()
                    },
                    icmp: TokenBucket::new(100, 5),
                });
                let mut routes = Routes::new();
                let mut ends = vec![
                    (SENDER.parse().unwrap(), BACK),
                    (RECEIVER.parse().unwrap(), OUT),
                ];
                let others = (0..3).filter(|other| *other != id);
                ends.extend(others.map(|other| {
                    let side = if other < id { BACK } else { OUT };
                    (IpAddr::V4(address(other)), side)
                }));
                for (to, side) in ends {
                    routes.insert(to.into(), Target::Port(side));
                }
                router.replace(vec![port(id, 80, "none"), port(id, rate, law)], routes);
                router
            });
        Self {
            now: Instant::ZERO,
            routers: routers.collect(),
            arrived: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            made_up: 0,
            floods: false,
            tunnel: None,
        }
    }

    fn receive(&mut self, router: usize, from: usize, bytes: &[u8]) {
        let mut buffer = vec![0; 2048].into_boxed_slice();
        buffer[..bytes.len()].copy_from_slice(bytes);
        let router = &mut self.routers[router];
        router.receive(self.now, from, &mut buffer, bytes.len(), Offload::default());
    }

    /// Whatever is due, everywhere.
    fn turn(&mut self) {
        for router in 0..3 {
            let mut out = Vec::new();
            while let Some(port) = self.routers[router].due(self.now) {
                while let Some(frame) = self.routers[router].poll(self.now, port) {
                    out.push((port, frame.bytes().to_vec()));
                    self.routers[router].pool_mut().give(frame);
                }
            }
            for (port, mut bytes) in out {
                let message = bytes[9] == 17 && bytes[22..24] == PORT.to_be_bytes();
                match (port, router) {
                    (BACK, 1) if message => self.requests.push(bytes.clone()),
                    (OUT, 1) if message => self.answers.push(bytes.clone()),
                    _ => {}
                }
                if let (OUT, 1, Some(ttl)) = (port, router, self.tunnel) {
                    set_ttl(&mut bytes, ttl);
                }
                match (port, router) {
                    (OUT, 2) => self.arrived.push(bytes),
                    (OUT, _) => self.receive(router + 1, BACK, &bytes),
                    (BACK, 0) => {}
                    _ => self.receive(router - 1, OUT, &bytes),
                }
            }
        }
    }

    /// A sender of 10 Mbit/s by XCP, until then.
    fn run(&mut self, until: Duration) {
        let request = XcpRequest {
            rtt_us: 40_000,
            x: (1 << 40) * 1200 / 1_000_000,
            delta: 0,
            covers: 1,
            window: 50_000,
            packet: 1200,
        };
        let mut payload = vec![0x55; 1222];
        let header = Repr::initial(Form::V4, Some(&request), 64);
        header.emit(&mut payload).unwrap();
        let data = udp(SENDER, RECEIVER, 64, 0x4000, &payload);
        let mut tick = 0u64;
        while self.now < Instant::ZERO + until {
            self.now += Duration::from_micros(20);
            tick += 1;
            if tick.is_multiple_of(50) {
                self.receive(0, BACK, &data);
            }
            if self.floods && tick.is_multiple_of(5) {
                let flood = self.made_up(&request);
                self.receive(2, BACK, &flood);
            }
            self.turn();
        }
    }

    /// A packet that says that it came through a cloud from another router than any before.
    fn made_up(&mut self, request: &XcpRequest) -> Vec<u8> {
        self.made_up += 1;
        let address = Ipv4Addr::from_bits(0xC612_0000 + self.made_up);
        let mut header = Repr::initial(Form::V4, Some(request), 64);
        header.stamped = true;
        if let Body::Full(fields) = &mut header.body {
            fields.last = LastRouter::V4(address);
        }
        let mut payload = vec![0x55; 100];
        header.emit(&mut payload).unwrap();
        udp("10.0.0.77", RECEIVER, 40, 0x4000, &payload)
    }

    fn clouds(&self) -> CloudMetrics {
        let port = self.routers[2].ports()[OUT].link.port();
        port.metrics().unwrap().clouds.unwrap()
    }

    fn estimate(&self) -> Option<CloudEstimate> {
        let meter = self.routers[2].cloud_meter()?;
        let mut known = meter.estimates(self.now);
        known.next().map(|known| known.estimate)
    }
}

/// Of 30 Mbit/s 10 are used. The port is told, the sender's packets are counted in a virtual
/// router, and nobody else's are touched.
#[test]
fn a_plain_router_in_the_middle_is_measured() {
    let mut row = Row::new(["xcp-i", "none", "xcp-i[estimate=real]"]);
    for router in [0, 2u8] {
        let meter = meter(router, b"a secret of sixteen bytes");
        row.routers[usize::from(router)].set_cloud_meter(Some(meter));
    }
    row.run(Duration::from_secs(4));
    let known = row.estimate().unwrap();
    let share = |bytes: i64| bytes as f64 / 3_750_000.0;
    assert!(
        (share(known.capacity as i64) - 1.0).abs() < 0.03,
        "{known:?}"
    );
    assert!(
        (share(known.available) - 2.0 / 3.0).abs() < 0.05,
        "{known:?}"
    );
    let clouds = row.clouds();
    assert_eq!((clouds.upstreams, clouds.known), (1, 1));
    assert!(clouds.counted > 2000, "{clouds:?}");
    // Four seconds of data, and no message, came out at the end.
    assert!(
        (3990..=4000).contains(&row.arrived.len()),
        "{}",
        row.arrived.len()
    );
    let before = row.routers[0].cloud_meter().unwrap();
    let answers = before.measurer().edge().prober.stats();
    assert!(answers.trains > 5 && answers.refused == 0, "{answers:?}");
    let counts = row.routers[1].counters();
    assert_eq!((counts.local, counts.no_route), (0, 0));
}

/// Another secret: requests get no answer, and are counted as forged.
#[test]
fn strangers_get_no_answer() {
    let mut row = Row::new(["xcp-i", "none", "xcp-i[estimate=real]"]);
    row.routers[0].set_cloud_meter(Some(meter(0, b"a secret of sixteen bytes")));
    row.routers[2].set_cloud_meter(Some(meter(2, b"another one of sixteen bytes")));
    row.run(Duration::from_secs(4));
    assert_eq!(row.estimate(), None);
    let before = row.routers[0].cloud_meter().unwrap();
    let asked = before.measurer().edge().forged();
    assert!((3..=9).contains(&asked), "{asked}");
    assert_eq!(before.counts().sent, 0);
}

/// Without a meter, or for another port, a router says what it always says: port unreachable.
#[test]
fn other_packets_for_the_router_are_answered_as_before() {
    let mut row = Row::new(["xcp-i", "none", "none"]);
    let own = address(0).to_string();
    let mut packet = udp(RECEIVER, &own, 64, 0x4000, &[4; 64]);
    let unreachable = |row: &Row| row.routers[0].counters().icmp_sent;
    packet[22..24].copy_from_slice(&PORT.to_be_bytes());
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 1);
    row.routers[0].set_cloud_meter(Some(meter(0, b"a secret of sixteen bytes")));
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 1);
    packet[22..24].copy_from_slice(&(PORT + 1).to_be_bytes());
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 2);
    assert_eq!(row.routers[0].cloud_meter().unwrap().counts().received, 1);
}

fn measured() -> Row {
    let mut row = Row::new(["xcp-i", "none", "xcp-i[estimate=real]"]);
    for router in [0, 2u8] {
        let meter = meter(router, b"a secret of sixteen bytes");
        row.routers[usize::from(router)].set_cloud_meter(Some(meter));
    }
    row
}

fn set_ttl(packet: &mut [u8], ttl: u8) {
    packet[8] = ttl;
    packet[10..12].fill(0);
    let sum = Sum::new().bytes(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The router before the cloud vanishes: its estimate runs out within seconds, packets say that the
/// cloud is not accounted for, and few requests go out. Once it is back it is asked again.
#[test]
fn a_router_that_vanishes() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    assert!(row.estimate().is_some());
    row.routers[0].set_cloud_meter(None);
    let asked = row.requests.len();
    row.run(Duration::from_secs(8));
    assert_eq!(row.estimate(), None);
    let before = row.clouds();
    row.run(Duration::from_secs(9));
    let after = row.clouds();
    assert_eq!(after.counted, before.counted);
    assert!(after.unknown >= before.unknown + 990, "{after:?}");
    assert!(row.requests.len() - asked <= 12);
    row.routers[0].set_cloud_meter(Some(meter(0, b"a secret of sixteen bytes")));
    row.run(Duration::from_secs(16));
    assert!(row.estimate().is_some());
}

/// Whoever heard all messages and sends them again gets nothing, and changes nothing.
#[test]
fn messages_that_are_repeated() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    let (requests, answers) = (row.requests.clone(), row.answers.clone());
    assert!(requests.len() > 5 && answers.len() > 50);
    let trains = |row: &Row| {
        let meter = row.routers[0].cloud_meter().unwrap();
        meter.measurer().edge().prober.stats()
    };
    let before = trains(&row);
    for request in &requests {
        row.receive(0, OUT, request);
    }
    let after = trains(&row);
    assert_eq!(after.trains, before.trains);
    assert!(after.replayed + after.unproven >= before.replayed + requests.len() as u64 - 2);
    let known = row.estimate();
    for answer in answers.iter().rev() {
        row.receive(2, BACK, answer);
    }
    let meter = row.routers[2].cloud_meter().unwrap();
    assert!(meter.measurer().edge().requester.stats().stray >= answers.len() as u64 - 128);
    assert_eq!(row.estimate(), known);
}

/// A thousand made-up routers a second, each of which would be asked: memory is bounded, few
/// requests leave, and the cloud that is known stays known.
#[test]
fn made_up_routers_in_headers() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    row.floods = true;
    let counts = row.routers[2].cloud_meter().unwrap().counts();
    row.run(Duration::from_secs(6));
    assert!(row.made_up > 30_000);
    assert!(row.estimate().is_some());
    let clouds = row.clouds();
    assert!(clouds.upstreams <= 32 && clouds.known == 1, "{clouds:?}");
    assert!(clouds.counted > 5000, "{clouds:?}");
    // Nobody knows the way to them; there are ten requests at once, and ten a second.
    let after = row.routers[2].cloud_meter().unwrap().counts();
    assert!(after.unsent - counts.unsent <= 60, "{after:?}");
}

/// A tunnel in the cloud gives packets a TTL of its own. The one that they would have without the
/// cloud hides it, any other makes it longer. Neither harms anybody.
#[test]
fn a_tunnel_that_rewrites_the_ttl() {
    for (ttl, found) in [(63, false), (255, true), (12, true)] {
        let mut row = measured();
        row.tunnel = Some(ttl);
        row.run(Duration::from_secs(2));
        assert_eq!(row.clouds().upstreams > 0, found, "{ttl}");
        assert_eq!(row.estimate().is_some(), found, "{ttl}");
        assert!(row.arrived.len() >= 1990);
    }
}

/// A flood of forged messages costs no more than ten thousand authenticators a second, and the
/// cloud stays known as long as an estimate holds.
#[test]
fn a_flood_of_forged_messages() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    let own = address(2).to_string();
    let mut payload = row.answers[0][28..].to_vec();
    payload[20] ^= 1;
    let mut forged = udp(&address(0).to_string(), &own, 60, 0x4000, &payload);
    forged[20..24].copy_from_slice(&[PORT.to_be_bytes(), PORT.to_be_bytes()].concat());
    for _ in 0..50_000 {
        row.receive(2, BACK, &forged);
    }
    let meter = row.routers[2].cloud_meter().unwrap();
    let looked_at = meter.measurer().edge().forged();
    assert!(looked_at <= 1_000, "{looked_at}");
    assert!(meter.counts().too_many >= 49_000);
    assert!(row.estimate().is_some());
    row.run(Duration::from_secs(4));
    assert!(row.estimate().is_some());
}

/// What a host sends in a row may come as one super-packet: each of its segments is a message.
#[test]
fn messages_in_a_super_packet() {
    let mut row = measured();
    let own = address(2).to_string();
    let mut bytes = udp(SENDER, &own, 60, 0x4000, &[4; 5 * 64]);
    bytes[22..24].copy_from_slice(&PORT.to_be_bytes());
    let gso = Gso {
        kind: GsoKind::Udp,
        size: 64,
        ecn: false,
    };
    let checksum = Some(Partial {
        start: 20,
        offset: 6,
    });
    let offload = Offload {
        checksum,
        gso: Some(gso),
    };
    let mut buffer = vec![0; 2048].into_boxed_slice();
    buffer[..bytes.len()].copy_from_slice(&bytes);
    row.routers[2].receive(row.now, BACK, &mut buffer, bytes.len(), offload);
    let meter = row.routers[2].cloud_meter().unwrap();
    assert_eq!(meter.counts().received, 5);
}
