//! The receiving application, which reads all data immediately and ignores its contents.
//!
//! The bytes that HTTP/3 sends in addition to a file's content, in the sizes and the order of the
//! project's own server and client. They matter because a control law sees them first: each end
//! writes its control streams immediately after connecting, so the first packets of a file's sender
//! belong to an application that has nothing more to send yet.
//!
//! Packets without a connection, which are sent at their times regardless of losses.

use std::net::SocketAddr;

use bytes::Bytes;

use super::capture::Forger;
use super::source::Ticks;
use crate::scenario::{App, Connects};
use pathmark_cc::{Duration, Instant};
use pathmark_transport::connection::{Event, Transmit};
use pathmark_transport::streams::{Dir, ReadError, StreamEvent, StreamId};
use pathmark_transport::{Connection, Ecn};

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
                    begin(connection);
                    if self.connects == Connects::Receiver {
                        self.stream = request(connection);
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
                        App::Http => content(self.arrived),
                    };
                    self.note(now);
                }
                Ok(None) => {
                    self.completed = Some(now);
                    self.stream = None;
                    if (self.app, self.connects) == (App::Http, Connects::Sender) {
                        respond(connection, id);
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

/// Bytes that each end writes to its control stream (type and SETTINGS), and to the QPACK
/// encoder and decoder streams (types), in the order in which it opens them.
const CONTROL: [usize; 3] = [26, 1, 1];
/// Bytes of a request's HEADERS frame.
const REQUEST: usize = 120;
/// Bytes of a HEADERS frame before content.
const HEAD: usize = 240;
/// Content of a DATA frame.
const FRAME: u64 = 16 * 1024;
/// Bytes of its type and length.
const FRAME_HEAD: u64 = 5;
/// Time from the request, or from the start of an upload, to the first bytes of the file. The
/// server needs it for reading the request and opening the file, while its control streams
/// already leave.
pub(super) const OPENING: Duration = Duration::from_millis(1);

static ZEROS: [u8; 256] = [0; 256];

/// Writes the control streams.
pub(super) fn begin(connection: &mut Connection) {
    for bytes in CONTROL {
        if let Ok(id) = connection.streams().open(Dir::Uni) {
            write(connection, id, bytes);
        }
    }
}

/// Sends a request, and returns the stream of its response.
pub(super) fn request(connection: &mut Connection) -> Option<StreamId> {
    let id = connection.streams().open(Dir::Bi).ok()?;
    write(connection, id, REQUEST);
    end(connection, id);
    Some(id)
}

/// Ends an upload with a response.
pub(super) fn respond(connection: &mut Connection, id: StreamId) {
    write(connection, id, HEAD);
    end(connection, id);
}

/// A new stream has room for messages of this size. If the connection is over, an event reports
/// it.
fn write(connection: &mut Connection, id: StreamId, bytes: usize) {
    let mut data = Bytes::from_static(ZEROS.get(..bytes).unwrap_or(&ZEROS));
    let _ = connection.streams().write_bytes(id, &mut data);
}

fn end(connection: &mut Connection, id: StreamId) {
    let _ = connection.streams().finish(id);
}

/// Bytes on a stream for a message with this much content.
pub(super) const fn message(content: u64) -> u64 {
    let frames = content.div_ceil(FRAME);
    (HEAD as u64)
        .saturating_add(content)
        .saturating_add(FRAME_HEAD * frames)
}

/// The content in the first bytes of a message.
pub(super) const fn content(message: u64) -> u64 {
    let framed = message.saturating_sub(HEAD as u64);
    let (frames, rest) = (framed / (FRAME + FRAME_HEAD), framed % (FRAME + FRAME_HEAD));
    frames * FRAME + rest.saturating_sub(FRAME_HEAD)
}

/// Sends packets of one size.
#[derive(Debug)]
pub(super) struct Emitter {
    ticks: Ticks,
    /// UDP payload of each packet.
    payload: u16,
    stop: Option<Instant>,
    forger: Option<Forger>,
    due: u64,
    sent: u64,
    over: bool,
}

impl Emitter {
    pub(super) fn new(ticks: Ticks, payload: u16, stop: Option<Instant>) -> Self {
        Self {
            ticks,
            payload,
            stop,
            forger: None,
            due: 0,
            sent: 0,
            over: false,
        }
    }

    /// Puts a shim in front of each packet.
    pub(super) fn with_shims(mut self, forger: Option<Forger>) -> Self {
        self.forger = forger;
        self
    }

    /// The hash of the flow to which packets sent now claim to belong.
    pub(super) fn flow_hash(&self, now: Instant, own: u32) -> u32 {
        let forger = self.forger.as_ref();
        forger.map_or(own, |forger| forger.flow_hash(now, own))
    }

    /// When [`on_time`](Self::on_time) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.over).then(|| self.ticks.deadline())
    }

    /// Creates the packets that are due.
    pub(super) fn on_time(&mut self, now: Instant) {
        if self.stop.is_some_and(|stop| stop <= now) {
            self.over = true;
        } else if self.ticks.take(now) > 0 {
            // A tick is a packet, and the agenda stops at each tick.
            self.due += 1;
        }
    }

    /// Returns packets to send now. They contain zeros, which no router mistakes for a shim,
    /// after a forged shim if there is one.
    pub(super) fn poll_transmit(
        &mut self,
        remote: SocketAddr,
        buffer: &mut [u8],
        batch: usize,
    ) -> Option<Transmit> {
        let segment = usize::from(self.payload).max(1);
        let count = usize::try_from(self.due)
            .unwrap_or(batch)
            .min(batch)
            .min(buffer.len() / segment);
        if count == 0 {
            return None;
        }
        self.due -= count as u64;
        self.sent += count as u64;
        let len = count * segment;
        let batch = buffer.get_mut(..len)?;
        batch.fill(0);
        if let Some(forger) = &self.forger {
            for datagram in batch.chunks_mut(segment) {
                forger.write(datagram);
            }
        }
        Some(Transmit {
            remote,
            local: None,
            ecn: Ecn::NotEct,
            len,
            segment_size: segment,
        })
    }

    /// Packets sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod http_tests {
    use super::*;

    #[test]
    fn a_message_has_its_content() {
        for bytes in [0, 1, FRAME - 1, FRAME, FRAME + 1, 5_000_000] {
            assert_eq!(content(message(bytes)), bytes);
        }
        assert_eq!(message(1), HEAD as u64 + FRAME_HEAD + 1);
        assert_eq!(content(HEAD as u64 + FRAME_HEAD), 0);
    }
}
