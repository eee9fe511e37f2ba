//! The discrete-event engine: endpoints and ports under a virtual clock.
//!
//! ```text
//!   Agenda: who is due next? ──► Link     : packets that have arrived ──► next Link, or Endpoint
//!                            ──► Endpoint : timers, application ──► datagrams ──► first Link of the way
//!                            ──► clock    : measuring windows begin and end, time series get a point
//! ```
//!
//! Each component has at most one deadline, asked for whenever something was done to it, so memory
//! depends on what exists and what is under way, never on how long the run is. Ties are broken by
//! the components' order.

mod agenda;
mod average;
mod capture;
mod clouds;
mod collect;
mod edges;
mod endpoint;
mod forged;
mod link;
mod medium;
mod own;
mod packet;
mod pattern;
mod ramp;
mod sampler;
mod setup;
mod shares;
mod sink;
mod source;
mod udp;
mod windows;

use std::ops::ControlFlow;

use pathmark_cc::{Duration, Instant};
use pathmark_router::core::queue::BadRed;
use pathmark_transport::connection::ConnectError;

use agenda::Agenda;
use capture::Frame;
use clouds::Clouds;
use edges::Edges;
use endpoint::Endpoint;
use link::MeasuredLink;
use medium::Medium;
use packet::{Label, PacketId, Pool};
use sampler::Sampler;
use shares::Shares;
use windows::Windows;

pub(crate) use own::{Own, OwnLaw};

use crate::observe::{Observer, Progress};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Events between two reports of progress.
const REPORT: u64 = 1 << 13;
/// Events at one instant that no scenario comes to unless it goes in circles.
const STALL: u64 = 50_000_000;

/// A run that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A link's queue cannot work.
    #[error("link `{link}`: {source}")]
    Queue {
        /// The link.
        link: String,
        /// Why.
        source: BadRed,
    },
    /// A connection cannot begin.
    #[error("flow `{flow}`: {source}")]
    Connect {
        /// The flow.
        flow: String,
        /// Why.
        source: ConnectError,
    },
    /// Simulated time stands still.
    #[error(
        "time stands still at {at:?}: packets go round without delay; give links a `rate` or a `delay`"
    )]
    Stall {
        /// When.
        at: Duration,
    },
}

impl Scenario {
    /// Runs it. `progress` is told of every few thousand events; it can end the run early, and the
    /// result then holds what was measured until then. How long it took is for the caller to fill
    /// in.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        progress: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<RunResult, RunError> {
        self.run_with(&mut Watch(progress))
    }

    /// Runs it under the eyes of an observer, such as [`Outputs`](crate::Outputs).
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_with(&self, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
        self.run_own(observer, &Own::default())
    }

    /// The same with controllers of the caller's own.
    pub(crate) fn run_own(
        &self,
        observer: &mut dyn Observer,
        own: &Own,
    ) -> Result<RunResult, RunError> {
        let mut engine = Engine::new(self, observer, own)?;
        engine.run(observer)?;
        engine.catch_up(engine.now);
        engine.take_sample(engine.now, true, observer);
        Ok(engine.collect())
    }
}

/// Watches progress alone.
struct Watch<F>(F);

impl<F: FnMut(&Progress) -> ControlFlow<()>> Observer for Watch<F> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.0(progress)
    }
}

/// A network in motion.
struct Engine {
    now: Instant,
    end: Instant,
    agenda: Agenda,
    links: Vec<MeasuredLink>,
    /// What links share.
    media: Vec<Medium>,
    /// What ports are told of links that they do not see.
    clouds: Clouds,
    /// Routers that measure them.
    edges: Edges,
    /// Sender and receiver of flow 0, of flow 1, …
    endpoints: Vec<Endpoint>,
    /// For each endpoint, the links that packets *for* it take.
    ways: Vec<Vec<u32>>,
    /// For each endpoint, what its packets are labelled with.
    labels: Vec<Label>,
    flows: Vec<Flow>,
    /// Finite flows that are not done.
    unfinished: u32,
    pool: Pool,
    windows: Windows,
    shares: Shares,
    sampler: Sampler,
    /// Where datagrams are built.
    outgoing: Box<[u8]>,
    /// Where datagrams are read; zeros in between.
    incoming: Box<[u8]>,
    /// Where packets for captures are put together.
    captured: Frame,
    /// Endpoints that got datagrams and have not answered yet.
    touched: Vec<u32>,
    events: u64,
    scenario: Scenario,
}

#[derive(Debug)]
struct Flow {
    /// What results call its law.
    algorithm: String,
    finite: bool,
    finished: bool,
}

/// Component 0 of the agenda; then come the links, then media, then the endpoints, then estimates
/// of clouds.
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
            // Looking at a run is no event of it.
            self.events += u64::from(component != CLOCK);
            match component {
                CLOCK => {
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

    /// Lets links do what was due, before somebody looks at them.
    fn catch_up(&mut self, now: Instant) {
        for link in &mut self.links {
            link.catch_up(now, &mut self.pool);
        }
    }

    /// Asks every component for its first deadline.
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
        ];
        self.agenda.set(CLOCK, at.into_iter().flatten().min());
    }

    #[inline]
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

    #[inline]
    fn note_endpoint(&mut self, index: u32) {
        if let Some(endpoint) = self.endpoints.get(index as usize) {
            let before = self.links.len() + self.media.len() + 1;
            let component = u32::try_from(before)
                .unwrap_or(u32::MAX)
                .saturating_add(index);
            self.agenda.set(component, endpoint.deadline());
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
        let medium = self
            .links
            .get(index as usize)
            .and_then(MeasuredLink::medium);
        if let Some(medium) = medium {
            self.note_medium(medium);
        }
        while let Some(endpoint) = self.touched.pop() {
            if let Some(end) = self.endpoints.get_mut(endpoint as usize) {
                end.react(self.now);
            }
            self.flush(endpoint);
        }
        Ok(())
    }

    /// Lets the link send whose turn it is.
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
                medium.occupy(until);
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

    /// Shows a packet that has come out of a link.
    #[cold]
    fn capture(&mut self, link: u32, packet: PacketId, observer: &mut dyn Observer) {
        let Some((to, taken)) = self.pool.copy(packet, self.captured.datagram()) else {
            return;
        };
        if let Some(endpoint) = self.endpoints.get(to as usize) {
            let (from, to) = endpoint.addresses();
            let packet = self.captured.packet(taken, from, to);
            observer.packet(
                &self.scenario,
                link as usize,
                self.now - Instant::ZERO,
                packet,
            );
        }
    }

    /// Hands a packet to the next link of its way, or to the endpoint that it is for.
    #[inline]
    fn forward(&mut self, packet: PacketId) -> Result<(), RunError> {
        let Some((to, hop)) = self.pool.heading(packet) else {
            return Ok(());
        };
        let way = self.ways.get(to as usize).map_or(&[][..], Vec::as_slice);
        let Some(&index) = way.get(usize::from(hop)) else {
            return self.deliver(to, packet);
        };
        if let Some(link) = self.links.get_mut(index as usize) {
            self.pool.enter_link(packet);
            link.arrive(self.now, packet, &mut self.pool);
            self.note_link(index);
        }
        Ok(())
    }

    #[inline]
    fn deliver(&mut self, to: u32, packet: PacketId) -> Result<(), RunError> {
        let Some(taken) = self.pool.take(packet, &mut self.incoming) else {
            return Ok(());
        };
        let Some(datagram) = self.incoming.get_mut(..taken.len) else {
            return Ok(());
        };
        let Some(endpoint) = self.endpoints.get_mut(to as usize) else {
            self.edges.deliver(self.now, to, datagram, &self.links);
            taken.wipe(datagram);
            self.note_clouds();
            return Ok(());
        };
        let handled = endpoint.handle_datagram(self.now, taken, datagram);
        taken.wipe(datagram);
        handled.map_err(|source| self.connect_error(to, source))?;
        if !self.touched.contains(&to) {
            self.touched.push(to);
        }
        Ok(())
    }

    /// Sends what an endpoint has to send, and notes what it waits for.
    fn flush(&mut self, index: u32) {
        let Some(label) = self.labels.get(index as usize).copied() else {
            return;
        };
        let mut shared = None;
        while let Some(endpoint) = self.endpoints.get_mut(index as usize)
            && let Some(transmit) = endpoint.poll_transmit(self.now, &mut self.outgoing)
        {
            let label = Label {
                flow_hash: endpoint.flow_hash(self.now, label.flow_hash),
                ..label
            };
            let batch = self.outgoing.get(..transmit.len).unwrap_or(&[]);
            for datagram in batch.chunks(transmit.segment_size.max(1)) {
                let label = Label {
                    ecn: transmit.ecn,
                    hop: 1,
                    ..label
                };
                let packet = self.pool.insert(label, datagram);
                let way = self.ways.get(label.to as usize);
                if let Some(&first) = way.and_then(|way| way.first())
                    && let Some(link) = self.links.get_mut(first as usize)
                {
                    link.arrive(self.now, packet, &mut self.pool);
                    self.agenda.set(first + 1, link.deadline());
                    shared = link.medium();
                }
            }
        }
        if let Some(medium) = shared {
            self.note_medium(medium);
        }
        if let Some(endpoint) = self.endpoints.get_mut(index as usize) {
            endpoint.settle(self.now);
        }
        self.note_finished(index);
        self.note_endpoint(index);
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

    fn sink(&self, flow: usize) -> Option<&sink::Sink> {
        self.endpoints.get(2 * flow + 1)?.sink()
    }

    /// When a flow started.
    fn started(&self, flow: usize) -> Instant {
        let setup = self.scenario.flows.get(flow);
        setup.map_or(self.end, |setup| Instant::ZERO + setup.start)
    }

    /// Bytes that a flow's receiver got.
    fn delivered(&self, flow: usize) -> u64 {
        self.endpoints
            .get(2 * flow + 1)
            .map_or(0, Endpoint::delivered)
    }

    /// When a flow's receiver had everything.
    fn completed(&self, flow: usize) -> Option<Instant> {
        self.sink(flow).and_then(sink::Sink::completed)
    }
}

/// A link's rate, if it has something to send now.
fn wants(links: &[MeasuredLink], link: u32, now: Instant) -> Option<u64> {
    links.get(link as usize)?.wants(now)
}
