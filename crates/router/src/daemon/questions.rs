//! Clients' requests to the router, sent so that only the requesting clients wait.
//!
//! The forwarding thread has only one open request at a time: either a change, or a snapshot for
//! all clients that were waiting when it began. Later clients get a later snapshot. A request
//! without a reply within 1 s fails. If the kernel's state of interfaces takes longer than 0.5
//! s, it is omitted.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::assemble::Plan;
use super::exchange::{Hint, Query, error_line};
use super::snapshot::Snapshot;
use super::steering::{Kernel, Looks};
use super::{RunError, clear_wakes, prometheus, wake};
use crate::tun::{LinkState, Watch};

/// Time that the forwarding thread may take for a reply.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time that the kernel may take to report the interfaces.
const KERNEL: Duration = Duration::from_millis(500);

/// A waiting client.
#[derive(Debug)]
struct Asker {
    client: u64,
    query: Query,
    until: Instant,
}

/// The open request, with the receiver of its reply.
#[derive(Debug)]
enum Open {
    State(Receiver<Snapshot>),
    /// A snapshot without the kernel's state of interfaces, which may arrive until the deadline.
    Kernel(Box<Snapshot>, Receiver<Looks>, Instant),
    Change(String, Receiver<Taken>),
    Reload(Receiver<u64>),
}

/// Requests, and the clients that wait for their replies.
#[derive(Debug)]
pub(super) struct Questions {
    client: ControlClient,
    /// `None`: the kernel is not queried.
    kernel: Option<Kernel>,
    open: Option<Open>,
    /// Clients of the open request.
    pending: Vec<Asker>,
    /// Clients of the next requests, in order of arrival.
    waiting: Vec<Asker>,
}

/// A client's number and its reply; `None`: the router does not reply.
type Reply = (u64, Option<Arc<str>>);

impl Questions {
    pub(super) fn new(client: ControlClient) -> Self {
        Self {
            client,
            kernel: None,
            open: None,
            pending: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Starts a thread that queries the kernel by calling `look`.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub(super) fn ask_kernel(
        &mut self,
        look: impl Fn(&Watch) -> Option<LinkState> + Send + 'static,
    ) -> io::Result<()> {
        self.kernel = Some(Kernel::start(self.client.other_end()?, look)?);
        Ok(())
    }

    /// Adds a client's request; [`settle`](Self::settle) returns the reply.
    pub(super) fn ask(&mut self, client: u64, query: Query, now: Instant) {
        let until = now + PATIENCE;
        self.waiting.push(Asker {
            client,
            query,
            until,
        });
    }

    /// Becomes readable when a reply has arrived.
    pub(super) fn wake_fd(&self) -> RawFd {
        self.client.wake_fd().as_raw_fd()
    }

    /// The earliest deadline of a client or of the kernel.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = self.pending.iter().chain(&self.waiting);
        let kernel = match &self.open {
            Some(Open::Kernel(_, _, until)) => Some(*until),
            _ => None,
        };
        all.map(|asker| asker.until).chain(kernel).min()
    }

    /// Processes replies, fails requests whose deadline has passed, and sends the next request.
    /// Never waits.
    pub(super) fn settle(&mut self, now: Instant) -> Vec<Reply> {
        self.client.clear();
        let mut replies = Vec::new();
        loop {
            if let Some(open) = self.open.take() {
                match open.answer(now) {
                    Err(open) => self.open = Some(open),
                    Ok(Answer::State(state)) => {
                        if let Err(state) = self.look(state, now) {
                            Answer::State(state).reply(&mut self.pending, &mut replies);
                        }
                    }
                    Ok(answer) => answer.reply(&mut self.pending, &mut replies),
                }
            }
            if self.open.is_some() || !self.put() {
                break;
            }
        }
        for askers in [&mut self.pending, &mut self.waiting] {
            let late = askers.extract_if(.., |asker| asker.until <= now);
            replies.extend(late.map(|asker| (asker.client, None)));
        }
        if self.pending.is_empty() {
            // No client is left for its reply.
            self.open = None;
        }
        replies
    }

    /// Queries the kernel about the interfaces in `state`. Returns `state` if it has none, or if
    /// the kernel cannot be queried.
    fn look(&mut self, mut state: Box<Snapshot>, now: Instant) -> Result<(), Box<Snapshot>> {
        let watches = state.take_watches();
        if watches.is_empty() {
            return Err(state);
        }
        let asked = self.kernel.as_ref().and_then(|kernel| kernel.ask(watches));
        let Some(looks) = asked else {
            return Err(state);
        };
        // A client whose deadline passes first gets the snapshot without them.
        let patience = self.pending.iter().map(|asker| asker.until).min();
        let until = patience.map_or(now, |until| until.min(now + KERNEL));
        self.open = Some(Open::Kernel(state, looks, until));
        Ok(())
    }

    /// Sends the next request. Returns false if there is none, or the router has too many open.
    fn put(&mut self) -> bool {
        // Changes go first, so that a snapshot requested at the same time shows them.
        let changes = |asker: &Asker| matches!(asker.query, Query::Capacity(_) | Query::Reload);
        if let Some(index) = self.waiting.iter().position(changes) {
            let open = self
                .waiting
                .get(index)
                .and_then(|asker| match &asker.query {
                    Query::Capacity(hint) => {
                        let answer = self.client.capacity(hint.clone())?;
                        Some(Open::Change(hint.port.clone(), answer))
                    }
                    _ => self.client.reload().map(Open::Reload),
                });
            self.open = open;
            if self.open.is_some() {
                self.pending.push(self.waiting.remove(index));
            }
            return self.open.is_some();
        }
        if self.waiting.is_empty() {
            return false;
        }
        let Some(answer) = self.client.snapshot() else {
            return false;
        };
        self.open = Some(Open::State(answer));
        self.pending.append(&mut self.waiting);
        true
    }
}

enum Answer {
    State(Box<Snapshot>),
    Line(String),
    Nothing,
}

impl Open {
    /// The answer, or the request again if there is none yet.
    fn answer(self, now: Instant) -> Result<Answer, Self> {
        match self {
            Self::Kernel(mut state, looks, until) => match looks.try_recv() {
                Ok(looks) => {
                    state.add(looks);
                    Ok(Answer::State(state))
                }
                Err(TryRecvError::Empty) if now < until => Err(Self::Kernel(state, looks, until)),
                Err(_) => Ok(Answer::State(state)),
            },
            Self::State(answer) => match answer.try_recv() {
                Ok(snapshot) => Ok(Answer::State(Box::new(snapshot))),
                Err(TryRecvError::Empty) => Err(Self::State(answer)),
                Err(TryRecvError::Disconnected) => Ok(Answer::Nothing),
            },
            Self::Change(port, answer) => match answer.try_recv() {
                Ok(result) => Ok(Answer::Line(changed(&port, result))),
                Err(TryRecvError::Empty) => Err(Self::Change(port, answer)),
                Err(TryRecvError::Disconnected) => Ok(Answer::Nothing),
            },
            Self::Reload(answer) => match answer.try_recv() {
                Ok(reloads) => Ok(Answer::Line(format!("{{\"reloads\":{reloads}}}\n"))),
                Err(TryRecvError::Empty) => Err(Self::Reload(answer)),
                Err(TryRecvError::Disconnected) => Ok(Answer::Nothing),
            },
        }
    }
}

fn changed(port: &str, result: Taken) -> String {
    match result {
        Ok(bits) => serde_json::json!({ "port": port, "capacity_bps": bits }).to_string() + "\n",
        Err(error) => error_line(&error),
    }
}

impl Answer {
    /// Replies to every client in its format, rendering each text only once.
    fn reply(self, askers: &mut Vec<Asker>, replies: &mut Vec<Reply>) {
        let (mut json, mut metrics) = (None::<Arc<str>>, None::<Arc<str>>);
        let snapshot = match self {
            Self::State(snapshot) => snapshot,
            Self::Line(line) => {
                let line: Arc<str> = line.into();
                let all = askers.drain(..);
                replies.extend(all.map(|asker| (asker.client, Some(Arc::clone(&line)))));
                return;
            }
            Self::Nothing => {
                replies.extend(askers.drain(..).map(|asker| (asker.client, None)));
                return;
            }
        };
        for asker in askers.drain(..) {
            let text = match asker.query {
                Query::Metrics => {
                    metrics.get_or_insert_with(|| prometheus::render(&snapshot).into())
                }
                _ => json.get_or_insert_with(|| {
                    let text = serde_json::to_string(&snapshot);
                    text.map_or_else(|error| error_line(&error.to_string()), |text| text + "\n")
                        .into()
                }),
            };
            replies.push((asker.client, Some(Arc::clone(text))));
        }
    }
}

/// The reported capacity that a port's laws get, in bits per second (`None`: withdrawn), or an
/// error in one line if no law of the port takes it.
pub(super) type Taken = Result<Option<u64>, String>;

/// A request to the forwarding thread.
#[derive(Debug)]
pub(super) enum Request {
    /// Reply with the current state.
    Snapshot(SyncSender<Snapshot>),
    /// Take or withdraw the report of a port's capacity.
    Capacity(Hint, SyncSender<Taken>),
    /// Read the configuration again; the reply is the count of ended reloads, this one included.
    Reload(SyncSender<u64>),
    /// Apply the configuration that was read, or log why reading failed.
    Reloaded(Box<Result<Plan, RunError>>),
}

/// The forwarding thread's end: the requests, and a descriptor that becomes readable with each
/// of them. Writing a byte to the descriptor wakes the client's end.
#[derive(Debug)]
pub(super) struct ControlServer {
    requests: Receiver<Request>,
    wake_fd: UnixStream,
}

/// The end of the threads that serve clients and read configurations.
#[derive(Debug)]
pub(super) struct ControlClient {
    requests: SyncSender<Request>,
    waker: UnixStream,
    /// The other end of `waker`, for further threads that answer requests.
    other_end: UnixStream,
}

/// Both ends.
pub(super) fn pair() -> io::Result<(ControlServer, ControlClient)> {
    let (wake_fd, waker) = UnixStream::pair()?;
    wake_fd.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    let (sender, requests) = mpsc::sync_channel(4);
    let client = ControlClient {
        requests: sender,
        waker,
        other_end: wake_fd.try_clone()?,
    };
    Ok((ControlServer { requests, wake_fd }, client))
}

impl ControlServer {
    pub(super) fn wake_fd(&self) -> &UnixStream {
        &self.wake_fd
    }

    /// The pending requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        clear_wakes(&self.wake_fd);
        self.requests.try_iter()
    }

    /// Wakes the client's end after a reply.
    pub(super) fn answered(&self) {
        wake(&self.wake_fd);
    }
}

impl ControlClient {
    /// Clones this end for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            requests: self.requests.clone(),
            waker: self.waker.try_clone()?,
            other_end: self.other_end.try_clone()?,
        })
    }

    /// Hands over the configuration that was read, or the error.
    fn reloaded(&self, result: Result<Plan, RunError>) {
        let request = Request::Reloaded(Box::new(result));
        // Sending fails if the forwarding thread has ended.
        if self.requests.send(request).is_ok() {
            wake(&self.waker);
        }
    }

    /// Sends a request without waiting. The reply is in the receiver once
    /// [`wake_fd`](Self::wake_fd) is readable. `None`: too many requests are open.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<Receiver<T>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.requests.try_send(request(reply)).ok()?;
        wake(&self.waker);
        Some(answer)
    }

    pub(super) fn snapshot(&self) -> Option<Receiver<Snapshot>> {
        self.ask(Request::Snapshot)
    }

    pub(super) fn capacity(&self, hint: Hint) -> Option<Receiver<Taken>> {
        self.ask(|reply| Request::Capacity(hint, reply))
    }

    pub(super) fn reload(&self) -> Option<Receiver<u64>> {
        self.ask(Request::Reload)
    }

    /// Becomes readable when a reply has arrived.
    pub(super) fn wake_fd(&self) -> &UnixStream {
        &self.waker
    }

    /// Returns a descriptor for another thread that answers requests. Writing a byte to it makes
    /// [`wake_fd`](Self::wake_fd) readable.
    pub(super) fn other_end(&self) -> io::Result<UnixStream> {
        self.other_end.try_clone()
    }

    /// Clears pending wake-ups.
    pub(super) fn clear(&self) {
        clear_wakes(&self.waker);
    }

    /// Runs `read` and hands over its result, or [`RunError::Unread`] if `read` panics.
    pub(super) fn read(self, read: impl FnOnce() -> Result<Plan, RunError>) {
        let mut on_panic = ReportUnread(Some(self));
        let result = read();
        if let Some(client) = on_panic.0.take() {
            client.reloaded(result);
        }
    }
}

/// Reports [`RunError::Unread`] if it is dropped before its client is taken.
struct ReportUnread(Option<ControlClient>);

impl Drop for ReportUnread {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            client.reloaded(Err(RunError::Unread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this report, the reload would count as running forever and block all later ones.
    #[test]
    fn a_reload_that_panics_is_reported() {
        let (server, client) = pair().unwrap();
        let reader = std::thread::spawn(move || client.read(|| panic!("a defect")));
        assert!(reader.join().is_err());
        let requests: Vec<_> = server.requests().collect();
        let failed = matches!(requests.as_slice(), [Request::Reloaded(result)]
            if matches!(**result, Err(RunError::Unread)));
        assert!(failed, "{requests:?}");
    }
}
