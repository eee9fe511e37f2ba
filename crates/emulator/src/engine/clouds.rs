//! What ports with `estimate=exact` are told of clouds: the emulator knows all links.
//!
//! A cloud is the links without a control law between two ports with one, as flows pass them;
//! before the first port it begins at the sender. What is left of it is the least that any of its
//! links has left, as in the XCP-i paper's simulations (section IV).

use std::net::IpAddr;

use pathmark_cc::{CloudEstimate, ExactEstimate, Instant, LinkAlgorithm, Upstream};
use pathmark_router::core::impair::Random;

use super::Engine;
use super::link::MeasuredLink;
use crate::scenario::{LinkSetup, Scenario};

/// An estimate may be used for so many times as long as the next one takes.
const VALID: u32 = 3;

/// All clouds of a scenario.
#[derive(Debug, Default)]
pub(super) struct Clouds {
    clouds: Vec<Known>,
}

/// A cloud as one port sees it.
#[derive(Debug)]
struct Known {
    port: usize,
    upstream: Upstream,
    links: Vec<Seen>,
    exact: ExactEstimate,
    last: Instant,
    next: Instant,
    /// By how much the estimate is wrong, in 10^-6 of the narrowest link's rate, and until when.
    error_ppm: i64,
    held_until: Instant,
    random: Random,
}

/// A link of a cloud.
#[derive(Clone, Copy, Debug)]
struct Seen {
    link: usize,
    /// Bytes that had arrived at the last estimate, and bytes that waited.
    arrived: u64,
    waiting: u64,
}

impl Clouds {
    /// The clouds that flows come through, for ports that want exact estimates. `address` names
    /// nodes.
    pub(super) fn new(scenario: &Scenario, address: impl Fn(usize) -> IpAddr) -> Self {
        let mut all = Self::default();
        for flow in &scenario.flows {
            for (path, from) in flow.path.iter().zip([flow.from, flow.to]) {
                all.along(scenario, path, from, &address);
            }
        }
        all
    }

    fn along(
        &mut self,
        scenario: &Scenario,
        path: &[usize],
        from: usize,
        address: &impl Fn(usize) -> IpAddr,
    ) {
        for found in find(scenario, path, from) {
            let setup = scenario.links.get(found.port);
            let law = setup.and_then(|setup| setup.spec.controller.as_ref());
            if let Some(exact) = law.and_then(LinkAlgorithm::exact_estimate)
                && let Some(upstream) = Upstream::of(address(found.upstream))
            {
                self.add(scenario, found.port, upstream, &found.links, exact);
            }
        }
    }

    /// Notes a cloud, or more links of one: flows may take several ways from one router to another.
    fn add(
        &mut self,
        scenario: &Scenario,
        port: usize,
        upstream: Upstream,
        links: &[usize],
        exact: ExactEstimate,
    ) {
        let known = self
            .clouds
            .iter()
            .position(|known| (known.port, known.upstream) == (port, upstream));
        let index = known.unwrap_or_else(|| {
            let name = format!("cloud/{port}/{upstream:?}");
            self.clouds.push(Known {
                port,
                upstream,
                links: Vec::new(),
                exact,
                last: Instant::ZERO,
                next: Instant::ZERO + exact.every,
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

/// A cloud on a flow's way.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The port behind it.
    pub(super) port: usize,
    /// The node before it, and the port by which packets leave that; `None`: it is the sender.
    pub(super) upstream: usize,
    pub(super) via: Option<usize>,
    /// Its links.
    pub(super) links: Vec<usize>,
}

/// The clouds on a way that begins at `from`.
pub(super) fn find(scenario: &Scenario, path: &[usize], from: usize) -> Vec<Found> {
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
        // A sender's own link alone is no cloud: its packets come straight from there.
        let own = |link: &usize| path.first() == Some(link);
        if !links.iter().all(own) {
            all.push(Found {
                port: index,
                upstream,
                via,
                links: links.clone(),
            });
        }
        (upstream, via) = (setup.from, Some(index));
        links.clear();
    }
    all
}

/// True if a port answers XCP headers.
fn answers(setup: &LinkSetup) -> bool {
    setup
        .spec
        .controller
        .as_ref()
        .is_some_and(LinkAlgorithm::has_feedback)
}

impl Known {
    /// What the cloud has left, from what arrived since the last time.
    fn estimate(&mut self, now: Instant, links: &[MeasuredLink]) -> Option<CloudEstimate> {
        let elapsed = (now - self.last).as_nanos().max(1);
        self.last = now;
        self.next = now + self.exact.every;
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
            valid_for: self.exact.every * VALID,
        })
    }

    /// By how many bytes per second the estimate is wrong.
    fn error(&mut self, now: Instant, rate: i64) -> i64 {
        if now >= self.held_until {
            let most = i64::try_from(self.exact.error_ppm).unwrap_or(0);
            // Uniform over −most … most.
            let drawn = i64::from(self.random.next_u32());
            self.error_ppm = ((drawn * (2 * most + 1)) >> 32) - most;
            self.held_until = now + self.exact.hold;
        }
        let error = i128::from(rate) * i128::from(self.error_ppm) / 1_000_000;
        i64::try_from(error).unwrap_or(0)
    }
}

impl Engine {
    /// Tells ports what is left of their clouds, as far as that is due.
    pub(super) fn run_clouds(&mut self) {
        let mut clouds = std::mem::take(&mut self.clouds);
        let now = self.now;
        for known in clouds.clouds.iter_mut().filter(|known| known.next <= now) {
            for seen in &known.links {
                if let Some(link) = self.links.get_mut(seen.link) {
                    link.catch_up(now, &mut self.pool);
                }
            }
            if let Some(estimate) = known.estimate(now, &self.links)
                && let Some(port) = self.links.get_mut(known.port)
            {
                port.catch_up(now, &mut self.pool);
                port.tell(now, known.upstream, &estimate);
            }
        }
        self.clouds = clouds;
        self.run_edges();
        self.note_clouds();
    }

    /// Notes when the next estimate is due.
    pub(super) fn note_clouds(&mut self) {
        let before = 1 + self.links.len() + self.media.len() + self.endpoints.len();
        let component = u32::try_from(before).unwrap_or(u32::MAX);
        let at = [self.clouds.deadline(), self.edges.deadline()];
        self.agenda.set(component, at.into_iter().flatten().min());
    }
}
