//! Routers and receivers that measure clouds, for `estimate=real`. Their messages and trains of
//! packets cross the emulated links like all other packets.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::{Duration, Instant, LinkAlgorithm, Upstream};
use pathmark_transport::Ecn;
use xcp_edge::{Edge, Estimator, Key, Limits, Measurer, Prober, Requester};

use super::clouds::{Behind, Found, Hosts, law, on_way};
use super::link::MeasuredLink;
use super::packet::{IP_UDP_HEADER, Label};
use super::{Engine, address, hash};
use crate::scenario::{FlowSetup, ReceiverEstimate, Scenario, route};

/// UDP port of routers' messages.
const PORT: u16 = 6653;
/// Time between two estimates that a port receives.
const EVERY: Duration = Duration::from_millis(50);
/// Trains may use this fraction of the rate of the port by which they leave, and run ahead by
/// the second fraction.
const RATE_PPM: u64 = 10_000;
const AHEAD_PPM: u64 = 100_000;
/// Largest message.
const BUFFER: usize = 9_216;

/// All routers that measure clouds or answer measurements.
#[derive(Debug, Default)]
pub(super) struct Edges {
    routers: Vec<Router>,
    channels: Vec<Channel>,
    pairs: Vec<Pair>,
    hosts: Hosts,
    /// Index of the first channel's way among all ways.
    first: usize,
    out: Vec<u8>,
}

#[derive(Debug)]
struct Router {
    node: usize,
    /// Rate of the port by which its trains leave, the fastest if there are several; 0: it sends
    /// none.
    rate: u64,
    measurer: Measurer,
}

/// A way from one router to another.
#[derive(Clone, Copy, Debug)]
struct Channel {
    from: usize,
    to: usize,
    flow_hash: u32,
}

/// A cloud to be measured.
#[derive(Debug)]
struct Pair {
    /// Its downstream router with its ports, or its receiver.
    node: usize,
    ports: Vec<usize>,
    receiver: bool,
    /// Its upstream router.
    from: SocketAddr,
    upstream: Upstream,
    next: Instant,
}

fn socket(node: usize) -> SocketAddr {
    SocketAddr::new(address(node).into(), PORT)
}

impl Edges {
    /// Creates the routers of a scenario, and adds their ways to those of the endpoints.
    pub(super) fn new(scenario: &Scenario, hosts: Hosts, ways: &mut Vec<Vec<u32>>) -> Self {
        let mut all = Self {
            first: ways.len(),
            hosts,
            ..Self::default()
        };
        for flow in &scenario.flows {
            for found in on_way(scenario, flow) {
                all.add(scenario, flow, &found, ways);
            }
        }
        if !all.pairs.is_empty() {
            all.out = vec![0; BUFFER];
        }
        all
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        flow: &FlowSetup,
        found: &Found,
        ways: &mut Vec<Vec<u32>>,
    ) {
        let (here, port) = match found.behind {
            Behind::Receiver(node) => (Some(node), None),
            Behind::Port(port) => (scenario.links.get(port).map(|link| link.from), Some(port)),
        };
        let measures = match port {
            Some(port) => law(scenario, port).is_some_and(LinkAlgorithm::measured_estimate),
            None => flow.receiver_estimate == Some(ReceiverEstimate::Real),
        };
        // A sender does not answer routers.
        let (Some(via), Some(here)) = (found.via.filter(|_| measures), here) else {
            return;
        };
        let there = found.upstream;
        let Some(upstream) = Upstream::of(address(there).into()) else {
            return;
        };
        let back = route(scenario.nodes.len(), &scenario.links, here, there);
        let known = |pair: &&mut Pair| (pair.node, pair.upstream) == (here, upstream);
        if let Some(pair) = self.pairs.iter_mut().find(known) {
            let new = port.filter(|port| !pair.ports.contains(port));
            pair.ports.extend(new);
            return;
        }
        let mut forth = vec![via];
        forth.extend(&found.links);
        let rate = scenario.links.get(via).and_then(|link| link.spec.rate);
        let rate = rate.map_or(u64::MAX / AHEAD_PPM, |rate| rate.bytes());
        self.router(scenario, there, rate);
        self.router(scenario, here, 0);
        self.channel(scenario, there, here, &forth, ways);
        self.channel(scenario, here, there, &back.unwrap_or_default(), ways);
        self.pairs.push(Pair {
            node: here,
            ports: port.into_iter().collect(),
            receiver: port.is_none(),
            from: socket(there),
            upstream,
            next: Instant::ZERO + EVERY,
        });
    }

    /// Adds a router whose trains may use a fraction of `rate`. Between two clouds, it both
    /// measures and answers measurements.
    fn router(&mut self, scenario: &Scenario, node: usize, rate: u64) {
        let known = self.routers.iter().position(|router| router.node == node);
        let slower = |at: &usize| self.routers.get(*at).is_some_and(|known| known.rate < rate);
        if known.is_some() && known.filter(slower).is_none() {
            return;
        }
        let seed = |what: &str| hash(scenario.seed, &format!("edge/{node}/{what}"));
        let secret = |number: u64| Key::new(&[number.to_be_bytes(); 4].concat());
        let (Ok(shared), Ok(start)) = (secret(scenario.seed), secret(seed("start"))) else {
            return;
        };
        let packet = payload(scenario);
        let limits = Limits {
            rate: rate.saturating_mul(RATE_PPM) / 1_000_000,
            burst: rate.saturating_mul(AHEAD_PPM) / 1_000_000,
            packet,
        };
        let (now, own) = (Instant::ZERO, IpAddr::V4(address(node)));
        let first = Estimator::first_train(packet);
        let prober = Prober::new(now, own, shared.clone(), start, limits);
        let requester = Requester::new(now, own, shared.clone(), seed("run"), first);
        let edge = Edge::new(own, shared, prober, requester);
        let measurer = Measurer::new(edge, packet);
        let router = Router {
            node,
            rate,
            measurer,
        };
        // Nothing has been sent yet.
        match known.and_then(|at| self.routers.get_mut(at)) {
            Some(known) => *known = router,
            None => self.routers.push(router),
        }
    }

    fn channel(
        &mut self,
        scenario: &Scenario,
        from: usize,
        to: usize,
        way: &[usize],
        ways: &mut Vec<Vec<u32>>,
    ) {
        let same = |channel: &Channel| (channel.from, channel.to) == (from, to);
        if self.channels.iter().any(same) {
            return;
        }
        let name = format!("edge/{from}/{to}");
        self.channels.push(Channel {
            from,
            to,
            flow_hash: u32::try_from(hash(scenario.seed, &name) >> 32).unwrap_or(0),
        });
        let way = way.iter().filter_map(|link| u32::try_from(*link).ok());
        ways.push(way.collect());
    }

    /// The time of the next action.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let routers = self.routers.iter();
        let routers = routers.filter_map(|router| router.measurer.deadline());
        let pairs = self.pairs.iter().map(|pair| pair.next);
        routers.chain(pairs).min()
    }

    /// Delivers a message that has reached the end of its way.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        to: u32,
        datagram: &[u8],
        links: &[MeasuredLink],
    ) {
        let place = (to as usize).checked_sub(self.first);
        let Some(&channel) = place.and_then(|place| self.channels.get(place)) else {
            return;
        };
        let at = |router: &&mut Router| router.node == channel.to;
        let Some(router) = self.routers.iter_mut().find(at) else {
            return;
        };
        let from = socket(channel.from);
        let about = |pair: &&Pair| (pair.node, pair.from) == (channel.to, from);
        let pair = self.pairs.iter().find(about);
        let hosts = &self.hosts;
        let own = || pair.map_or(0, |pair| pair.own(links, hosts));
        router.measurer.on_datagram(now, from, datagram, own);
    }
}

impl Pair {
    /// Bytes of the measuring end's own traffic that crossed the cloud.
    fn own(&self, links: &[MeasuredLink], hosts: &Hosts) -> u64 {
        if self.receiver {
            let mut came = 0;
            if let Some(host) = hosts.at(self.node) {
                host.visit(&mut |upstream, bytes| {
                    if upstream == self.upstream {
                        came = bytes;
                    }
                });
            }
            return came;
        }
        let ports = self.ports.iter().filter_map(|port| links.get(*port));
        ports.filter_map(|link| link.came_from(self.upstream)).sum()
    }
}

/// UDP payload of the scenario's largest packet.
fn payload(scenario: &Scenario) -> u16 {
    let header = u16::try_from(IP_UDP_HEADER).unwrap_or(u16::MAX);
    scenario.packet.saturating_sub(header)
}

impl Engine {
    /// Performs the actions that are due at measuring routers.
    pub(super) fn run_edges(&mut self) {
        let mut edges = std::mem::take(&mut self.edges);
        let now = self.now;
        for pair in edges.pairs.iter_mut().filter(|pair| pair.next <= now) {
            pair.next = now + EVERY;
            let own = pair.own(&self.links, &edges.hosts);
            let at = |router: &&mut Router| router.node == pair.node;
            let router = edges.routers.iter_mut().find(at);
            if let Some(router) = router
                && let Some(estimate) = router.measurer.estimate(now, pair.from, own)
            {
                if pair.receiver
                    && let Some(host) = edges.hosts.at(pair.node)
                {
                    host.tell(now, pair.upstream, &estimate);
                }
                for &port in &pair.ports {
                    if let Some(port) = self.links.get_mut(port) {
                        port.catch_up(now, &mut self.pool);
                        port.tell(now, pair.upstream, &estimate);
                    }
                }
            }
        }
        let (first, mut out) = (edges.first, std::mem::take(&mut edges.out));
        for Router { node, measurer, .. } in &mut edges.routers {
            while let Some(transmit) = measurer.poll_transmit(now, &mut out) {
                let to = transmit.to;
                let mut channels = edges.channels.iter();
                let along = |channel: &Channel| channel.from == *node && socket(channel.to) == to;
                if let Some(place) = channels.position(along)
                    && let Some(channel) = edges.channels.get(place)
                    && let Some(datagram) = out.get(..transmit.len)
                {
                    self.send_message(first + place, channel, datagram);
                }
            }
        }
        edges.out = out;
        self.edges = edges;
    }

    fn send_message(&mut self, way: usize, channel: &Channel, datagram: &[u8]) {
        let label = Label {
            to: u32::try_from(way).unwrap_or(u32::MAX),
            hop: 1,
            ecn: Ecn::NotEct,
            ecn_is_code: false,
            flow_hash: channel.flow_hash,
            source: address(channel.from),
        };
        let Some(&first) = self.ways.get(way).and_then(|way| way.first()) else {
            return;
        };
        let packet = self.pool.insert(label, datagram);
        if let Some(link) = self.links.get_mut(first as usize) {
            link.arrive(self.now, packet, &mut self.pool);
            self.note_link(first);
        }
    }
}
