//! The thread that serves clients of the status socket and of the metrics address.
//!
//! No client waits for another. A client waits for the forwarding thread or the kernel only if
//! its request needs them. Each client has one deadline, from its connection to the last byte of
//! its answer. If there are more than 512 clients, or no descriptor is left, the oldest client
//! is closed.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::exchange::{Answer, Exchange, Protocol, Query, Step};
use super::questions::{ControlClient, Questions};
use crate::tun::{Watch, sys};

/// Clients at once.
const CLIENTS: usize = 512;
/// Time for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of answers that may wait for their readers, in total.
const UNREAD: usize = 64 << 20;
/// Pause before the next accept if no descriptor is left and none can be freed, and before the
/// next wait if a wait has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that accepts clients.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
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
    /// Increases with each client.
    id: u64,
    stream: Stream,
    exchange: Exchange,
    /// The deadline.
    until: Instant,
    /// True while the router has not replied yet.
    waits: bool,
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
            // A waiting client may have closed its sending side, so only a full hang-up counts.
            _ if self.waits => sys::hung_up(self.stream.fd()),
            true => sys::writable(self.stream.fd()),
            false => sys::readable(self.stream.fd()),
        }
    }

    fn unread(&self) -> usize {
        let whole = self.answer.as_ref().map_or(0, Answer::len);
        whole.saturating_sub(self.sent)
    }

    /// Reads what has arrived; returns the request for the router once it is complete.
    fn read(&mut self) -> Option<Query> {
        let mut buffer = [0; 2048];
        // At most 16 reads, so that other clients get their turn.
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
        // If the client still sends bytes, closing now would cause a reset, which destroys the
        // answer in transit. Therefore the client must close first.
        self.closed |= self.stream.end_of_answer().is_err();
    }
}

/// Serves clients until the process ends.
#[derive(Debug)]
pub(super) struct Server {
    listeners: Vec<Listener>,
    questions: Questions,
    /// The number of the newest client.
    id: u64,
    /// Oldest first.
    clients: Vec<Client>,
    fds: Vec<libc::pollfd>,
    /// No client is accepted before this.
    shut_until: Option<Instant>,
}

impl Server {
    pub(super) fn new(listeners: Vec<Listener>, client: ControlClient) -> Self {
        Self {
            listeners,
            questions: Questions::new(client),
            id: 0,
            clients: Vec::new(),
            fds: Vec::new(),
            shut_until: None,
        }
    }

    /// Serves in a separate thread. Call this after giving up privileges, because a thread keeps
    /// those that it starts with.
    pub(super) fn start(mut self) -> io::Result<()> {
        if self.listeners.is_empty() {
            return Ok(());
        }
        let look = |watch: &Watch| watch.look().ok().flatten();
        self.questions.ask_kernel(look)?;
        let serve = move || {
            loop {
                if self.turn().is_err() {
                    // Memory may be short, and fewer clients need less of it. The failed wait
                    // returned immediately, so a pause is necessary.
                    self.evict();
                    pause();
                }
            }
        };
        std::thread::Builder::new()
            .name("status".to_owned())
            .spawn(serve)
            .map(drop)
    }

    /// Waits for an event, and handles it.
    fn turn(&mut self) -> io::Result<()> {
        let start = now();
        let shut = self.shut_until.is_some_and(|until| until > start);
        let clients = self.clients.iter().map(Client::poll);
        self.fds.clear();
        self.fds.extend(clients);
        self.fds.push(sys::readable(self.questions.wake_fd()));
        if !shut {
            let fds = self.listeners.iter().map(Listener::fd);
            self.fds.extend(fds.map(sys::readable));
        }
        let deadlines = self.clients.iter().map(|client| client.until);
        let others = [self.shut_until.filter(|_| shut), self.questions.deadline()];
        let deadline = deadlines.chain(others.into_iter().flatten()).min();
        let timeout = deadline.map(|until| until.saturating_duration_since(start));
        sys::wait(&mut self.fds, timeout)?;
        let known = self.clients.len();
        let begin = now();
        for index in 0..known {
            if self.is_ready(index)
                && let Some(client) = self.clients.get_mut(index)
            {
                match client.writes() {
                    _ if client.waits => client.closed = true,
                    true => client.write(),
                    false => {
                        if let Some(query) = client.read() {
                            client.waits = true;
                            self.questions.ask(client.id, query, begin);
                        }
                    }
                }
            }
        }
        self.answer(begin);
        let ready = (0..self.listeners.len()).filter(|index| self.is_ready(known + 1 + index));
        let ready: Vec<_> = ready.collect();
        let end = now();
        self.clients
            .retain(|client| !client.closed && client.until > end);
        for index in ready {
            self.admit(index, end);
        }
        Ok(())
    }

    fn is_ready(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| fd.revents != 0)
    }

    /// Accepts waiting clients. Their requests are read together in the next turn.
    fn admit(&mut self, index: usize, now: Instant) {
        for _ in 0..CLIENTS / 4 {
            let Some(listener) = self.listeners.get(index) else {
                return;
            };
            match listener.accept() {
                Ok((stream, protocol)) => {
                    if self.clients.len() >= CLIENTS {
                        self.evict();
                    }
                    self.id += 1;
                    self.clients.push(Client {
                        id: self.id,
                        stream,
                        exchange: Exchange::new(protocol),
                        until: now + PATIENCE,
                        waits: false,
                        answer: None,
                        sent: 0,
                        closed: false,
                    });
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return,
                    Some(libc::EINTR | libc::ECONNABORTED) => {}
                    // No descriptor or no memory is left for another client.
                    _ if self.evict() => {}
                    _ => {
                        self.shut_until = Some(now + PAUSE);
                        return;
                    }
                },
            }
        }
    }

    /// Closes the oldest client. Returns false if there is none.
    fn evict(&mut self) -> bool {
        let found = !self.clients.is_empty();
        if found {
            self.clients.remove(0);
        }
        found
    }

    /// Sends open requests to the router, and distributes its replies.
    fn answer(&mut self, now: Instant) {
        for (id, body) in self.questions.settle(now) {
            let place = self.clients.binary_search_by_key(&id, |client| client.id);
            // The client may have left in the meantime.
            if let Some(client) = place.ok().and_then(|place| self.clients.get_mut(place)) {
                client.waits = false;
                let answer = client.exchange.answer(body);
                client.give(answer);
            }
        }
        // Unread answers may take at most `UNREAD` bytes.
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

fn pause() {
    #[expect(
        clippy::disallowed_methods,
        reason = "waiting for descriptors has failed: there is nothing else to wait for"
    )]
    std::thread::sleep(PAUSE);
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
