//! Turns a scenario into an engine at time 0.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_cc::{Algorithm, Carrier, Duration, Instant};
use pathmark_link::impair::Random;
use pathmark_link::keys::{LinkContext, build_link};
use pathmark_protocols::shim::Identity;
use pathmark_protocols::signals;
use pathmark_transport::TransportConfig;

use super::agenda::Agenda;
use super::application::{Sink, Source};
use super::carry::Frame;
use super::clouds::{Clouds, Hosts};
use super::edges::Edges;
use super::endpoint::{Application, Endpoint, Setup};
use super::link::{MeasuredLink, Ramp};
use super::medium::Medium;
use super::packet::{IP_UDP_HEADER, Label, Pool};
use super::pattern::Ticks;
use super::report::Sampler;
use super::stalls::{Pauses, Stalls};
use super::tcp::{TcpReceiver, TcpSender, TcpSetup};
use super::udp::{Emitter, Forger};
use super::windows::{Shares, Windows};
use super::{Engine, Flow, Own, OwnLaw, RunError, address, hash, tcp};
use crate::observe::Observer;
use crate::scenario::{Connects, FlowSetup, Scenario, Sender, TcpLaw};

/// Maximum size of a batch of datagrams from an endpoint.
const BUFFER: usize = 1 << 17;
/// First port of clients, and port of servers.
const CLIENT_PORT: u16 = 10_000;
const SERVER_PORT: u16 = 4433;

const HEADER: u16 = IP_UDP_HEADER as u16;

impl Engine {
    /// Creates the initial state of a run for this observer.
    pub(super) fn new(
        scenario: &Scenario,
        observer: &dyn Observer,
        own: &Own,
    ) -> Result<Self, RunError> {
        let capture = observer.wants_packets();
        let mut links = Vec::with_capacity(scenario.links.len());
        for setup in &scenario.links {
            let context = LinkContext {
                now: Instant::ZERO,
                seed: scenario.seed,
                name: &setup.name,
                rtt: setup.rtt,
            };
            let mut link = build_link(&setup.spec, &context).map_err(|source| RunError::Queue {
                link: setup.name.clone(),
                source,
            })?;
            if let Some(factory) = own.ports.get(&setup.name) {
                let rate = setup.spec.rate.map_or(0, |rate| rate.bytes());
                let controller = factory.build(Instant::ZERO, rate);
                link.port_mut()
                    .set_controller(Instant::ZERO, Some(controller));
                let factory = Arc::clone(factory);
                link = link.on_restart(move |now, port| {
                    port.set_controller(now, Some(factory.build(now, rate)));
                });
            }
            // 0 means "no router".
            let mut router = Identity::new(u16::try_from(setup.from + 1).unwrap_or(u16::MAX));
            router.v4 = address(setup.from);
            let rtt = setup.rtt.unwrap_or(Duration::from_millis(100));
            let medium = setup.medium.and_then(|medium| u32::try_from(medium).ok());
            let link = MeasuredLink::new(link, router, medium, Ramp::new(rtt));
            let link = link.with_pauses(Pauses::of(scenario, setup.from));
            links.push(link.with_capture(capture && setup.capture));
        }
        let media = media(scenario);
        let hosts = Hosts::new(scenario);
        let mut engine = Self {
            now: Instant::ZERO,
            end: Instant::ZERO + scenario.duration,
            agenda: Agenda::new(2 + links.len() + media.len() + 2 * scenario.flows.len()),
            links,
            media,
            stalls: Stalls::new(scenario),
            clouds: Clouds::new(scenario, hosts.clone()),
            edges: Edges::default(),
            endpoints: Vec::with_capacity(2 * scenario.flows.len()),
            ways: Vec::with_capacity(2 * scenario.flows.len()),
            labels: Vec::with_capacity(2 * scenario.flows.len()),
            flows: Vec::with_capacity(scenario.flows.len()),
            unfinished: 0,
            pool: Pool::default(),
            windows: Windows::new(&scenario.measure),
            shares: Shares::new(scenario),
            sampler: Sampler::new(observer.wants_samples().then_some(scenario.sample)),
            outgoing: vec![0; BUFFER].into_boxed_slice(),
            incoming: vec![0; BUFFER].into_boxed_slice(),
            captured: Frame::new(usize::from(scenario.packet)),
            touched: Vec::new(),
            events: 0,
            scenario: scenario.clone(),
        };
        for (index, flow) in scenario.flows.iter().enumerate() {
            engine.add_flow(index, flow, own.law(&flow.name), &hosts, observer);
        }
        engine.edges = Edges::new(scenario, hosts, &mut engine.ways);
        engine.agenda_all();
        Ok(engine)
    }

    fn add_flow(
        &mut self,
        index: usize,
        flow: &FlowSetup,
        own: Option<&OwnLaw>,
        hosts: &Hosts,
        observer: &dyn Observer,
    ) {
        let seed = |role: &str| hash(self.scenario.seed, &format!("{}/{role}", flow.name));
        let port = CLIENT_PORT + u16::try_from(index % 50_000).unwrap_or(0);
        let sender = SocketAddr::new(address(flow.from).into(), port);
        let receiver = SocketAddr::new(address(flow.to).into(), SERVER_PORT);
        // Without a law there is no connection, so its configuration stays unused.
        let law = match &flow.sender {
            Sender::Law(law) => law.clone(),
            Sender::Tcp(_) | Sender::Udp => Algorithm::default(),
        };
        let mut config = transport(&law, flow.packet);
        config.trace = observer.trace(&flow.name);
        if let Some(signals) = own.and_then(|own| own.signals.as_ref()) {
            config.signals.clone_from(signals);
        }
        let mut receiving = config.clone();
        if let Some(host) = hosts.of(flow) {
            receiving.signals = signals::read_by(&law, Some(host));
        }
        if let Some(own) = own {
            config.controller = Arc::clone(&own.factory);
        }
        if let Some(window) = flow.receive_window {
            receiving.streams.initial_connection_window = window;
            receiving.streams.initial_stream_window = window;
            receiving.streams.max_window = window;
        }
        // The receiver sends no data and requests no rate.
        config.known_rate = flow.known_rate;
        let known = flow.known_rate.is_some();
        receiving.max_ack_ranges = flow.max_ack_ranges.and_then(|most| most.try_into().ok());
        let start = Instant::ZERO + flow.start;
        let stop = flow.stop.map(|stop| Instant::ZERO + stop);
        let generator = || Random::new(self.scenario.seed, &format!("{}/source", flow.name));
        let payload = flow.packet.saturating_sub(HEADER);
        let udp = flow.sender.is_udp();
        // For udp, sizes are those of IP packets; for connections, those of application data.
        let unit = if udp { flow.packet } else { payload };
        let ticks = flow
            .source
            .map(|pattern| Ticks::new(pattern, unit, start, generator()));
        let forger = flow.forge.zip(flow.source);
        let forger =
            forger.map(|(forge, source)| Forger::new(&forge, flow.packet, source.rate, start));
        let (sending, receiving_end) = match (&flow.sender, ticks) {
            (Sender::Udp, Some(ticks)) => (
                Application::Emitter(Emitter::new(ticks, payload, stop).with_shims(forger)),
                Application::Counter(0),
            ),
            (Sender::Tcp(law), _) => tcp(*law, flow, payload),
            (_, ticks) => (
                Application::Sender(Source::new(
                    flow.app,
                    flow.connects,
                    flow.bytes,
                    stop,
                    ticks,
                )),
                Application::Receiver(Sink::new(flow.app, flow.connects, flow.milestones.clone())),
            ),
        };
        let [there, back] = &flow.path;
        let first = u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX);
        let end = |config, [local, remote]: [SocketAddr; 2], role, connects| Setup {
            config: Arc::new(config),
            local,
            remote,
            seed: seed(role),
            connects: flow.connects == connects,
            known,
        };
        let sender_end = end(config, [sender, receiver], "sender", Connects::Sender);
        let both = [receiver, sender];
        let receiver_end = end(receiving, both, "receiver", Connects::Receiver);
        let ends = [
            // Packets to the sender take the way back.
            (sender_end, sending, flow.from, back, first + 1),
            (receiver_end, receiving_end, flow.to, there, first),
        ];
        let carrier = match &flow.sender {
            Sender::Law(law) => law.carrier(),
            Sender::Tcp(_) | Sender::Udp => None,
        };
        let ecn_is_code = carrier == Some(Carrier::Ecn);
        for (setup, application, node, way, peer) in ends {
            let name = format!("{}/{peer}", flow.name);
            self.labels.push(Label {
                to: peer,
                hop: 0,
                ecn: pathmark_transport::Ecn::NotEct,
                ecn_is_code,
                flow_hash: u32::try_from(hash(self.scenario.seed, &name) >> 32).unwrap_or(0),
                source: address(node),
            });
            let way = way.iter().filter_map(|link| u32::try_from(*link).ok());
            self.ways.push(way.collect());
            self.endpoints
                .push(Endpoint::new(setup, application, start));
        }
        let finite = flow.bytes.is_some();
        self.unfinished += u32::from(finite);
        self.flows.push(Flow {
            algorithm: own.map_or_else(|| flow.algorithm_name(), |own| own.name.clone()),
            finite,
            finished: false,
        });
    }
}

/// Creates both ends of a TCP whose datagrams have `payload` bytes.
fn tcp(law: TcpLaw, flow: &FlowSetup, payload: u16) -> (Application, Application) {
    let shim = tcp::shim_len(law.shim);
    let segment = tcp::room(payload, shim);
    let sender = TcpSender::new(TcpSetup {
        shim: law.shim,
        datagram: payload,
        segment,
        start: Instant::ZERO + flow.start,
        stop: flow.stop.map(|stop| Instant::ZERO + stop),
        bytes: flow.bytes,
        receive_window: flow.receive_window,
    });
    let receiver = TcpReceiver::new(shim, segment, flow.bytes);
    (
        Application::TcpSender(Box::new(sender)),
        Application::TcpReceiver(receiver),
    )
}

/// Creates the media with their links.
fn media(scenario: &Scenario) -> Vec<Medium> {
    let medium = |(index, name): (usize, &String)| {
        let links = scenario.links.iter().zip(0u32..);
        let on_it = links.filter(|(link, _)| link.medium == Some(index));
        let random = Random::new(scenario.seed, &format!("{name}/medium"));
        Medium::new(on_it.map(|(_, number)| number).collect(), random)
    };
    scenario.media.iter().enumerate().map(medium).collect()
}

/// The configuration of both ends of a flow.
fn transport(algorithm: &Algorithm, packet: u16) -> TransportConfig {
    let law = algorithm.clone();
    let mut config = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    config.signals = signals::read_by(algorithm, None);
    if algorithm.is_granted() {
        config.streams = config.streams.with_room_for_grants();
    }
    // No scenario sends datagrams, so the handshake should have the bytes of a connection with
    // streams only.
    config.datagrams.receive_bytes = 0;
    // The largest packet is known, so path MTU discovery is unnecessary.
    let payload = packet.saturating_sub(HEADER);
    config.initial_mtu = payload;
    config.max_mtu = Some(payload);
    // A connection must survive outages until the scenario ends it.
    config.max_idle_timeout = None;
    config.handshake_timeout = Duration::from_secs(3600);
    config
}
