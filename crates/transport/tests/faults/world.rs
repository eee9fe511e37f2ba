//! Two endpoints, the path between them, and time.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_transport::connection::{Connection, ConnectionError, Event, Received};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::null::NullEndpointKey;
use pathmark_transport::endpoint::{
    Connect, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, ServerConfig,
};
use pathmark_transport::{Duration, Ecn, Instant, TransportConfig};
use vcp_proto::VcpSignal;

use super::applications::{Application, CLIENT, SERVER};
use super::crypto::Crypto;
use super::path::{CLOCK_JUMP, END_GONE, Flying, Path};
use super::plan::{Incident, Plan};

/// Longer than any transfer may take: three outages and what the worst loss costs.
const LIMIT: Duration = Duration::from_secs(600);
/// Steps without progress of time that no sane connection takes.
const STILL: u32 = 2000;

/// An end that is gone after its idle timeout may answer the other's next packet with a reset.
fn timed_out(error: &ConnectionError) -> bool {
    [ConnectionError::TimedOut, ConnectionError::Reset].contains(error)
}

/// What no fault of a path is a reason for: one end says that the other breaks the rules.
fn breaks_rules(error: &ConnectionError) -> bool {
    !matches!(
        error,
        ConnectionError::TimedOut
            | ConnectionError::Reset
            | ConnectionError::Closed
            | ConnectionError::PeerApplication { .. }
    )
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All arrived, and both ends closed.
    Complete,
    /// An end was gone, and the other noticed.
    Noticed,
    /// The path was dark or an end stood still, and nothing got through before the idle timeout.
    TimedOut,
}

struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Box<Connection>)>,
    application: Application,
    error: Option<ConnectionError>,
    asleep_until: Option<Instant>,
    dead: bool,
    /// Its clock is ahead of the other's by so much.
    ahead: Duration,
}

pub(crate) struct World {
    plan: Plan,
    now: Instant,
    ends: [End; 2],
    /// The client's address.
    address: SocketAddr,
    server: SocketAddr,
    path: Path,
    /// Arrived while an end slept.
    kept: Vec<Flying>,
    random: Random,
    incidents: Vec<(Duration, Incident)>,
    /// When the handshake was over: incidents are counted from here.
    begun: Option<Instant>,
    /// When an end was gone, what ends had failed by before.
    gone: Option<[Option<ConnectionError>; 2]>,
    buffer: Vec<u8>,
    config: EndpointConfig,
    /// Print what happens.
    trace: bool,
}

impl World {
    pub(crate) fn new(crypto: &Crypto, plan: Plan, trace: bool) -> Self {
        let mut transport = TransportConfig::new({
            let law = match plan.feedback {
                true => "vcp+bise+wlte",
                false => "newreno",
            };
            let law = Algorithm::parse(law).expect("known");
            Arc::new(move |now, mtu| law.controller(now, mtu))
        });
        if plan.feedback {
            transport.signals = vec![Arc::new(VcpSignal::default())];
        }
        transport.key_update_after = plan.key_update_after;
        let mut patient = transport.clone();
        // A client that only waits has nothing to tell the server of its new address by.
        patient.keep_alive = Some(Duration::from_secs(3));
        let transport = Arc::new(transport);
        let mut random = Random::from_u64(plan.seed);
        let key = Arc::new(NullEndpointKey::new(random.next_u64()));
        let config = |server: bool| {
            let mut config = EndpointConfig::new(key.clone(), Duration::from_secs(1));
            config.server = server.then(|| ServerConfig {
                transport: Arc::clone(&transport),
                crypto: crypto.server(plan.tls),
            });
            config
        };
        let server: SocketAddr = "10.0.0.2:443".parse().expect("an address");
        let now = Instant::from_millis(1);
        let ahead = [0, 1].map(|_| Duration::from_micros(random.below(10_000_000_000)));
        let mut client = Endpoint::new(config(false), random.fork());
        let connect = Connect {
            config: Arc::new(patient),
            crypto: crypto.client(plan.tls),
            server_name: "server.test".into(),
            remote: server,
            local: None,
            token: Vec::new(),
        };
        let connection = client.connect(now + ahead[0], connect).expect("begun");
        let end = |endpoint, connection, side: usize| End {
            endpoint,
            connection,
            application: Application::new(&plan, side),
            error: None,
            asleep_until: None,
            dead: false,
            ahead: ahead[side],
        };
        let ends = [
            end(client, Some(connection), CLIENT),
            end(Endpoint::new(config(true), random.fork()), None, SERVER),
        ];
        Self {
            now,
            ends,
            address: "10.0.0.1:1000".parse().expect("an address"),
            server,
            path: Path::new(plan.clone(), random.fork()),
            kept: Vec::new(),
            incidents: plan.incidents.clone(),
            begun: None,
            gone: None,
            buffer: vec![0; 65_536],
            config: config(true),
            random,
            plan,
            trace,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What went wrong, for people.
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

    /// What happened on the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What both ends say of the path, for people.
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

    /// Both ends are over and forgotten, or gone.
    fn is_over(&self) -> bool {
        self.ends
            .iter()
            .all(|end| end.dead || end.error.is_some() && end.connection.is_none())
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
        // What came before an end was gone has no excuse by it.
        let before = self.gone.as_ref().unwrap_or(&errors);
        if before.iter().all(Option::is_none) {
            return Ok(Outcome::Noticed);
        }
        if self.plan.is_dark() && before.iter().flatten().all(timed_out) {
            return Ok(Outcome::TimedOut);
        }
        Err(format!("ended early: {errors:?}"))
    }

    fn errors(&self) -> [Option<ConnectionError>; 2] {
        self.ends.each_ref().map(|end| end.error.clone())
    }

    /// Incidents whose time has come.
    fn happen(&mut self) {
        let established = self.ends[CLIENT]
            .connection
            .as_ref()
            .is_some_and(|(_, connection)| connection.is_confirmed());
        if established && self.begun.is_none() {
            self.begun = Some(self.now);
        }
        let Some(begun) = self.begun else {
            return;
        };
        while let Some((after, incident)) = self.incidents.first().copied()
            && begun + after <= self.now
        {
            self.incidents.remove(0);
            self.trace(format_args!("{incident:?}"));
            match incident {
                Incident::Rebinding => {
                    let port = 1000 + self.random.below(60_000) as u16;
                    self.address.set_port(port);
                }
                Incident::Outage(time) => self.path.darken(self.now + time),
                Incident::RouterKilled(time, marks) => {
                    self.path.kill_router(self.now + time, marks);
                }
                Incident::Sleep(side, time) => {
                    self.path.struck[CLOCK_JUMP] += 1;
                    self.ends[side].asleep_until = Some(self.now + time);
                }
                Incident::Death(side) => {
                    let errors = self.errors();
                    self.gone.get_or_insert(errors);
                    self.path.struck[END_GONE] += 1;
                    self.ends[side].dead = true;
                }
                Incident::Restart => {
                    let errors = self.errors();
                    self.gone.get_or_insert(errors);
                    self.path.struck[END_GONE] += 1;
                    let end = &mut self.ends[SERVER];
                    end.endpoint = Endpoint::new(self.config.clone(), self.random.fork());
                    end.connection = None;
                    end.error = Some(ConnectionError::Reset);
                }
            }
        }
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
            let due = connection
                .deadline()?
                .saturating_since(Instant::ZERO + end.ahead);
            Some(Instant::ZERO + due)
        });
        let incident = self.incidents.first();
        let incident = incident.and_then(|(after, _)| Some(self.begun? + *after));
        ends.chain(self.path.next()).chain(incident).min()
    }

    /// Timers, the application, and all that is to be sent.
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
        let end = &mut self.ends[side];
        let now = self.now + end.ahead;
        let Some((handle, connection)) = &mut end.connection else {
            return Ok(());
        };
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
        if connection.is_established() {
            end.application.run(connection.streams())?;
            // The client knows when both have everything: what it sent is acknowledged, what it
            // wanted was read.
            let open = connection.streams().open_streams();
            if side == CLIENT && end.application.is_done() && open == 0 {
                connection.close(now, 0, bytes::Bytes::new());
            }
        }
        end.endpoint.route(now, *handle, connection);
        let mut out = Vec::new();
        while let Some(sent) = connection.poll_transmit(now, &mut self.buffer, 8) {
            let datagrams = self.buffer[..sent.len].chunks(sent.segment_size);
            out.extend(datagrams.map(|bytes| (sent.remote, bytes.to_vec())));
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
        for (to, bytes) in out {
            self.send(side, to, bytes);
        }
        Ok(())
    }

    fn trace(&self, what: impl core::fmt::Display) {
        if self.trace {
            println!("{:10.6} {what}", self.now.as_nanos() as f64 * 1e-9);
        }
    }

    /// A datagram meets its fate.
    fn send(&mut self, side: usize, address: SocketAddr, bytes: Vec<u8>) {
        let from = if side == CLIENT {
            self.address
        } else {
            self.server
        };
        let len = bytes.len();
        let passes = self.path.send(self.now, side, from, address, bytes);
        let fate = if passes { "" } else { " lost" };
        self.trace(format_args!("{side} sends {len} to {address}{fate}"));
    }

    fn arrive(&mut self) {
        while let Some(datagram) = self.path.arrive(self.now, self.address) {
            let to = datagram.to;
            if self.ends[to].dead {
                continue;
            }
            if self.ends[to].asleep_until.is_some() {
                // A socket's buffer.
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
            local: None,
            ecn: Ecn::NotEct,
            ttl: None,
        };
        let mut answer = Vec::new();
        let event = end
            .endpoint
            .handle(now, &received, &datagram.bytes, &mut answer);
        match event {
            DatagramEvent::Connection(handle) => {
                if let Some((known, connection)) = &mut end.connection
                    && *known == handle
                {
                    connection.handle_datagram(now, received, &mut datagram.bytes);
                    end.endpoint.route(now, handle, connection);
                }
            }
            // The first one is the client's. Others begin with its first packet again, late, or
            // after a restart.
            DatagramEvent::Incoming(incoming)
                if end.connection.is_none() && end.error.is_none() =>
            {
                end.connection = end.endpoint.accept(now, incoming).ok();
            }
            DatagramEvent::Incoming(incoming) => end.endpoint.ignore(incoming),
            DatagramEvent::Respond => self.send(side, datagram.from, answer),
            DatagramEvent::Nothing => {}
        }
    }
}
