//! The discrete-event engine: endpoints and ports under a virtual clock.
//!
//! ```text
//!   Agenda: next deadline ──► Link     : packets that have arrived ──► next Link, or Endpoint
//!                         ──► Endpoint : timers, application ──► datagrams ──► its first Link
//!                         ──► clock    : measuring windows begin and end, time series get a point
//! ```
//!
//! Each component has at most one deadline, which is updated after each of its events. Memory
//! therefore depends on the components and the packets in flight, but never on the length of the
//! run. The order of components breaks ties.

mod agenda;
mod application;
mod carry;
mod clouds;
mod edges;
mod endpoint;
mod http;
mod link;
mod measure;
mod medium;
mod packet;
mod pattern;
mod report;
mod run;
mod setup;
mod stalls;
mod tcp;
mod udp;
mod windows;

use std::net::Ipv4Addr;

use pathmark_cc::Instant;
use pathmark_transport::connection::ConnectError;

use crate::observe::{Observer, Progress};
use crate::scenario::Scenario;
use agenda::Agenda;
use carry::Frame;
use clouds::Clouds;
use edges::Edges;
use endpoint::Endpoint;
use link::MeasuredLink;
use medium::Medium;
use packet::{Label, Pool};
use report::Sampler;
pub use run::{LinkControllerFactory, RunError};
pub(crate) use run::{Own, OwnLaw, group};
use stalls::Stalls;
use tcp::TcpSender;
use windows::{Shares, Windows};

/// Number of events between two progress reports.
const REPORT: u64 = 1 << 13;
/// Number of events at one time that only occurs if packets circulate without delay.
const STALL: u64 = 50_000_000;

/// The state of a run.
struct Engine {
    now: Instant,
    end: Instant,
    agenda: Agenda,
    links: Vec<MeasuredLink>,
    /// Shared media.
    media: Vec<Medium>,
    /// Nodes that are stalled for a while.
    stalls: Stalls,
    /// Exact estimates for ports, of links that they cannot see.
    clouds: Clouds,
    /// Routers that measure clouds.
    edges: Edges,
    /// Sender and receiver of flow 0, of flow 1, and so on.
    endpoints: Vec<Endpoint>,
    /// For each endpoint, the links on the way *to* it.
    ways: Vec<Vec<u32>>,
    /// For each endpoint, the label of its packets.
    labels: Vec<Label>,
    flows: Vec<Flow>,
    /// Number of finite flows that are not complete.
    unfinished: u32,
    pool: Pool,
    windows: Windows,
    shares: Shares,
    sampler: Sampler,
    /// Buffer for building datagrams.
    outgoing: Box<[u8]>,
    /// Buffer for reading datagrams, which contains only zeros in between.
    incoming: Box<[u8]>,
    /// Buffer for assembling captured packets.
    captured: Frame,
    /// Endpoints that received datagrams and have not reacted yet.
    touched: Vec<u32>,
    events: u64,
    scenario: Scenario,
}

#[derive(Debug)]
struct Flow {
    /// Name of its law in results.
    algorithm: String,
    finite: bool,
    finished: bool,
}

/// Component 0 of the agenda. The links follow, then media, endpoints, and estimates of clouds.
const CLOCK: u32 = 0;

impl Engine {
    fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let links = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        let shared = links.saturating_add(u32::try_from(self.media.len()).unwrap_or(u32::MAX));
        let ends = shared.saturating_add(u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX));
        let any_finite = self.unfinished > 0;
        let mut since = self.events;
        while let Some((at, component)) = self.agenda.next()
            && at < self.end
        {
            if at > self.now {
                self.now = at;
                since = self.events;
            } else if self.events - since > STALL {
                let at = self.now - Instant::ZERO;
                return Err(RunError::Stall { at });
            }
            // Samples do not count as events of the run.
            self.events += u64::from(component != CLOCK);
            match component {
                CLOCK => {
                    self.end_stalls()?;
                    self.catch_up(self.now);
                    self.turn_windows(self.now, false);
                    self.turn_shares(self.now);
                    self.take_sample(self.now, false, observer);
                    self.note_clock();
                }
                link if link <= links => self.run_link(link - 1, observer)?,
                medium if medium <= shared => self.run_medium(medium - links - 1, observer)?,
                endpoint if endpoint <= ends => self.run_endpoint(endpoint - shared - 1)?,
                _ => self.run_clouds(),
            }
            if any_finite && self.unfinished == 0 {
                return Ok(());
            }
            if self.events.is_multiple_of(REPORT) && observer.progress(&self.progress()).is_break()
            {
                return Ok(());
            }
        }
        self.now = self.end;
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            simulated: self.now - Instant::ZERO,
            duration: self.end - Instant::ZERO,
            packets: self.pool.entered(),
            events: self.events,
            unfinished: self.unfinished,
        }
    }

    /// Lets links catch up before their state is read.
    fn catch_up(&mut self, now: Instant) {
        for link in &mut self.links {
            link.catch_up(now, &mut self.pool);
        }
    }

    /// Reads the first deadline of every component.
    fn agenda_all(&mut self) {
        self.note_clock();
        for index in 0..u32::try_from(self.links.len()).unwrap_or(0) {
            self.note_link(index);
        }
        for index in 0..u32::try_from(self.endpoints.len()).unwrap_or(0) {
            self.note_endpoint(index);
        }
        self.note_clouds();
    }

    fn note_clock(&mut self) {
        let at = [
            self.windows.deadline(),
            self.shares.deadline(),
            self.sampler.deadline(),
            self.stalls.deadline(),
        ];
        self.agenda.set(CLOCK, at.into_iter().flatten().min());
    }

    fn note_link(&mut self, index: u32) {
        if let Some(link) = self.links.get(index as usize) {
            let medium = link.medium();
            self.agenda.set(index + 1, link.deadline());
            if let Some(medium) = medium {
                self.note_medium(medium);
            }
        }
    }

    fn note_medium(&mut self, index: u32) {
        let (now, links) = (self.now, &self.links);
        if let Some(medium) = self.media.get(index as usize) {
            let at = medium.deadline(now, |link| wants(links, link, now).is_some());
            let first = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
            self.agenda.set(first.saturating_add(1 + index), at);
        }
    }

    fn note_endpoint(&mut self, index: u32) {
        if let Some(endpoint) = self.endpoints.get(index as usize) {
            let before = self.links.len() + self.media.len() + 1;
            let component = u32::try_from(before)
                .unwrap_or(u32::MAX)
                .saturating_add(index);
            let mut at = endpoint.deadline();
            if !self.stalls.is_empty()
                && let Some(node) = self.home(index)
            {
                at = at.map(|at| self.stalls.resume(node, at.max(self.now)));
            }
            self.agenda.set(component, at);
        }
    }

    fn run_link(&mut self, index: u32, observer: &mut dyn Observer) -> Result<(), RunError> {
        if let Some(link) = self.links.get_mut(index as usize) {
            link.catch_up(self.now, &mut self.pool);
        }
        while let Some(link) = self.links.get_mut(index as usize)
            && let Some(packet) = link.collect(self.now)
        {
            if link.is_captured() {
                self.capture(index, packet, observer);
            }
            self.forward(packet)?;
        }
        if let Some(link) = self.links.get(index as usize) {
            self.agenda.set(index + 1, link.deadline());
        }
        if let Some(link) = self.links.get(index as usize)
            && let Some(medium) = link.medium()
        {
            let until = link.ready_at();
            if let Some(medium) = self.media.get_mut(medium as usize) {
                medium.retime(index, until);
            }
            self.note_medium(medium);
        }
        self.answer();
        Ok(())
    }

    /// Lets the next link on a medium send.
    fn run_medium(&mut self, index: u32, observer: &mut dyn Observer) -> Result<(), RunError> {
        let (now, links) = (self.now, &self.links);
        let medium = self.media.get_mut(index as usize);
        let turn = medium.and_then(|medium| medium.poll(now, |link| wants(links, link, now)));
        if let Some(link) = turn
            && let Some(measured) = self.links.get_mut(link as usize)
        {
            measured.grant(now);
            self.run_link(link, observer)?;
            let sent_until = self.links.get(link as usize).map(MeasuredLink::ready_at);
            if let (Some(medium), Some(until)) = (self.media.get_mut(index as usize), sent_until) {
                medium.occupy(link, until);
            }
        }
        self.note_medium(index);
        Ok(())
    }

    fn run_endpoint(&mut self, index: u32) -> Result<(), RunError> {
        let Some(endpoint) = self.endpoints.get_mut(index as usize) else {
            return Ok(());
        };
        let done = endpoint.on_time(self.now);
        done.map_err(|source| self.connect_error(index, source))?;
        self.flush(index);
        Ok(())
    }

    /// Counts a finite flow whose receiver has everything.
    fn note_finished(&mut self, endpoint: u32) {
        let index = endpoint as usize / 2;
        let done = self.completed(index).is_some();
        if let Some(flow) = self.flows.get_mut(index)
            && flow.finite
            && !flow.finished
            && done
        {
            flow.finished = true;
            self.unfinished = self.unfinished.saturating_sub(1);
        }
    }

    fn connect_error(&self, endpoint: u32, source: ConnectError) -> RunError {
        RunError::Connect {
            flow: self.flow_name(endpoint as usize / 2),
            source,
        }
    }

    fn flow_name(&self, flow: usize) -> String {
        let setup = self.scenario.flows.get(flow);
        setup.map_or_else(String::new, |setup| setup.name.clone())
    }

    fn sender(&self, flow: usize) -> Option<&Endpoint> {
        self.endpoints.get(2 * flow)
    }

    fn sink(&self, flow: usize) -> Option<&application::Sink> {
        self.endpoints.get(2 * flow + 1)?.sink()
    }

    /// When a flow started.
    fn started(&self, flow: usize) -> Instant {
        let setup = self.scenario.flows.get(flow);
        setup.map_or(self.end, |setup| Instant::ZERO + setup.start)
    }

    /// Bytes delivered to a flow's receiver.
    fn delivered(&self, flow: usize) -> u64 {
        self.endpoints
            .get(2 * flow + 1)
            .map_or(0, Endpoint::delivered)
    }

    /// Packets that a flow's sender declared lost, or that its TCP sent again. `None`: it has
    /// neither.
    fn lost(&self, flow: usize) -> Option<u64> {
        let sender = self.sender(flow)?;
        let connection = sender.connection().map(|end| end.stats().packets_lost);
        connection.or_else(|| sender.tcp().map(TcpSender::repeated))
    }

    /// When a flow's receiver had everything.
    fn completed(&self, flow: usize) -> Option<Instant> {
        self.endpoints.get(2 * flow + 1)?.completed()
    }

    /// When a flow ended, either by its last byte's arrival or at its `stop` time.
    fn ended(&self, flow: usize) -> Option<Instant> {
        self.completed(flow).or_else(|| {
            let stop = self.scenario.flows.get(flow)?.stop?;
            Some(Instant::ZERO + stop).filter(|stop| *stop <= self.now)
        })
    }
}

/// A link's rate, if it has something to send now.
fn wants(links: &[MeasuredLink], link: u32, now: Instant) -> Option<u64> {
    links.get(link as usize)?.wants(now)
}

/// An address of a node.
fn address(node: usize) -> Ipv4Addr {
    let [.., a, b] = (node as u64).to_be_bytes();
    Ipv4Addr::new(10, a, b, 1)
}

/// Derives a separate seed for each component (FNV-1a, then a finalizer).
fn hash(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
