//! The kernel's state, which separate threads query, because rtnetlink waits for a lock of the
//! whole machine. While other interfaces are created and removed, this may take seconds, longer
//! than a client of the status socket waits.
//!
//! One thread queries the state of interfaces. The other monitors whether packets are still steered
//! into the ports, because other programs can remove rules and routes, rename interfaces, or add
//! rules with precedence. It reads the kernel's events (rtnetlink, which requires no capability),
//! compares the kernel's state with the configuration, and logs each change. Without capabilities,
//! it cannot repair anything itself. If a service manager provides a directory, the thread instead
//! creates a file there, which triggers a unit that runs `vcp-router setup`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libc::{RTM_DELROUTE, RTM_NEWROUTE};
use serde::Serialize;

use super::wake;
use crate::config::Config;
use crate::output::log_line;
use crate::setup::{Fault, FaultKind, look, table_of};
use crate::tun::links::{messages, u16_at};
use crate::tun::{LinkState, Watch, sys};

/// Delay between an event and a check, because changes usually come in groups.
const SETTLE: Duration = Duration::from_millis(100);
/// Time between checks if there are no events.
const EVERY: Duration = Duration::from_secs(3);
/// Time between the first two requests for a repair, which then doubles up to the longest.
const RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The file that triggers `vcp-router setup`.
const REQUEST: &str = "setup-wanted";

/// Whether packets are steered into a port as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SteeringState {
    /// True if all rules, routes and interfaces exist, and no other rule precedes them.
    pub ok: bool,
    /// What is missing or takes precedence, with a remedy.
    pub reason: Option<String>,
}

/// States of the ports that packets are steered into, by name.
pub(super) type States = BTreeMap<String, SteeringState>;

/// The monitoring thread. It ends when this handle is dropped.
#[derive(Debug)]
pub(super) struct Steering {
    shared: Arc<Mutex<Shared>>,
    waker: UnixStream,
}

#[derive(Debug)]
struct Shared {
    config: Arc<Config>,
    states: States,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // The guarded values are always replaced as a whole.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steering {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread, or the pair of sockets that ends it, cannot be created.
    pub(super) fn start(config: Arc<Config>) -> io::Result<Self> {
        let (waker, other_end) = UnixStream::pair()?;
        other_end.set_nonblocking(true)?;
        let events = sys::route_events();
        if let Err(error) = &events {
            log_line!("cannot watch rules and routes: {error}; they are looked at every 3 s");
        }
        let events = events.ok();
        let shared = Shared {
            config,
            states: States::new(),
        };
        let shared = Arc::new(Mutex::new(shared));
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            events: events.map(File::from),
            reloads: other_end,
            request: Request::from_environment(),
        };
        let thread = std::thread::Builder::new().name("steering".to_owned());
        thread.spawn(move || watcher.serve())?;
        Ok(Self { shared, waker })
    }

    /// Monitors another configuration from now on.
    pub(super) fn follow(&self, config: Arc<Config>) {
        let mut shared = lock(&self.shared);
        if config.steers.is_empty() {
            shared.states.clear();
        }
        shared.config = config;
        drop(shared);
        wake(&self.waker);
    }

    /// The results of the last check.
    pub(super) fn states(&self) -> States {
        lock(&self.shared).states.clone()
    }
}

struct Watcher {
    shared: Arc<Mutex<Shared>>,
    /// Without events, only periodic checks.
    events: Option<File>,
    /// Readable after a reload, closed at the end.
    reloads: UnixStream,
    request: Request,
}

impl Watcher {
    fn serve(mut self) {
        let mut due = now();
        loop {
            let config = Arc::clone(&lock(&self.shared).config);
            let idle = config.steers.is_empty();
            let mut fds = vec![sys::readable(self.reloads.as_raw_fd())];
            if let Some(events) = self.events.as_ref().filter(|_| !idle) {
                fds.push(sys::readable(events.as_raw_fd()));
            }
            let wait = due.saturating_duration_since(now());
            let wait = pathmark_cc::Duration::from_micros(
                u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
            );
            if let Err(error) = sys::wait(&mut fds, (!idle).then_some(wait)) {
                log_line!(
                    "cannot wait for changes of rules and routes: {error}; steering is not seen"
                );
                return;
            }
            let ready = |at: usize| fds.get(at).is_some_and(|fd| fd.revents != 0);
            if ready(0) {
                match self.reloads.read(&mut [0; 16]) {
                    Ok(0) => return,
                    _ => {
                        // An interface that a reload no longer uses can be removed now.
                        self.request.make("reloaded");
                        due = now();
                        continue;
                    }
                }
            }
            if ready(1) && self.concerns(&config) {
                due = due.min(now() + SETTLE);
            }
            if !idle && now() >= due {
                self.look(&config);
                due = now() + EVERY;
            }
        }
    }

    /// Reads events; true if one may concern the steering.
    fn concerns(&mut self, config: &Config) -> bool {
        let Some(events) = &mut self.events else {
            return false;
        };
        let mut buffer = [0; 32 * 1024];
        let mut any = false;
        // A limit is necessary. Events that continue to arrive are left for the next check.
        for _ in 0..64 {
            match events.read(&mut buffer) {
                Ok(len) => {
                    let read = buffer.get(..len).unwrap_or_default();
                    any |= messages(read).any(|(head, body)| match u16_at(head, 4) {
                        Some(RTM_NEWROUTE | RTM_DELROUTE) => {
                            let first = config.table..config.table.saturating_add(256);
                            table_of(body).is_some_and(|table| first.contains(&table))
                        }
                        _ => true,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // More events than the socket's buffer holds (ENOBUFS).
                Err(_) => any = true,
            }
        }
        any
    }

    fn look(&mut self, config: &Arc<Config>) {
        let seen = look(config);
        let states = match &seen {
            Ok(faults) => states(config, faults),
            Err(error) => all_lost(config, &format!("cannot ask the kernel: {error}")),
        };
        let mut shared = lock(&self.shared);
        if !Arc::ptr_eq(&shared.config, config) {
            // A reload has happened in between, so the next check must use its configuration.
            return;
        }
        let before = std::mem::replace(&mut shared.states, states.clone());
        drop(shared);
        for (port, state) in &states {
            let was_ok = before.get(port).is_none_or(|before| before.ok);
            match &state.reason {
                Some(reason) if before.get(port) != Some(state) => {
                    log_line!("steering of port {port} is missing: {reason}");
                }
                None if !was_ok => log_line!("steering of port {port} is back"),
                _ => {}
            }
        }
        let mendable = |fault: &&Fault| fault.kind.is_mended_by_setup();
        match seen.iter().flatten().find(mendable) {
            Some(fault) => self.request.repeat(&fault.text, now()),
            None => self.request.next = None,
        }
    }
}

/// Returns each port's first fault, and the number of further ones.
fn states(config: &Config, faults: &[Fault]) -> States {
    let mut states = States::new();
    for (index, port) in config.ports.iter().enumerate() {
        if !config.steers.iter().any(|steer| steer.port == index) {
            continue;
        }
        // Rules for some of the packets may exist on purpose.
        let mut own = faults
            .iter()
            .filter(|fault| fault.port == index && fault.kind != FaultKind::Exception);
        let reason = own.next().map(|first| match own.count() {
            0 => first.text.clone(),
            more => format!("{} ({more} more)", first.text),
        });
        let ok = reason.is_none();
        states.insert(port.name.clone(), SteeringState { ok, reason });
    }
    states
}

fn all_lost(config: &Config, reason: &str) -> States {
    let steers = config.steers.iter();
    let ports = steers.filter_map(|steer| config.ports.get(steer.port));
    let lost = SteeringState {
        ok: false,
        reason: Some(reason.to_owned()),
    };
    ports
        .map(|port| (port.name.clone(), lost.clone()))
        .collect()
}

/// Requests `vcp-router setup` by creating a file in the service manager's directory.
struct Request {
    path: Option<PathBuf>,
    /// Time of the next request, and the pause after it.
    next: Option<(Instant, Duration)>,
}

impl Request {
    fn from_environment() -> Self {
        let directories = std::env::var("RUNTIME_DIRECTORY").unwrap_or_default();
        // Several directories are separated by `:` (systemd.exec(5)).
        let first = directories.split(':').next();
        let path = first.filter(|path| path.starts_with('/'));
        Self {
            path: path.map(|path| PathBuf::from(path).join(REQUEST)),
            next: None,
        }
    }

    /// Requests a repair immediately the first time, then with increasing pauses.
    fn repeat(&mut self, reason: &str, now: Instant) {
        let pause = match self.next {
            None => RETRY,
            Some((due, pause)) if due <= now => (pause * 2).min(LONGEST_RETRY),
            Some(_) => return,
        };
        self.next = Some((now + pause, pause));
        self.make(reason);
    }

    fn make(&self, reason: &str) {
        if let Some(path) = &self.path
            && let Err(error) = std::fs::write(path, format!("{reason}\n"))
        {
            log_line!("cannot ask for set-up by {}: {error}", path.display());
        }
    }
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the times between looks are this driver's own"
    )]
    Instant::now()
}

/// Interfaces to query, each with its index among the links.
pub(super) type Watches = Vec<(usize, Watch)>;
/// States of the interfaces that exist, by the same index.
pub(super) type Looks = Vec<(usize, LinkState)>;

/// The querying thread. After dropping this handle, the thread ends as soon as the kernel
/// returns.
#[derive(Debug)]
pub(super) struct Kernel {
    questions: SyncSender<(Watches, SyncSender<Looks>)>,
}

impl Kernel {
    /// Starts the thread, which queries by calling `look` and writes a byte to `waker` after
    /// each reply.
    pub(super) fn start(
        waker: UnixStream,
        look: impl Fn(&Watch) -> Option<LinkState> + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, asked) = mpsc::sync_channel::<(Watches, SyncSender<Looks>)>(1);
        let serve = move || {
            for (watches, reply) in asked {
                let looks = watches
                    .iter()
                    .filter_map(|(at, watch)| Some((*at, look(watch)?)));
                if reply.send(looks.collect()).is_ok() {
                    wake(&waker);
                }
            }
        };
        let thread = std::thread::Builder::new().name("interfaces".to_owned());
        thread.spawn(serve).map(|_| Self { questions })
    }

    /// Sends a query. The reply is in the receiver once the other end of `waker` is readable.
    /// `None`: an earlier query is still open.
    pub(super) fn ask(&self, watches: Watches) -> Option<Receiver<Looks>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.questions.try_send((watches, reply)).ok()?;
        Some(answer)
    }
}
