//! Starts, runs, reloads and stops the router.

mod reload;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use pathmark_cc::{Duration, Instant};
use pathmark_link::keys::RateValue;

use super::assemble::{plan, put_in_force, router};
use super::exchange::Hint;
use super::measure::{Measurements, Reports, reached};
use super::questions::{ControlClient, ControlServer, Request, Taken};
use super::rates::History;
use super::record::Recorder;
use super::server::{Listener, Server};
use super::service::Supervisor;
use super::snapshot::{Reload, Snapshot, Surroundings, seconds};
use super::socket::Socket;
use super::steering::Steering;
use super::{RunError, questions, service, socket, system};
use crate::config::{Config, Interface};
use crate::output;
use crate::output::{To, log_line};
use crate::tun::sys::{Signal, Signals};
use crate::tun::{Deaf, Device, DeviceError, Driver, Event, Namespaces, Pace, sys};

/// Maximum time that an interface may be missing before the router ends.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between attempts to reopen it.
const RETRY: Duration = Duration::from_millis(50);

/// Options of `run`.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The configuration.
    pub config: PathBuf,
    /// Write a JSON line to stdout when the router is ready.
    pub json: bool,
    /// The file for a time series of the links.
    pub record: Option<PathBuf>,
    /// Time between its samples.
    pub sample: Duration,
}

/// A router that is ready to forward, still with its initial privileges.
pub(super) struct Prepared {
    config: Config,
    driver: Driver,
    measurements: Measurements,
    control: ControlServer,
    client: ControlClient,
    listeners: Vec<Listener>,
    socket: Option<Socket>,
    metrics: Option<SocketAddr>,
    record: Option<File>,
    pub(super) identity: Option<sys::Identity>,
}

/// Performs every step that requires privileges or can fail.
pub(super) fn prepare(config: Config, options: &RunOptions) -> Result<Prepared, RunError> {
    let identity = config
        .user
        .as_deref()
        .map(|user| identity(user, config.group.as_deref()))
        .transpose()?;
    sys::raise_descriptor_limit();
    let wait = system("wait for interfaces");
    let mut driver = Driver::new(router(&config), Pace::default()).map_err(wait)?;
    let plan = plan(None, &[], config, driver.now())?;
    let (config, _, deaf) = put_in_force(&mut driver, None, plan);
    if let Some(Deaf { source, .. }) = deaf.into_iter().next() {
        return Err(system("wait for interfaces")(source));
    }
    // Only the group with which the router starts may have the right to open these sockets.
    let mut measurements = Measurements::default();
    let now = driver.now();
    if let Some(error) = measurements.apply(&config, now, driver.router_mut()).pop() {
        return Err(error);
    }
    let (control, client) = questions::pair().map_err(system("make a pair of sockets"))?;
    let mut listeners = Vec::new();
    let mut socket = None;
    if let Some(path) = config.control.as_deref() {
        let (own, listener) = socket::bind(path)?;
        socket = Some(own);
        listeners.push(Listener::Unix(listener));
    }
    let mut metrics = None;
    if let Some(address) = config.metrics {
        let (listener, own) = socket::bind_tcp(address)?;
        metrics = Some(own);
        listeners.push(Listener::Tcp(listener));
    }
    let record = options.record.as_ref().map(|path| {
        let path = path.clone();
        Recorder::create(&path).map_err(|source| RunError::Record { path, source })
    });
    let record = record.transpose()?;
    if let (Some(socket), Some(identity)) = (&socket, &identity) {
        // `user` must be able to connect to the socket, and to remove it at the end.
        socket
            .give_to(*identity)
            .map_err(system("hand the status socket over"))?;
    }
    Ok(Prepared {
        config,
        driver,
        measurements,
        control,
        client,
        listeners,
        socket,
        metrics,
        record,
        identity,
    })
}

/// Looks up user and group in the user database.
fn identity(user: &str, group: Option<&str>) -> Result<sys::Identity, RunError> {
    let mut identity = sys::user(user).ok_or_else(|| RunError::User(user.to_owned()))?;
    if let Some(group) = group {
        let known = sys::group(group);
        identity.group = known.ok_or_else(|| RunError::Group(group.to_owned()))?;
    }
    Ok(identity)
}

/// Runs a router until SIGTERM or SIGINT.
///
/// # Errors
/// [`RunError`].
pub fn run(options: &RunOptions) -> Result<(), RunError> {
    let config = Config::load(&options.config)?;
    let signals = Signals::take_over().map_err(system("watch for signals"))?;
    let prepared = prepare(config, options)?;
    // Privileges are per thread, and this is still the only thread.
    sys::drop_privileges(prepared.identity).map_err(system("give up privileges"))?;
    output::start().map_err(system("start a thread"))?;
    if let Some(warning) = service::too_little(prepared.config.memory.0) {
        log_line!("warning: {warning}");
    }
    let now = prepared.driver.now();
    let epoch = unix_now() - seconds(now);
    let recorder = prepared
        .record
        .map(|file| {
            let path = options.record.clone().unwrap_or_default();
            Recorder::start(file, epoch, move |error| {
                let path = path.display();
                log_line!("cannot write {path}: {error}; nothing more is recorded");
            })
        })
        .transpose()
        .map_err(system("start a thread"))?;
    let client = prepared.client;
    let reader = client.try_clone().map_err(system("copy a descriptor"))?;
    let server = Server::new(prepared.listeners, client);
    server.start().map_err(system("start a thread"))?;
    let config = Arc::new(prepared.config);
    let steering =
        Steering::start(Arc::clone(&config)).map_err(system("watch rules and routes"))?;
    let mut daemon = Daemon {
        options,
        supervisor: Supervisor::from_environment(now),
        config,
        steering,
        history: History::new(prepared.driver.router(), now),
        driver: prepared.driver,
        signals,
        control: prepared.control,
        recorder,
        reloads: Reload {
            at_unix_s: unix_now(),
            ..Reload::default()
        },
        reader,
        reading: None,
        lost: Vec::new(),
        reports: Reports::default(),
        measurements: prepared.measurements,
        metrics: prepared.metrics,
        _socket: prepared.socket,
    };
    daemon.announce();
    daemon.serve()
}

struct Daemon<'a> {
    options: &'a RunOptions,
    supervisor: Supervisor,
    config: Arc<Config>,
    steering: Steering,
    driver: Driver,
    signals: Signals,
    control: ControlServer,
    recorder: Option<Recorder>,
    history: History,
    reloads: Reload,
    /// For the thread that reads a configuration.
    reader: ControlClient,
    /// Set while a configuration is being read; true if it must be read again afterwards.
    reading: Option<bool>,
    /// Ports whose interface is gone, and the time at which the router gives up.
    lost: Vec<(String, Instant)>,
    /// Capacities that clients report for ports.
    reports: Reports,
    measurements: Measurements,
    /// Address that serves Prometheus text.
    metrics: Option<SocketAddr>,
    _socket: Option<Socket>,
}

impl Daemon<'_> {
    fn announce(&self) {
        if self.options.json {
            let ports =
                self.config
                    .ports
                    .iter()
                    .zip(self.driver.devices())
                    .map(|(port, device)| {
                        serde_json::json!({
                            "name": port.name,
                            "interface": device.name(),
                            "tcp_offload": device.offloads().tcp,
                            "udp_offload": device.offloads().udp,
                        })
                    });
            let line = serde_json::json!({
                "ready": true,
                "pid": std::process::id(),
                "metrics": self.metrics,
                "ports": ports.collect::<Vec<_>>(),
            });
            output::put(To::Stdout, format!("{line}\n"));
        }
        let (ports, routes) = (self.config.ports.len(), self.config.routes.len());
        self.supervisor
            .ready(&format_args!("{ports} ports, {routes} routes"));
        if let Some(address) = self.metrics {
            log_line!("metrics at http://{address}/metrics");
        }
        log_line!("ready with {ports} ports and {routes} routes");
    }

    fn serve(&mut self) -> Result<(), RunError> {
        let own = [self.signals.fd(), self.control.wake_fd().as_raw_fd()];
        let start = self.driver.now();
        let (mut next_sample, mut next_attempt) = (start, start);
        let mut watched = Vec::new();
        loop {
            let sample = self.recorder.is_some().then_some(next_sample);
            let attempt = (!self.lost.is_empty()).then_some(next_attempt);
            let beat = self.supervisor.due();
            let until = [
                sample,
                attempt,
                beat,
                self.reports.due(),
                self.measurements.due(),
            ];
            let until = until.into_iter().flatten();
            let until = until.fold(self.history.due(), Instant::min);
            // Sockets of measurements change with the configuration.
            watched.clear();
            watched.extend(own);
            watched.extend(self.measurements.sockets());
            let event = self.driver.turn(&watched, Some(until));
            let now = self.driver.now();
            let router = self.driver.router_mut();
            self.measurements.send(now, &self.config, router);
            self.supervisor.beat(now);
            if self.history.due() <= now {
                self.history.sample(self.driver.router(), now);
            }
            while let Some(port) = self.reports.expired(now) {
                log_line!(
                    "port {port}: reports of its capacity stopped; it is as configured again"
                );
                self.give_capacity(&port);
            }
            if sample.is_some_and(|due| due <= now) {
                next_sample = self.sample(next_sample);
            }
            if attempt.is_some_and(|due| due <= now) {
                self.reopen()?;
                next_attempt = now + RETRY;
            }
            match event.map_err(system("wait for packets"))? {
                None => {}
                Some(Event::Lost(port)) => {
                    let name = self.driver.devices().get(port).map_or("?", |d| d.name());
                    log_line!("interface {name} is gone; trying to open it again");
                    if let Some(spec) = self.config.ports.get(port) {
                        self.lost.push((spec.name.clone(), now + PATIENCE));
                    }
                    next_attempt = now;
                }
                Some(Event::Watched(0)) => match self.signals.next() {
                    Some(Signal::Stop) => {
                        self.stop();
                        return Ok(());
                    }
                    Some(Signal::Reload) => self.reload(),
                    None => {}
                },
                Some(Event::Watched(1)) => {
                    let requests: Vec<_> = self.control.requests().collect();
                    for request in requests {
                        self.answer(request);
                    }
                    self.control.answered();
                }
                Some(Event::Watched(other)) => {
                    let router = self.driver.router_mut();
                    self.measurements.receive(other - own.len(), now, router);
                }
            }
        }
    }

    fn answer(&mut self, request: Request) {
        // A client that has left in the meantime needs no answer.
        match request {
            Request::Snapshot(reply) => drop(reply.try_send(self.snapshot())),
            Request::Capacity(hint, reply) => drop(reply.try_send(self.report(&hint))),
            Request::Reload(reply) => {
                self.reload();
                // A running reload may have read the file before the latest change.
                let to_come = 1 + u64::from(self.reading == Some(true));
                let _gone = reply.try_send(self.reloads.ended() + to_come);
            }
            Request::Reloaded(result) => self.reloaded(*result),
        }
    }

    /// Takes or withdraws a report of a port's capacity. Reloads keep it unless the port's
    /// `capacity` changes in the file.
    fn report(&mut self, hint: &Hint) -> Taken {
        let (index, _) = reached(&self.config, &hint.port)?;
        let before = self.reports.of(&hint.port).map(|report| report.rate);
        if let Some(line) = self.reports.set(hint, self.driver.now()) {
            log_line!("{line}");
        }
        // The same capacity again would make a law forget for a moment how much of it other
        // traffic takes.
        if before != hint.rate {
            self.give_capacity(&hint.port);
        }
        let port = self.driver.router().ports().get(index);
        let rate = port.and_then(|port| port.link.port().own_rate());
        let report = self.reports.of(&hint.port);
        Ok(report.map(|report| report.taken(rate)))
    }

    /// Limits a port to its reported capacity, or gives its laws the configured one if none is
    /// reported.
    fn give_capacity(&mut self, name: &str) {
        let now = self.driver.now();
        let mut ports = self.config.ports.iter().enumerate();
        if let Some((index, spec)) = ports.find(|(_, port)| port.name == name)
            && let Some(port) = self.driver.router_mut().port_mut(index)
        {
            let reported = self.reports.of(name).map(|report| report.rate.bytes());
            let configured = spec.link.capacity.map(RateValue::bytes);
            let capacity = reported.or(configured);
            port.link.port_mut().set_capacity(now, capacity);
            port.link.set_report(now, reported);
            self.measurements.on_report(index, now, reported);
        }
    }

    /// Tries to reopen missing interfaces. If one stays away for 1 s, the router ends, so that a
    /// service manager sees the failure.
    fn reopen(&mut self) -> Result<(), RunError> {
        let config = Arc::clone(&self.config);
        for (name, until) in std::mem::take(&mut self.lost) {
            let mut ports = config.ports.iter().enumerate();
            let Some((port, spec)) = ports.find(|(_, port)| port.name == name) else {
                continue;
            };
            if !self.driver.devices().get(port).is_some_and(Device::is_lost) {
                continue;
            }
            let opened = match spec.interface {
                // A passed descriptor cannot be opened again.
                Interface::Fd(fd) => Err(DeviceError::Failed {
                    what: "use descriptor",
                    name: fd.to_string(),
                    source: io::Error::from_raw_os_error(libc::EBADFD),
                }),
                Interface::Tun(_) => Device::open(&spec.interface, spec.mtu),
            };
            let opened = opened.and_then(|mut device| {
                device.find(&mut Namespaces::default());
                let name = device.name().to_owned();
                let placed = self.driver.replace_device(port, device);
                placed
                    .map(|()| name.clone())
                    .map_err(|source| DeviceError::Failed {
                        what: "wait for",
                        name,
                        source,
                    })
            });
            match opened {
                Ok(name) => log_line!("interface {name} is back"),
                Err(_)
                    if matches!(spec.interface, Interface::Tun(_)) && self.driver.now() < until =>
                {
                    self.lost.push((name, until));
                }
                Err(source) => {
                    let port = spec.name.clone();
                    // The record must include everything up to now.
                    self.stop();
                    return Err(RunError::Lost { port, source });
                }
            }
        }
        Ok(())
    }

    fn sample(&self, due: Instant) -> Instant {
        let now = self.driver.now();
        if let Some(recorder) = &self.recorder {
            recorder.sample(self.driver.router(), now);
        }
        // A late sample does not delay the next ones; missed samples are skipped.
        (due + self.options.sample).max(now)
    }

    fn snapshot(&self) -> Snapshot {
        let laws: Vec<_> = self
            .config
            .ports
            .iter()
            .map(|port| port.link.controller.as_ref().map(ToString::to_string))
            .collect();
        let around = Surroundings {
            id: self.config.id,
            laws: &laws,
            devices: self.driver.devices(),
            history: &self.history,
            reload: &self.reloads,
            metrics: self.metrics,
            steering: &self.steering.states(),
            reports: &self.reports,
            measurements: &self.measurements,
        };
        Snapshot::take(self.driver.router(), self.driver.now(), around)
    }

    fn stop(&mut self) {
        self.supervisor.stopping(&"stopping");
        if let (Some(recorder), Some(path)) = (self.recorder.take(), &self.options.record) {
            recorder.sample(self.driver.router(), self.driver.now());
            // The record is lost, but the router itself ran correctly.
            if let Err(error) = recorder.finish() {
                let path = path.display();
                log_line!("warning: the record {path} is not complete: {error}");
            }
        }
        log_line!("stopped");
    }
}

fn unix_now() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "time stamps of a log for people")]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
