//! The receiving application, which reads all data immediately and ignores its contents.

use pathmark_cc::Instant;
use pathmark_transport::Connection;
use pathmark_transport::connection::Event;
use pathmark_transport::streams::{ReadError, StreamEvent, StreamId};

use super::http;
use crate::scenario::{App, Connects};

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
