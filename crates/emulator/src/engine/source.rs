//! The sending application.

use bytes::Bytes;
use pathmark_cc::Instant;
use pathmark_transport::Connection;
use pathmark_transport::connection::Event;
use pathmark_transport::streams::{Dir, StreamEvent, StreamId};

use super::pattern::Ticks;

/// What applications send: zeros, which packets need not carry. Few enough to stay in the innermost
/// cache.
static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

/// Writes to one stream. The stream's room or its [`Ticks`] bound each write. The source ends after
/// its number of bytes, if it has one, or when the flow stops.
#[derive(Debug)]
pub(super) struct Source {
    /// Bytes not yet written; `None` if there is no end of them.
    left: Option<u64>,
    /// When there is something to write; `None`: always.
    ticks: Option<Ticks>,
    /// Bytes that there are to write by now.
    allowed: u64,
    stop: Option<Instant>,
    stream: Option<StreamId>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No stream yet.
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
    /// An application with `bytes` to send, all at once or as they come.
    pub(super) fn new(bytes: Option<u64>, stop: Option<Instant>, ticks: Option<Ticks>) -> Self {
        Self {
            left: bytes,
            allowed: if ticks.is_some() { 0 } else { u64::MAX },
            ticks,
            stop,
            stream: None,
            state: State::Connecting,
        }
    }

    /// Its next deadline, whatever the connection does.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.state == State::Over {
            return None;
        }
        let tick = self.ticks.as_ref().map(Ticks::deadline);
        match (self.stop, tick.filter(|_| self.left != Some(0))) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does what it can at `now`.
    pub(super) fn react(&mut self, now: Instant, connection: &mut Connection) {
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => {
                    self.stream = connection.streams().open(Dir::Uni).ok();
                    // A source with its own rate has no size to announce.
                    if let (Some(id), Some(left), None) = (self.stream, self.left, &self.ticks) {
                        let _ = connection.streams().announce(id, left);
                    }
                    self.state = State::Writing;
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
        if self.state == State::Writing {
            self.write(connection);
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
                // Fails only if the connection is over, as an event says.
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
