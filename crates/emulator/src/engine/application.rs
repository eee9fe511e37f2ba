//! The sending application.

use bytes::Bytes;
use pathmark_cc::Instant;
use pathmark_transport::Connection;
use pathmark_transport::connection::Event;
use pathmark_transport::streams::{Dir, StreamEvent, StreamId};

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
    #[inline]
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
