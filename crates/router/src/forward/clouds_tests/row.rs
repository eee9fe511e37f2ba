//! A row of three routers, and the senders whose packets pass them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::{CloudEstimate, CloudMetrics, LinkAlgorithm, XcpRequest};
use xcp_edge::{Edge, Estimator, Key, Limits, Measurer, Own, Prober, Requester};
use xcp_proto::Repr;
use xcp_proto::header::{Body, LastRouter};

use super::super::super::tests::{self, udp};
use super::super::super::{Classifier, Identity, RouterPort};
use super::*;
use crate::ip::{Routes, TokenBucket};

pub(super) const SENDER: &str = "10.0.0.1";
pub(super) const RECEIVER: &str = "10.1.0.2";
pub(super) const SENDER_V6: &str = "fd00::1";
pub(super) const RECEIVER_V6: &str = "fd00:1::2";
pub(super) const BACK: usize = 0;
pub(super) const OUT: usize = 1;
/// UDP port of messages.
pub(super) const PORT: u16 = 6653;

pub(super) fn address(router: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, router, 1)
}

pub(super) fn address_v6(router: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xFD00, 9, router.into(), 0, 0, 0, 0, 1)
}

fn own(router: u8) -> Own {
    Own {
        v4: address(router),
        v6: address_v6(router),
    }
}

fn port(router: u8, megabits: u64, law: &str) -> RouterPort {
    let rate = megabits * 125_000;
    let mut port = tests::port("", 1500, Some(rate), false);
    let law: LinkAlgorithm = law.parse().unwrap();
    if law.name() != "none" {
        let controller = Some(law.controller(Instant::ZERO, rate, 1));
        port.link
            .port_mut()
            .set_controller(Instant::ZERO, controller);
    }
    port.settings.addresses = vec![address(router).into(), address_v6(router).into()];
    port.settings.measures = law.measured_estimate();
    port
}

pub(super) fn meter(router: u8, secret: &[u8]) -> CloudMeter {
    let own = own(router);
    let key = || Key::new(secret).unwrap();
    let limits = Limits {
        rate: 100_000,
        burst: 1_000_000,
        packet: 1452,
    };
    let start = Key::new(&[router; 32]).unwrap();
    let prober = Prober::new(Instant::ZERO, own, key(), start, limits);
    let first = Estimator::first_train(1452);
    let requester = Requester::new(Instant::ZERO, own, key(), router.into(), first);
    let edge = Edge::new(own, key(), prober, requester);
    CloudMeter::new(own, PORT, Measurer::new(edge, 1452))
}

/// Routers 0, 1 and 2, in order from the sender to the receiver. Their links have 80, 30 and 80
/// Mbit/s.
pub(super) struct Row {
    pub(super) now: Instant,
    pub(super) routers: Vec<Router>,
    pub(super) arrived: Vec<Vec<u8>>,
    /// Messages on their way to the first router, and their answers on the way back.
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) answers: Vec<Vec<u8>>,
    /// Header forms of the sender's packets; each form has one packet per millisecond.
    pub(super) forms: Vec<Form>,
    /// Counts made-up routers. With `floods`, ten further packets per sender's packet name a new
    /// router each.
    pub(super) made_up: u32,
    pub(super) floods: bool,
    /// The TTL that a tunnel in the middle sets in all packets.
    pub(super) tunnel: Option<u8>,
}

impl Row {
    pub(super) fn new(laws: [&str; 3]) -> Self {
        let routers = laws
            .iter()
            .zip([80, 30, 80])
            .zip(0u8..)
            .map(|((law, rate), id)| {
                let mut name = Identity::new(u16::from(id) + 1);
                (name.v4, name.v6) = (address(id), address_v6(id));
                let mut router = tests::router(1500, None, false);
                let classifier = Classifier {
                    shims: true,
                    ..Classifier::default()
                };
                router.configure(name, classifier, TokenBucket::new(100, 5));
                let mut routes = Routes::new();
                let mut ends = vec![
                    (SENDER.parse().unwrap(), BACK),
                    (RECEIVER.parse().unwrap(), OUT),
                    (SENDER_V6.parse().unwrap(), BACK),
                    (RECEIVER_V6.parse().unwrap(), OUT),
                ];
                let others = (0..3).filter(|other| *other != id);
                ends.extend(others.flat_map(|other| {
                    let side = if other < id { BACK } else { OUT };
                    [IpAddr::from(address(other)), address_v6(other).into()].map(|ip| (ip, side))
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
            forms: vec![Form::V4],
            made_up: 0,
            floods: false,
            tunnel: None,
        }
    }

    pub(super) fn receive(&mut self, router: usize, from: usize, bytes: &[u8]) {
        let mut buffer = vec![0; 2048].into_boxed_slice();
        buffer[..bytes.len()].copy_from_slice(bytes);
        let router = &mut self.routers[router];
        router.receive(self.now, from, &mut buffer, bytes.len(), Offload::default());
    }

    /// Handles everything that is due, at each router.
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
                let message = match bytes[0] >> 4 {
                    4 => bytes[9] == 17 && bytes[22..24] == PORT.to_be_bytes(),
                    _ => bytes[6] == 17 && bytes[42..44] == PORT.to_be_bytes(),
                };
                match (port, router) {
                    (BACK, 1) if message => self.requests.push(bytes.clone()),
                    (OUT, 1) if message => self.answers.push(bytes.clone()),
                    _ => {}
                }
                if let (OUT, 1, Some(ttl)) = (port, router, self.tunnel) {
                    bytes[8] = ttl;
                    renew(&mut bytes);
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

    /// Sends XCP packets at 10 Mbit/s for each header form until this time.
    pub(super) fn run(&mut self, until: Duration) {
        let request = XcpRequest {
            rtt_us: 40_000,
            x: (1 << 40) * 1200 / 1_000_000,
            delta: 0,
            covers: 1,
            window: 50_000,
            packet: 1200,
        };
        let data = self.forms.iter().map(|form| {
            let mut payload = vec![0x55; 1222];
            let header = Repr::initial(*form, Some(&request), 64);
            header.emit(&mut payload).unwrap();
            let (from, to) = match form {
                Form::V6 => (SENDER_V6, RECEIVER_V6),
                _ => (SENDER, RECEIVER),
            };
            udp(from, to, 64, 0x4000, &payload)
        });
        let data: Vec<Vec<u8>> = data.collect();
        let mut tick = 0u64;
        while self.now < Instant::ZERO + until {
            self.now += Duration::from_micros(20);
            tick += 1;
            // Each sender has a packet per millisecond, and the senders take turns. Packets sent
            // at the same moment would look like bursts of one faster sender, so that the
            // estimator would see less unused capacity.
            for (packet, turn) in data.iter().zip((0..).step_by(25)) {
                if (tick + turn).is_multiple_of(50) {
                    self.receive(0, BACK, packet);
                }
            }
            if self.floods && tick.is_multiple_of(5) {
                let flood = self.made_up(&request);
                self.receive(2, BACK, &flood);
            }
            self.turn();
        }
    }

    /// Returns a packet that claims to have crossed a cloud from a router that no earlier packet
    /// named.
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

    pub(super) fn clouds(&self) -> CloudMetrics {
        let port = self.routers[2].ports()[OUT].link.port();
        port.metrics().unwrap().clouds.unwrap()
    }

    pub(super) fn estimate(&self) -> Option<CloudEstimate> {
        let meter = self.routers[2].cloud_meter()?;
        let mut known = meter.estimates(self.now);
        known.next().map(|known| known.estimate)
    }
}
