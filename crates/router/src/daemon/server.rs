//! The thread that talks to clients: status socket and metrics address, all clients at once.
//!
//! No client waits for another. Each has one deadline from its first moment to the last byte of its
//! answer; when there are too many, or no descriptor is left, the one that has been there longest
//! goes.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::desk::Counter;
use super::exchange::{Answer, Exchange, Protocol, Step, error_line};
use super::prometheus;
use super::query::Query;
use crate::tun::sys;

/// Clients at once.
const CLIENTS: usize = 512;
/// Time for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of answers that may wait for their readers, all together.
const UNREAD: usize = 64 << 20;
/// Pause before the next client is let in when there is no descriptor for it and none to free.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket on which clients knock.
#[derive(Debug)]
pub(super) enum Door {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Door {
    fn fd(&self) -> RawFd {
        match self {
            Self::Unix(listener) => listener.as_raw_fd(),
            Self::Tcp(listener) => listener.as_raw_fd(),
        }
    }

    fn accept(&self) -> io::Result<(Stream, Protocol)> {
        Ok(match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                (Stream::Unix(stream), Protocol::Line)
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                (Stream::Tcp(stream), Protocol::Http)
            }
        })
    }
}

/// A client's connection.
#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn fd(&self) -> RawFd {
        match self {
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tcp(stream) => stream.as_raw_fd(),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => (&mut &*stream).read(buffer),
            Self::Tcp(stream) => (&mut &*stream).read(buffer),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => (&mut &*stream).write_vectored(parts),
            Self::Tcp(stream) => (&mut &*stream).write_vectored(parts),
        }
    }

    fn end_of_answer(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

#[derive(Debug)]
struct Client {
    stream: Stream,
    exchange: Exchange,
    /// When it has to be done.
    until: Instant,
    answer: Option<Answer>,
    sent: usize,
    closed: bool,
}

impl Client {
    fn writes(&self) -> bool {
        self.answer
            .as_ref()
            .is_some_and(|answer| self.sent < answer.len())
    }

    fn poll(&self) -> libc::pollfd {
        match self.writes() {
            true => sys::writable(self.stream.fd()),
            false => sys::readable(self.stream.fd()),
        }
    }

    fn unread(&self) -> usize {
        let whole = self.answer.as_ref().map_or(0, Answer::len);
        whole.saturating_sub(self.sent)
    }

    /// Reads what has come; returns what the router has to be asked, if that is clear now.
    fn read(&mut self) -> Option<Query> {
        let mut buffer = [0; 2048];
        // Not for ever, so that others have their turn.
        for _ in 0..16 {
            let step = match self.stream.read(&mut buffer) {
                Ok(len) => self.exchange.receive(buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => Step::Close,
            };
            match step {
                Step::More => {}
                Step::Ask(query) => return Some(query),
                Step::Answer(answer) => {
                    self.give(answer);
                    return None;
                }
                Step::Close => {
                    self.closed = true;
                    return None;
                }
            }
        }
        None
    }

    fn give(&mut self, answer: Answer) {
        self.answer = Some(answer);
        self.write();
    }

    fn write(&mut self) {
        let Some(answer) = &self.answer else {
            return;
        };
        while self.sent < answer.len() {
            match self.stream.write(&answer.rest(self.sent).map(IoSlice::new)) {
                Ok(0) => self.closed = true,
                Ok(written) => {
                    self.sent += written;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.closed = true,
            }
            return;
        }
        // Bytes of its own that the client still sends must not destroy the answer on its way: it
        // is waited for.
        self.closed |= self.stream.end_of_answer().is_err();
    }
}

/// Serves clients until the process ends.
#[derive(Debug)]
pub(super) struct Server {
    doors: Vec<Door>,
    counter: Counter,
    /// Those that came first in front.
    clients: Vec<Client>,
    fds: Vec<libc::pollfd>,
    /// No client is let in before this.
    shut_until: Option<Instant>,
}

impl Server {
    pub(super) fn new(doors: Vec<Door>, counter: Counter) -> Self {
        Self {
            doors,
            counter,
            clients: Vec::new(),
            fds: Vec::new(),
            shut_until: None,
        }
    }

    /// Serves in a thread of its own. To be called once privileges are given up: a thread keeps
    /// those that it was born with.
    pub(super) fn start(mut self) -> io::Result<()> {
        if self.doors.is_empty() {
            return Ok(());
        }
        let serve = move || {
            loop {
                self.turn();
            }
        };
        std::thread::Builder::new()
            .name("status".to_owned())
            .spawn(serve)
            .map(drop)
    }

    fn turn(&mut self) {
        let start = now();
        let shut = self.shut_until.is_some_and(|until| until > start);
        let clients = self.clients.iter().map(Client::poll);
        self.fds.clear();
        self.fds.extend(clients);
        if !shut {
            let doors = self.doors.iter().map(|door| sys::readable(door.fd()));
            self.fds.extend(doors);
        }
        let deadlines = self.clients.iter().map(|client| client.until);
        let deadline = deadlines.chain(self.shut_until.filter(|_| shut)).min();
        let timeout = deadline.map(|until| until.saturating_duration_since(start));
        if sys::wait(&mut self.fds, timeout).is_err() {
            // No memory, perhaps: fewer clients need less.
            self.evict();
            self.shut_until = Some(now() + PAUSE);
            return;
        }
        let known = self.clients.len();
        let mut asked = Vec::new();
        for index in 0..known {
            if self.is_ready(index)
                && let Some(client) = self.clients.get_mut(index)
            {
                match client.writes() {
                    true => client.write(),
                    false => asked.extend(client.read().map(|query| (index, query))),
                }
            }
        }
        self.answer(asked);
        let knocks = (0..self.doors.len()).filter(|door| self.is_ready(known + door));
        let knocks: Vec<_> = knocks.collect();
        let end = now();
        self.clients
            .retain(|client| !client.closed && client.until > end);
        for door in knocks {
            self.admit(door, end);
        }
    }

    fn is_ready(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| fd.revents != 0)
    }

    /// Lets in who knocks. Their requests are read in the next turn, together.
    fn admit(&mut self, door: usize, now: Instant) {
        for _ in 0..CLIENTS / 4 {
            let Some(door) = self.doors.get(door) else {
                return;
            };
            match door.accept() {
                Ok((stream, protocol)) => {
                    if self.clients.len() >= CLIENTS {
                        self.evict();
                    }
                    self.clients.push(Client {
                        stream,
                        exchange: Exchange::new(protocol),
                        until: now + PATIENCE,
                        answer: None,
                        sent: 0,
                        closed: false,
                    });
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return,
                    Some(libc::EINTR | libc::ECONNABORTED) => {}
                    // No descriptor, or no memory, for another one.
                    _ if self.evict() => {}
                    _ => {
                        self.shut_until = Some(now + PAUSE);
                        return;
                    }
                },
            }
        }
    }

    /// Sends away the client that has been there longest. False if there is none.
    fn evict(&mut self) -> bool {
        let found = !self.clients.is_empty();
        if found {
            self.clients.remove(0);
        }
        found
    }

    /// Asks the router once for all who want to know the same.
    fn answer(&mut self, asked: Vec<(usize, Query)>) {
        if asked.is_empty() {
            return;
        }
        let mut told = Told::default();
        // First what changes something, so that whoever asks in the same moment is told of it.
        let (changes, questions): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .partition(|(_, query)| matches!(query, Query::Capacity(_)));
        for (index, query) in changes.into_iter().chain(questions) {
            let body = told.text(&self.counter, query);
            if let Some(client) = self.clients.get_mut(index) {
                let answer = client.exchange.answer(body);
                client.give(answer);
            }
        }
        // Answers that are not read are not kept without end.
        let mut unread: usize = self.clients.iter().map(Client::unread).sum();
        for client in &mut self.clients {
            if unread <= UNREAD {
                break;
            }
            unread -= client.unread();
            client.closed |= client.unread() > 0;
        }
    }
}

/// The router's answers of one turn.
#[derive(Debug, Default)]
struct Told {
    snapshot: Option<super::snapshot::Snapshot>,
    json: Option<Arc<str>>,
    metrics: Option<Arc<str>>,
}

impl Told {
    fn text(&mut self, counter: &Counter, query: Query) -> Option<Arc<str>> {
        if let Query::Capacity(hint) = query {
            let (port, bits) = (hint.port.clone(), hint.rate.map(|rate| rate.bits));
            let text = match counter.capacity(hint)? {
                true => {
                    serde_json::json!({ "port": port, "capacity_bps": bits }).to_string() + "\n"
                }
                false => error_line(&format!("no port is called `{port}`")),
            };
            return Some(text.into());
        }
        if self.snapshot.is_none() {
            self.snapshot = counter.snapshot().map(|mut snapshot| {
                snapshot.ask_kernel();
                snapshot
            });
        }
        let snapshot = self.snapshot.as_ref()?;
        if query == Query::Metrics {
            let text = self
                .metrics
                .get_or_insert_with(|| prometheus::render(snapshot).into());
            return Some(Arc::clone(text));
        }
        if self.json.is_none() {
            let text = serde_json::to_string(snapshot).ok()?;
            self.json = Some((text + "\n").into());
        }
        self.json.clone()
    }
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the deadlines of clients are this driver's own"
    )]
    Instant::now()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
