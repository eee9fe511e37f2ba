//! Estimates of clouds for ports with `estimate=exact`, which are possible because the emulator
//! knows all links.
//!
//! A cloud consists of the links without a control law between two ports with one, in the order in
//! which flows pass them. Before the first port, it starts at the sender, and after the last port,
//! it ends at the receiver. Its unused capacity is the minimum over its links, as in the
//! simulations of the XCP-i paper (section IV).
//!
//! For the hops after the last XCP router, receivers have virtual routers.

use std::collections::BTreeMap;

use pathmark_cc::{CloudEstimate, Duration, ExactEstimate, Instant, LinkAlgorithm, Upstream};
use pathmark_link::impair::Random;
use pathmark_protocols::signals::HostClouds;

use super::link::MeasuredLink;
use super::{Engine, address};
use crate::scenario::{FlowSetup, LinkSetup, ReceiverEstimate, Scenario};

/// Time between two estimates.
const REFRESH: Duration = Duration::from_millis(50);

/// Time for which the relative error remains the same.
const HOLD: Duration = Duration::from_secs(1);

/// Lifetime of an estimate, in intervals between two estimates.
const VALID: u32 = 3;

/// All clouds of a scenario.
#[derive(Debug, Default)]
pub(super) struct Clouds {
    clouds: Vec<Known>,
    hosts: Hosts,
}

/// A cloud upstream of one port or receiver.
#[derive(Debug)]
struct Known {
    behind: Behind,
    upstream: Upstream,
    links: Vec<Seen>,
    exact: ExactEstimate,
    last: Instant,
    next: Instant,
    /// The estimate's error, in 10^-6 of the narrowest link's rate, and its end.
    error_ppm: i64,
    held_until: Instant,
    random: Random,
}

/// A link of a cloud.
#[derive(Clone, Copy, Debug)]
struct Seen {
    link: usize,
    /// Bytes that had arrived at the last estimate, and bytes that were queued.
    arrived: u64,
    waiting: u64,
}

impl Clouds {
    /// Finds the clouds that flows cross, for ports and receivers with exact estimates.
    pub(super) fn new(scenario: &Scenario, hosts: Hosts) -> Self {
        let mut all = Self {
            hosts,
            ..Self::default()
        };
        for flow in &scenario.flows {
            for found in on_way(scenario, flow) {
                let exact = match found.behind {
                    Behind::Port(port) => {
                        let law = law(scenario, port);
                        law.and_then(LinkAlgorithm::exact_estimate)
                    }
                    Behind::Receiver(_) => (flow.receiver_estimate
                        == Some(ReceiverEstimate::Exact))
                    .then(ExactEstimate::default),
                };
                if let Some(exact) = exact
                    && let Some(upstream) = Upstream::of(address(found.upstream).into())
                {
                    all.add(scenario, found.behind, upstream, &found.links, exact);
                }
            }
        }
        all
    }

    /// Adds a cloud, or further links of one, because flows may take several ways between two
    /// routers.
    fn add(
        &mut self,
        scenario: &Scenario,
        behind: Behind,
        upstream: Upstream,
        links: &[usize],
        exact: ExactEstimate,
    ) {
        let known = self
            .clouds
            .iter()
            .position(|known| (known.behind, known.upstream) == (behind, upstream));
        let index = known.unwrap_or_else(|| {
            let name = match behind {
                Behind::Port(port) => format!("cloud/{port}/{upstream:?}"),
                Behind::Receiver(node) => format!("cloud/receiver/{node}/{upstream:?}"),
            };
            self.clouds.push(Known {
                behind,
                upstream,
                links: Vec::new(),
                exact,
                last: Instant::ZERO,
                next: Instant::ZERO + REFRESH,
                error_ppm: 0,
                held_until: Instant::ZERO,
                random: Random::new(scenario.seed, &name),
            });
            self.clouds.len() - 1
        });
        let Some(known) = self.clouds.get_mut(index) else {
            return;
        };
        for &link in links {
            if !known.links.iter().any(|seen| seen.link == link) {
                known.links.push(Seen {
                    link,
                    arrived: 0,
                    waiting: 0,
                });
            }
        }
    }

    /// When the next estimate is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clouds.iter().map(|known| known.next).min()
    }
}

/// The downstream end of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// A port with a control law.
    Port(usize),
    /// The receiver at this node.
    Receiver(usize),
}

/// A cloud on a flow's way.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its downstream end.
    pub(super) behind: Behind,
    /// The upstream node, and the port by which packets leave it; `None`: it is the sender.
    pub(super) upstream: usize,
    pub(super) via: Option<usize>,
    /// Its links.
    pub(super) links: Vec<usize>,
}

/// Returns the clouds on a flow's way to its receiver, and those before ports on the way back.
pub(super) fn on_way(scenario: &Scenario, flow: &FlowSetup) -> Vec<Found> {
    let [there, back] = &flow.path;
    let mut all = find(scenario, there, flow.from, Some(flow.to));
    all.extend(find(scenario, back, flow.to, None));
    all
}

/// The law of a port.
pub(super) fn law(scenario: &Scenario, port: usize) -> Option<&LinkAlgorithm> {
    scenario.links.get(port)?.spec.controller.as_ref()
}

/// The clouds on a path from `from` to the `receiver`, if this is given.
fn find(scenario: &Scenario, path: &[usize], from: usize, receiver: Option<usize>) -> Vec<Found> {
    let mut all = Vec::new();
    let (mut upstream, mut via) = (from, None);
    let mut links: Vec<usize> = Vec::new();
    for &index in path {
        let Some(setup) = scenario.links.get(index) else {
            continue;
        };
        if !answers(setup) {
            links.push(index);
            continue;
        }
        // A sender's own link is not a cloud by itself, because its packets come directly from
        // the sender.
        let own = |link: &usize| path.first() == Some(link);
        if !links.iter().all(own) {
            all.push(Found {
                behind: Behind::Port(index),
                upstream,
                via,
                links: links.clone(),
            });
        }
        (upstream, via) = (setup.from, Some(index));
        links.clear();
    }
    if let Some(node) = receiver
        && via.is_some()
        && !links.is_empty()
    {
        all.push(Found {
            behind: Behind::Receiver(node),
            upstream,
            via,
            links,
        });
    }
    all
}

/// Whether a port answers XCP headers.
fn answers(setup: &LinkSetup) -> bool {
    setup
        .spec
        .controller
        .as_ref()
        .is_some_and(LinkAlgorithm::has_feedback)
}

impl Known {
    /// Estimates the cloud's unused capacity from the bytes that arrived since the last time.
    fn estimate(&mut self, now: Instant, links: &[MeasuredLink]) -> Option<CloudEstimate> {
        let elapsed = (now - self.last).as_nanos().max(1);
        self.last = now;
        self.next = now + REFRESH;
        let mut least: Option<(i64, i64, u64)> = None;
        for seen in &mut self.links {
            let Some(link) = links.get(seen.link) else {
                continue;
            };
            let (port, stats) = (link.link().port(), link.stats());
            let waits = port.depth().bytes;
            let arrived = stats.arrived_bytes() - seen.arrived;
            let queue = waits.min(seen.waiting);
            (seen.arrived, seen.waiting) = (stats.arrived_bytes(), waits);
            let Some(rate) = port.rate().and_then(|rate| i64::try_from(rate).ok()) else {
                continue;
            };
            let input = u128::from(arrived) * 1_000_000_000 / elapsed;
            let left = rate.saturating_sub(i64::try_from(input).unwrap_or(i64::MAX));
            if least.is_none_or(|(before, ..)| left < before) {
                least = Some((left, rate, queue));
            }
        }
        let (left, rate, queue) = least?;
        Some(CloudEstimate {
            available: left.saturating_add(self.error(now, rate)),
            capacity: rate.unsigned_abs(),
            queue,
            valid_for: REFRESH * VALID,
        })
    }

    /// The error of the estimate, in bytes per second.
    fn error(&mut self, now: Instant, rate: i64) -> i64 {
        if now >= self.held_until {
            let most = i64::try_from(self.exact.error_ppm).unwrap_or(0);
            // Uniform over −most … most.
            let drawn = i64::from(self.random.next_u32());
            self.error_ppm = ((drawn * (2 * most + 1)) >> 32) - most;
            self.held_until = now + HOLD;
        }
        let error = i128::from(rate) * i128::from(self.error_ppm) / 1_000_000;
        i64::try_from(error).unwrap_or(0)
    }
}

impl Engine {
    /// Passes estimates that are due to the ports.
    pub(super) fn run_clouds(&mut self) {
        let mut clouds = std::mem::take(&mut self.clouds);
        let now = self.now;
        for known in clouds.clouds.iter_mut().filter(|known| known.next <= now) {
            for seen in &known.links {
                if let Some(link) = self.links.get_mut(seen.link) {
                    link.catch_up(now, &mut self.pool);
                }
            }
            let Some(estimate) = known.estimate(now, &self.links) else {
                continue;
            };
            match known.behind {
                Behind::Port(port) => {
                    if let Some(port) = self.links.get_mut(port) {
                        port.catch_up(now, &mut self.pool);
                        port.tell(now, known.upstream, &estimate);
                    }
                }
                Behind::Receiver(node) => {
                    if let Some(host) = clouds.hosts.at(node) {
                        host.tell(now, known.upstream, &estimate);
                    }
                }
            }
        }
        self.clouds = clouds;
        self.run_edges();
        self.note_clouds();
    }

    /// Updates the deadline of the next estimate.
    pub(super) fn note_clouds(&mut self) {
        let before = 1 + self.links.len() + self.media.len() + self.endpoints.len();
        let component = u32::try_from(before).unwrap_or(u32::MAX);
        let at = [self.clouds.deadline(), self.edges.deadline()];
        self.agenda.set(component, at.into_iter().flatten().min());
    }
}

/// The virtual routers of receivers, by node. All flows to a node share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(BTreeMap<usize, HostClouds>);

impl Hosts {
    /// Creates them for the scenario's flows with a `receiver_estimate`.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let flows = scenario.flows.iter();
        let wanted = flows.filter(|flow| flow.receiver_estimate.is_some());
        Self(wanted.map(|flow| (flow.to, HostClouds::new())).collect())
    }

    /// Those of a flow's receiver, if the flow has a `receiver_estimate`.
    pub(super) fn of(&self, flow: &FlowSetup) -> Option<&HostClouds> {
        flow.receiver_estimate.and_then(|_| self.at(flow.to))
    }

    /// Those at a node.
    pub(super) fn at(&self, node: usize) -> Option<&HostClouds> {
        self.0.get(&node)
    }
}
