//! The path inside this process: the router's own ports between loopback sockets, for machines that
//! forbid namespaces or TUN interfaces.
//!
//! Datagrams count with 28 bytes for the IP and UDP headers that the loopback interface adds
//! itself.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use pathmark_cc::{Answer, Arrival, Instant, LinkAlgorithm};
use pathmark_emulator::result::{LinkResult, QueueStats};
use pathmark_link::impair::{Loss, Probability, Random};
use pathmark_link::queue::{DropTail, Limit};
use pathmark_link::{
    DropCause, Link, LinkConfig, Owner, Port, Schedule, Shaper, Summary, WireConfig,
};
use pathmark_protocols::shim::{self, Identity};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::bed::Sample;
use super::meter::Meter;
use super::run::{SAMPLE, now};
use super::scenario::{Scenario, Stack};
use super::transfer::{self, Prepared, SenderFigures};

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;
const ROUTER: Identity = Identity::new(1);

/// A datagram on its way, and whose it is.
#[derive(Debug)]
struct Datagram {
    bytes: Vec<u8>,
    client: SocketAddr,
}

impl Datagram {
    /// Length of the IP packet that it would be in.
    fn ip_bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX - HEADERS) + HEADERS
    }
}

/// Marks shims; dropped datagrams are just dropped.
struct Marker;

impl Owner<Datagram> for Marker {
    fn mark(&mut self, packet: &mut Datagram, answer: &Answer) {
        let bytes = packet.ip_bytes();
        // A datagram without a shim is left alone. The loopback interface takes nothing off a TTL.
        let _ = shim::write(&mut packet.bytes, answer, bytes, &ROUTER, 0);
    }

    fn dropped(&mut self, _packet: Datagram, _cause: DropCause) {}
}

/// A bottleneck between loopback sockets.
#[derive(Debug)]
pub struct Path {
    server: Option<std::net::UdpSocket>,
    entrance: SocketAddr,
    state: Arc<Mutex<State>>,
    relay: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    samples: Vec<Sample>,
    links: Vec<LinkResult>,
}

impl Path {
    /// Starts it.
    ///
    /// # Errors
    /// If a socket cannot be had.
    pub async fn new(scenario: &Scenario, stack: &Stack) -> Result<Self> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = std::net::UdpSocket::bind(loopback)?;
        let entrance = UdpSocket::bind(loopback).await?;
        let state = Arc::default();
        let mut relay = Relay {
            epoch: now(),
            server: server.local_addr()?,
            forward: link(scenario, &stack.link_controller(), scenario.loss, 1)?,
            reverse: link(scenario, "none", 0.0, 4)?,
            exits: HashMap::new(),
            state: Arc::clone(&state),
            next_sample: Instant::ZERO,
        };
        let path = Self {
            server: Some(server),
            entrance: entrance.local_addr()?,
            state,
            relay: tokio::spawn(async move {
                if let Err(error) = relay.run(entrance).await {
                    tracing::error!(%error, "the in-process router ends");
                }
            }),
        };
        Ok(path)
    }

    /// Moves the files.
    ///
    /// # Errors
    /// If a transfer fails, or the stack is the kernel's.
    pub fn transfer(
        &self,
        prepared: Prepared,
        stack: &Stack,
        meters: &[Arc<Meter>],
    ) -> impl Future<Output = Result<Vec<SenderFigures>>> + use<> {
        let server = self.server.as_ref().map(std::net::UdpSocket::try_clone);
        let (entrance, meters, stack) = (self.entrance, meters.to_vec(), stack.clone());
        async move {
            let Stack::Pathmark(algorithm) = &stack else {
                bail!("the kernel's TCP does not run in-process");
            };
            let Some(server) = server.transpose()? else {
                bail!("the path is used up");
            };
            let clients = meters
                .iter()
                .map(|_| std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
                .collect::<std::io::Result<Vec<_>>>()?;
            transfer::transfer(prepared, server, clients, entrance, algorithm, &meters).await
        }
    }

    /// Ends it: the links and the bottleneck's time series.
    #[must_use]
    pub fn finish(self) -> (Vec<LinkResult>, Vec<Sample>) {
        self.relay.abort();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (
            std::mem::take(&mut state.links),
            std::mem::take(&mut state.samples),
        )
    }
}

fn link(scenario: &Scenario, controller: &str, loss: f64, bdps: u64) -> Result<Link<Datagram>> {
    let rate = scenario.rate_bps / 8;
    let queue = DropTail::new(Limit::Bytes(bdps * scenario.bdp_bytes()));
    let mut port = Port::new(Instant::ZERO, Box::new(queue), Shaper::new(Some(rate)));
    let law = LinkAlgorithm::parse(controller)?;
    if law.name() != "none" {
        let law = law.controller(Instant::ZERO, rate, u64::from(ROUTER.id));
        port = port.with_controller(Instant::ZERO, law);
    }
    let loss = match Probability::new(loss) {
        Some(per) if loss > 0.0 => Loss::Bernoulli {
            per,
            random: Random::new(1, "loss"),
        },
        _ => Loss::None,
    };
    Ok(Link::new(LinkConfig {
        port,
        wire: WireConfig {
            delay: Duration::from_millis(scenario.delay_ms),
            loss,
            ..WireConfig::default()
        },
        schedule: Schedule::default(),
    }))
}

/// The driver of the two links.
struct Relay {
    epoch: std::time::Instant,
    server: SocketAddr,
    /// Server to clients: the bottleneck.
    forward: Link<Datagram>,
    reverse: Link<Datagram>,
    /// One socket towards the server for each client, so that the server tells them apart.
    exits: HashMap<SocketAddr, Arc<UdpSocket>>,
    state: Arc<Mutex<State>>,
    next_sample: Instant,
}

impl Relay {
    fn now(&self) -> Instant {
        let nanos = self.epoch.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    async fn run(&mut self, entrance: UdpSocket) -> Result<()> {
        let entrance = Arc::new(entrance);
        let (arrivals, mut queue) = tokio::sync::mpsc::channel::<(bool, Datagram)>(1024);
        let mut readers = tokio::task::JoinSet::new();
        readers.spawn(read(Arc::clone(&entrance), None, arrivals.clone()));
        loop {
            let wake = [self.forward.deadline(), self.reverse.deadline()]
                .into_iter()
                .flatten()
                .chain([self.next_sample])
                .min()
                .unwrap_or(self.next_sample);
            let wait = wake.saturating_since(self.now());
            tokio::select! {
                arrived = queue.recv() => {
                    let Some((from_client, datagram)) = arrived else { return Ok(()) };
                    let bytes = datagram.ip_bytes();
                    let arrival = Arrival {
                        bytes,
                        flow_hash: u32::from(datagram.client.port()),
                        carried: shim::read(&datagram.bytes, bytes, &shim::NoHeader),
                    };
                    let now = self.now();
                    if from_client {
                        if !self.exits.contains_key(&datagram.client) {
                            let exit = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
                            exit.connect(self.server).await?;
                            readers.spawn(
                                read(Arc::clone(&exit), Some(datagram.client), arrivals.clone()),
                            );
                            self.exits.insert(datagram.client, exit);
                        }
                        self.reverse.arrive(now, arrival, datagram, &mut Marker);
                    } else {
                        self.forward.arrive(now, arrival, datagram, &mut Marker);
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
            let now = self.now();
            while let Some(datagram) = self.forward.poll(now, &mut Marker) {
                // The path goes on after a client has gone.
                let _ = entrance.send_to(&datagram.bytes, datagram.client).await;
            }
            while let Some(datagram) = self.reverse.poll(now, &mut Marker) {
                if let Some(exit) = self.exits.get(&datagram.client) {
                    let _ = exit.send(&datagram.bytes).await;
                }
            }
            if now >= self.next_sample {
                self.sample(now);
                self.next_sample = now + SAMPLE;
            }
        }
    }

    fn sample(&self, now: Instant) {
        let port = self.forward.port();
        let sample = Sample {
            unix_s: super::run::unix_s(),
            sent_bytes: port.stats().sent_bytes() as f64,
            queue_bytes: port.depth().bytes as f64,
        };
        let links = vec![
            link_result("bottleneck", &self.forward, now),
            link_result("bottleneck.reverse", &self.reverse, now),
        ];
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.samples.push(sample);
        state.links = links;
    }
}

/// Passes on what arrives at a socket, until the channel's receiver is closed.
async fn read(
    socket: Arc<UdpSocket>,
    client: Option<SocketAddr>,
    arrivals: tokio::sync::mpsc::Sender<(bool, Datagram)>,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let datagram = Datagram {
            bytes: buffer.get(..length).unwrap_or(&[]).to_vec(),
            client: client.unwrap_or(from),
        };
        if arrivals.send((client.is_none(), datagram)).await.is_err() {
            return;
        }
    }
}

fn link_result(name: &str, link: &Link<Datagram>, now: Instant) -> LinkResult {
    let stats = link.port().stats();
    let queue = |summary: Summary, scale: f64| QueueStats {
        mean: summary.mean_milli as f64 * 1e-3 * scale,
        mean_nonempty: summary.mean_nonempty_milli as f64 * 1e-3 * scale,
        p99: summary.p99 as f64 * scale,
        max: summary.max as f64 * scale,
    };
    let capacity = stats.capacity_bytes(now) as f64;
    LinkResult {
        name: name.to_owned(),
        rate_bps: link.port().rate().map(|rate| rate as f64 * 8.0),
        utilization: (capacity > 0.0).then(|| stats.sent_bytes() as f64 / capacity),
        time_to_80_s: None,
        queue_packets: queue(stats.queue_packets(now), 1.0),
        queue_ms: Some(queue(stats.queue_micros(now), 1e-3)),
        drops: stats.drops().by_queue(),
        random_losses: stats.drops().of(DropCause::RandomLoss),
        restart_losses: 0,
        times_set_aside: link.port().times_set_aside(),
        controller: Default::default(),
    }
}
