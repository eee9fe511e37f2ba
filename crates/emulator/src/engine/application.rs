//! The applications of a flow: a source, which writes the data, and a sink, which reads all data
//! immediately and ignores its contents.

use bytes::Bytes;
use pathmark_cc::Instant;
use pathmark_transport::Connection;
use pathmark_transport::connection::Event;
use pathmark_transport::streams::{Dir, ReadError, StreamEvent, StreamId};

use super::http;
use super::pattern::Ticks;
use crate::scenario::{App, Connects};

/// The data of all applications: zeros, which packets in the pool need not store. The buffer
/// fits into the innermost cache.
static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// Writes its data to one stream. Each write is bounded by the stream's room or its [`Ticks`].
/// The source ends after its number of bytes, if it has one, or when the flow stops.
#[derive(Debug)]
pub(super) struct Source {
    app: App,
    connects: Connects,
    /// Bytes that are not written yet, including HTTP's; `None` if there is no end.
    left: Option<u64>,
    /// The times when there is something to write; `None`: always.
    ticks: Option<Ticks>,
    /// Bytes available for writing by now.
    allowed: u64,
    stop: Option<Instant>,
    stream: Option<StreamId>,
    /// When the data of an HTTP message start.
    begins: Option<Instant>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No stream yet, or no data for it yet.
    Connecting,
    /// There may be room to write.
    Writing,
    /// The send buffer is full.
    Blocked,
    /// Everything is written.
    Written,
    /// Nothing more to do.
    Over,
}

impl Source {
    /// Creates an application with `bytes` to send, either at once or as they become available.
    pub(super) fn new(
        app: App,
        connects: Connects,
        bytes: Option<u64>,
        stop: Option<Instant>,
        ticks: Option<Ticks>,
    ) -> Self {
        let around = |content| match app {
            App::Bulk => content,
            App::Http => http::message(content),
        };
        Self {
            app,
            connects,
            left: bytes.map(around),
            allowed: if ticks.is_some() { around(0) } else { u64::MAX },
            ticks,
            stop,
            stream: None,
            begins: None,
            state: State::Connecting,
        }
    }

    /// Its next deadline, apart from the connection's.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.state == State::Over {
            return None;
        }
        let tick = self.ticks.as_ref().map(Ticks::deadline);
        let tick = tick.filter(|_| self.left != Some(0));
        [self.stop, tick, self.begins].into_iter().flatten().min()
    }

    /// Performs all actions that are possible at `now`.
    pub(super) fn react(&mut self, now: Instant, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected if self.app == App::Http => {
                    http::begin(connection);
                    if self.connects == Connects::Sender {
                        self.stream = connection.streams().open(Dir::Bi).ok();
                        self.begins = Some(now + http::OPENING);
                    }
                }
                Event::Connected => {
                    self.stream = connection.streams().open(Dir::Uni).ok();
                    self.begin(connection);
                }
                Event::Stream(StreamEvent::Opened(Dir::Bi)) if self.stream.is_none() => {
                    self.stream = connection.streams().accept(Dir::Bi);
                    self.begins = Some(now + http::OPENING);
                }
                Event::Stream(StreamEvent::Writable(_)) if self.state == State::Blocked => {
                    self.state = State::Writing;
                }
                Event::Stream(StreamEvent::Finished(_)) => self.close(now, connection),
                Event::Lost(_) => self.state = State::Over,
                _ => {}
            }
        }
        if self.state != State::Over && self.stop.is_some_and(|stop| stop <= now) {
            self.close(now, connection);
        }
        if let Some(ticks) = &mut self.ticks {
            self.allowed = self.allowed.saturating_add(ticks.take(now));
        }
        if self.begins.is_some_and(|begins| begins <= now) {
            self.begins = None;
            self.begin(connection);
        }
        if self.state == State::Writing {
            self.write(connection);
        }
    }

    fn begin(&mut self, connection: &mut Connection) {
        // A source with its own rate has no size to announce.
        if let (Some(id), Some(left), None) = (self.stream, self.left, &self.ticks) {
            let _ = connection.streams().announce(id, left);
        }
        if self.state == State::Connecting {
            self.state = State::Writing;
        }
    }

    fn write(&mut self, connection: &mut Connection) {
        let Some(id) = self.stream else {
            return;
        };
        loop {
            let most = self
                .left
                .map_or(self.allowed, |left| left.min(self.allowed));
            let wanted = usize::try_from(most).unwrap_or(usize::MAX).min(ZEROS.len());
            if self.left == Some(0) {
                // Fails only if the connection is over, which an event reports.
                let _ = connection.streams().finish(id);
                self.state = State::Written;
                return;
            }
            if wanted == 0 {
                return;
            }
            let mut data = Bytes::from_static(ZEROS.get(..wanted).unwrap_or(&ZEROS));
            match connection.streams().write_bytes(id, &mut data) {
                Ok(written) => {
                    if let Some(left) = &mut self.left {
                        *left = left.saturating_sub(written as u64);
                    }
                    if self.ticks.is_some() {
                        self.allowed = self.allowed.saturating_sub(written as u64);
                    }
                }
                Err(_) => {
                    self.state = State::Blocked;
                    return;
                }
            }
        }
    }

    fn close(&mut self, now: Instant, connection: &mut Connection) {
        connection.close(now, 0, Bytes::new());
        self.state = State::Over;
    }
}

/// Reads one stream.
#[derive(Debug, Default)]
pub(super) struct Sink {
    app: App,
    connects: Connects,
    stream: Option<StreamId>,
    /// Bytes of the stream that have arrived.
    arrived: u64,
    delivered: u64,
    completed: Option<Instant>,
    /// Numbers of bytes, in ascending order, and the time when each was reached.
    milestones: Vec<u64>,
    reached: Vec<Instant>,
}

impl Sink {
    /// Records when each of these numbers of bytes has arrived.
    pub(super) fn new(app: App, connects: Connects, milestones: Vec<u64>) -> Self {
        Self {
            app,
            connects,
            reached: Vec::with_capacity(milestones.len()),
            milestones,
            ..Self::default()
        }
    }

    /// Reads the connection's data for the application.
    pub(super) fn react(&mut self, now: Instant, connection: &mut Connection) {
        let mut readable = false;
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected if self.app == App::Http => {
                    http::begin(connection);
                    if self.connects == Connects::Receiver {
                        self.stream = http::request(connection);
                    }
                }
                Event::Stream(StreamEvent::Opened(dir)) if dir == self.app.direction() => {
                    while let Some(id) = connection.streams().accept(dir) {
                        self.stream.get_or_insert(id);
                        readable = true;
                    }
                }
                Event::Stream(StreamEvent::Readable(_)) => readable = true,
                _ => {}
            }
        }
        if let (true, Some(id)) = (readable, self.stream) {
            self.read(now, connection, id);
        }
    }

    fn read(&mut self, now: Instant, connection: &mut Connection, id: StreamId) {
        loop {
            match connection.streams().skip(id) {
                Ok(Some(len)) => {
                    self.arrived += len;
                    self.delivered = match self.app {
                        App::Bulk => self.arrived,
                        App::Http => http::content(self.arrived),
                    };
                    self.note(now);
                }
                Ok(None) => {
                    self.completed = Some(now);
                    self.stream = None;
                    if (self.app, self.connects) == (App::Http, Connects::Sender) {
                        http::respond(connection, id);
                    }
                    return;
                }
                Err(ReadError::Blocked) => return,
                Err(_) => {
                    self.stream = None;
                    return;
                }
            }
        }
    }

    fn note(&mut self, now: Instant) {
        while let Some(next) = self.milestones.get(self.reached.len())
            && *next <= self.delivered
        {
            self.reached.push(now);
        }
    }

    /// Each milestone, with the time when it was reached, if it was.
    pub(super) fn milestones(&self) -> impl Iterator<Item = (u64, Option<Instant>)> {
        let reached = |(place, bytes): (usize, &u64)| (*bytes, self.reached.get(place).copied());
        self.milestones.iter().enumerate().map(reached)
    }

    /// Bytes delivered to the application.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When everything had arrived, including the end of the stream.
    pub(super) fn completed(&self) -> Option<Instant> {
        self.completed
    }
}
