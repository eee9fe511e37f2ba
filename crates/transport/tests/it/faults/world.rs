//! Two endpoints, the path between them, and time.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pathmark_transport::connection::{ConnectionError, EarlyData, Event, Received};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::null::NullEndpointKey;
use pathmark_transport::endpoint::{DatagramEvent, EndpointConfig};
use pathmark_transport::wire::TransportErrorCode;
use pathmark_transport::{Duration, Ecn, Instant};

use super::addresses::Addresses;
use super::applications::{CLIENT, SERVER};
use super::crypto::Both;
use super::ends::{End, ends, move_on, server_config};
use super::path::{DATAGRAMS, EARLY_DATA, Flying, Path, SHORTAGE, Struck};
use super::plan::{Incident, Move, Plan};

/// Longer than any transfer can take: three outages and the cost of the worst loss.
const LIMIT: Duration = Duration::from_secs(600);
/// Number of steps without progress of time that only a faulty connection would take.
const STILL: u32 = 2000;

/// Returns true for an idle timeout. An end that has timed out may answer the other's next packet
/// with a reset.
fn timed_out(error: &ConnectionError) -> bool {
    [ConnectionError::TimedOut, ConnectionError::Reset].contains(error)
}

/// Returns true for an error that no fault of a path can cause, because it accuses the other end of
/// breaking the rules.
fn breaks_rules(error: &ConnectionError) -> bool {
    // An application's close that is sent in packets of the handshake (RFC 9000 §10.2.3).
    let closed = TransportErrorCode::APPLICATION_ERROR;
    let early = matches!(error, ConnectionError::ConnectionClosed(close) if close.code == closed);
    !early
        && !matches!(
            error,
            ConnectionError::TimedOut
                | ConnectionError::Reset
                | ConnectionError::LocallyClosed
                | ConnectionError::ApplicationClosed(_)
        )
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything arrived, and both ends closed.
    Complete,
    /// One end was gone, and the other noticed.
    Noticed,
    /// The path was dead or an end was stopped, and nothing got through before the idle timeout.
    TimedOut,
}

pub(crate) struct World {
    pub(super) plan: Plan,
    pub(super) now: Instant,
    pub(super) ends: [End; 2],
    pub(super) addresses: Addresses,
    server: SocketAddr,
    pub(super) path: Path,
    /// Datagrams that arrived while an end slept.
    kept: Vec<Flying>,
    pub(super) random: Random,
    pub(super) incidents: Vec<(Duration, Incident)>,
    /// When the handshake was complete, from which incidents are counted.
    pub(super) begun: Option<Instant>,
    /// Set when an end was gone, with the errors of both ends before then.
    pub(super) gone: Option<[Option<ConnectionError>; 2]>,
    /// The moves that the client must make as soon as it may.
    pub(super) moving: VecDeque<Move>,
    buffer: Vec<u8>,
    pub(super) config: EndpointConfig,
    /// Print events.
    trace: bool,
}

impl World {
    pub(crate) fn new(crypto: Both, plan: Plan) -> Self {
        let mut random = Random::from_u64(plan.seed);
        let key = Arc::new(NullEndpointKey::new(random.next_u64()));
        let server: SocketAddr = "10.0.0.2:443".parse().expect("an address");
        let now = Instant::from_millis(1);
        let config = server_config(&plan, key.clone(), crypto.1);
        let ends = ends(now, &plan, key, &config, crypto.0, server, &mut random);
        Self {
            now,
            ends,
            addresses: Addresses::new(),
            server,
            path: Path::new(plan.clone(), random.fork()),
            kept: Vec::new(),
            incidents: plan.incidents.clone(),
            begun: None,
            gone: None,
            moving: VecDeque::new(),
            buffer: vec![0; 65_536],
            config,
            random,
            plan,
            trace: false,
        }
    }

    /// Prints events.
    pub(crate) fn traced(mut self, trace: bool) -> Self {
        self.trace = trace;
        self
    }

    /// Runs the simulation to its end.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn run(&mut self) -> Result<Outcome, String> {
        let end = self.now + LIMIT;
        let mut still = 0;
        loop {
            self.happen();
            for side in [CLIENT, SERVER] {
                self.drive(side)?;
            }
            if self.is_over() {
                return self.judge();
            }
            let Some(next) = self.next() else {
                return Err(format!("stuck at {:?}: nothing will happen", self.now));
            };
            still = if next > self.now { 0 } else { still + 1 };
            if still > STILL {
                return Err(format!("time stands still at {:?}", self.now));
            }
            self.now = self.now.max(next);
            if self.now > end {
                let state = self.ends.each_ref().map(|end| end.application.state());
                let reports = self.reports();
                return Err(format!("not done in time: {state:?}, {reports:?}"));
            }
            self.arrive();
        }
    }

    /// Returns how often each kind of fault occurred.
    pub(crate) fn struck(&self) -> Struck {
        let mut struck = self.path.struck;
        for end in &self.ends {
            struck[DATAGRAMS] += end.messages.arrived();
            struck[SHORTAGE] += u64::from(self.plan.shortage.is_some());
            struck[EARLY_DATA] += u64::from(end.early);
        }
        struck
    }

    /// Returns the number of shims into which routers wrote.
    pub(crate) fn marked(&self) -> u64 {
        self.path.marked
    }

    /// Returns both ends' reports of the path, for printing.
    fn reports(&self) -> [Option<String>; 2] {
        self.ends.each_ref().map(|end| {
            let (_, connection) = end.connection.as_ref()?;
            let now = self.now + end.ahead;
            Some(format!(
                "{:?}, deadline in {:?}",
                connection.path_report(now),
                connection.deadline().map(|at| at.saturating_since(now))
            ))
        })
    }

    /// Returns true if both ends are over and forgotten, or gone.
    fn is_over(&self) -> bool {
        let over = |end: &End| end.dead || end.error.is_some() && end.connection.is_none();
        self.ends.iter().all(over)
    }

    fn judge(&self) -> Result<Outcome, String> {
        let done = self.ends.iter().all(|end| end.application.is_done());
        let errors = self.errors();
        if errors.iter().flatten().any(breaks_rules) {
            return Err(format!("ended by a defect: {errors:?}"));
        }
        if done {
            return Ok(Outcome::Complete);
        }
        // Errors before an end was gone can't be explained by this.
        let before = self.gone.as_ref().unwrap_or(&errors);
        if before.iter().all(Option::is_none) {
            return Ok(Outcome::Noticed);
        }
        if self.plan.is_dark() && before.iter().flatten().all(timed_out) {
            return Ok(Outcome::TimedOut);
        }
        Err(format!("ended early: {errors:?}"))
    }

    pub(super) fn errors(&self) -> [Option<ConnectionError>; 2] {
        self.ends.each_ref().map(|end| end.error.clone())
    }

    fn is_awake(&self, side: usize) -> bool {
        !self.ends[side].dead && self.ends[side].asleep_until.is_none()
    }

    fn next(&self) -> Option<Instant> {
        let ends = self.ends.iter().filter(|end| !end.dead).filter_map(|end| {
            if end.asleep_until.is_some() {
                return end.asleep_until;
            }
            let (_, connection) = end.connection.as_ref()?;
            let (due, begin) = (connection.deadline()?, Instant::ZERO + end.ahead);
            Some(Instant::ZERO + due.saturating_since(begin))
        });
        let incident = self.incidents.first();
        let incident = incident.and_then(|(after, _)| Some(self.begun? + *after));
        let read = [CLIENT, SERVER].map(|side| Some(self.begun? + self.plan.unread(side)));
        let read = read.into_iter().flatten().filter(|at| *at > self.now);
        let ends = ends.chain(self.path.next());
        ends.chain(incident).chain(read).min()
    }

    /// Handles timers and the application, and sends everything that is due.
    fn drive(&mut self, side: usize) -> Result<(), String> {
        let end = &mut self.ends[side];
        if end.asleep_until.is_some_and(|at| at <= self.now) {
            end.asleep_until = None;
            let kept = core::mem::take(&mut self.kept);
            for datagram in kept {
                self.deliver(datagram);
            }
        }
        if !self.is_awake(side) {
            return Ok(());
        }
        let server_has_read =
            self.plan.unread(SERVER).is_zero() || self.ends[SERVER].application.is_done();
        let end = &mut self.ends[side];
        let now = self.now + end.ahead;
        let Some((handle, connection)) = &mut end.connection else {
            return Ok(());
        };
        if side == CLIENT
            && let Some(how) = self.moving.front()
            && move_on(connection, now, &mut self.addresses, *how)
        {
            self.moving.pop_front();
        }
        if connection.deadline().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_event() {
            if let Event::Lost(error) = event {
                let state = connection.stats();
                if self.trace {
                    println!("{side}: {error}, {state:?}");
                }
                end.error = Some(error);
            }
        }
        let early = connection.handshake().early_data();
        end.early |= side == CLIENT && [EarlyData::Accepted, EarlyData::Refused].contains(&early);
        let is_early = match side {
            CLIENT => early == EarlyData::Offered,
            _ => early == EarlyData::Accepted,
        };
        if connection.is_established() || is_early {
            let reads_at = self.begun.map(|begun| begun + self.plan.unread(side));
            let reads =
                self.plan.unread(side).is_zero() || reads_at.is_some_and(|at| at <= self.now);
            end.application.run(connection.streams(), reads)?;
            end.messages.run(connection)?;
            // The client knows when both ends have everything: its data is acknowledged, and it has
            // read the data that it wanted. If the server reads late, `server_has_read` shows this.
            let open = connection.streams().open_streams();
            let all = end.application.is_done() && open == 0 && server_has_read;
            if side == CLIENT && all && connection.is_established() {
                connection.close(now, 0, bytes::Bytes::new());
            }
        }
        end.endpoint.route(now, *handle, connection);
        let mut out = Vec::new();
        while let Some(sent) = connection.poll_transmit(now, &mut self.buffer, 8) {
            let datagrams = self.buffer[..sent.len].chunks(sent.segment_size);
            out.extend(datagrams.map(|bytes| (sent, bytes.to_vec())));
            if out.len() > 10_000 {
                return Err(format!("{side} sends without end"));
            }
        }
        if let Some(error) = connection.error() {
            end.error.get_or_insert(error.clone());
        }
        if !end.endpoint.update(now, *handle, connection) {
            end.connection = None;
        }
        for (sent, bytes) in out {
            self.send(side, sent.local, sent.remote, bytes);
        }
        Ok(())
    }

    pub(super) fn trace(&self, what: impl core::fmt::Display) {
        if self.trace {
            println!("{:10.6} {what}", self.now.as_nanos() as f64 * 1e-9);
        }
    }

    /// Sends a datagram, which the path may change or lose.
    fn send(&mut self, side: usize, local: Option<IpAddr>, address: SocketAddr, bytes: Vec<u8>) {
        let from = match side {
            CLIENT => self.addresses.source(local),
            _ => self.server,
        };
        let len = bytes.len();
        let passes = self.addresses.works(from)
            && self.addresses.works(address)
            && self.path.send(self.now, side, from, address, bytes);
        let fate = if passes { "" } else { " lost" };
        self.trace(format_args!("{side} sends {len} to {address}{fate}"));
    }

    fn arrive(&mut self) {
        while let Some(datagram) = self.path.arrive(self.now, &self.addresses) {
            let to = datagram.to;
            if self.ends[to].dead {
                continue;
            }
            if self.ends[to].asleep_until.is_some() {
                // The size of a socket's buffer.
                if self.kept.len() < 200 {
                    self.kept.push(datagram);
                }
                continue;
            }
            self.deliver(datagram);
        }
    }

    fn deliver(&mut self, mut datagram: Flying) {
        let side = datagram.to;
        let (len, from) = (datagram.bytes.len(), datagram.from);
        self.trace(format_args!("{side} gets {len} from {from}"));
        let end = &mut self.ends[side];
        let now = self.now + end.ahead;
        let received = Received {
            remote: datagram.from,
            local: Some(datagram.address.ip()),
            ecn: Ecn::NotEct,
            ttl: None,
        };
        let mut answer = Vec::new();
        let (endpoint, bytes) = (&mut end.endpoint, &datagram.bytes);
        let event = endpoint.handle(now, &received, bytes, &mut answer);
        match event {
            DatagramEvent::Connection(handle) => {
                if let Some((known, connection)) = &mut end.connection
                    && *known == handle
                {
                    connection.handle_datagram(now, received, &mut datagram.bytes);
                    end.endpoint.route(now, handle, connection);
                }
            }
            // The first client is the simulated one. Others are caused by its first packet if this
            // arrives late or after a restart.
            DatagramEvent::Incoming(incoming)
                if end.connection.is_none() && end.error.is_none() =>
            {
                end.connection = end.endpoint.accept(now, incoming).ok();
            }
            DatagramEvent::Incoming(incoming) => end.endpoint.ignore(incoming),
            DatagramEvent::Respond => {
                self.send(side, Some(datagram.address.ip()), datagram.from, answer);
            }
            DatagramEvent::Nothing => {}
        }
    }
}
