//! The receiving application: takes all there is, at once, and looks at none of it.

use pathmark_cc::Instant;
use pathmark_transport::Connection;
use pathmark_transport::connection::Event;
use pathmark_transport::streams::{Dir, ReadError, StreamEvent, StreamId};

/// Reads one stream.
#[derive(Debug, Default)]
pub(super) struct Sink {
    stream: Option<StreamId>,
    delivered: u64,
    completed: Option<Instant>,
}

impl Sink {
    /// Takes what the connection has for the application.
    pub(super) fn react(&mut self, now: Instant, connection: &mut Connection) {
        let mut readable = false;
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Stream(StreamEvent::Opened(Dir::Uni)) => {
                    while let Some(id) = connection.streams().accept(Dir::Uni) {
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
                Ok(Some(len)) => self.delivered += len,
                Ok(None) => {
                    self.completed = Some(now);
                    self.stream = None;
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

    /// Bytes that the application got.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When everything had come, the end of the stream included.
    pub(super) fn completed(&self) -> Option<Instant> {
        self.completed
    }
}
