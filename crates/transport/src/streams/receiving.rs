//! The connection's half of receiving: the window and the memory that streams share, data
//! that is refused when memory is short, and requests for it.

use std::sync::Arc;

use pathmark_cc::{Duration, Instant};

use super::{
    ClosedStream, ReadError, ReceiveMemory, ReceiveWindow, RecvError, RecvPart, SentFrames,
    StreamEvent, StreamId, StreamsConfig,
    asking::Asking,
    event::Events,
    memory::{FLOOR, MemoryAccount},
    record::{Buffered, Record},
    sent::{ConnectionFrames, room_for},
};
use crate::wire::{
    Frame, TransportError, TransportErrorCode as Code, WriteError, Writer,
    frame::{FrameType, ResetStream, Stream, types},
};

/// Memory of a small stream, for an estimate of how many are accepted next.
const A_STREAM: u64 = 1024;

/// Bytes beyond what was consumed up to which credit grows for a reader that waits: less than the
/// default memory keeps of one connection.
const STRETCHED: u64 = 12 << 20;

/// The fate of a STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    /// It was taken in.
    Taken,
    /// There was no memory for it.
    Refused,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// Credit for the peer, on all streams together.
    window: ReceiveWindow,
    /// MAX_DATA is to be sent in any case.
    max_data_due: bool,
    /// Memory of received data.
    memory: MemoryAccount,
    /// Data that was refused for want of it.
    asking: Asking,
    /// Bytes that the application could read now, of all streams.
    readable: u64,
    rtt: Option<Duration>,
}

impl Receiving {
    pub(super) fn new(config: &StreamsConfig) -> Self {
        Self {
            window: ReceiveWindow::new(config.initial_connection_window, config.max_window),
            max_data_due: false,
            memory: MemoryAccount::default(),
            asking: Asking::default(),
            readable: 0,
            rtt: None,
        }
    }

    /// The receive window of the connection as a whole, bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window.window()
    }

    /// Sets it; it does not grow by itself from then on.
    pub(super) fn set_window(&mut self, bytes: u64) {
        self.window.set(bytes);
    }

    /// True while that window is smaller than the rate at which the application reads asks for: by
    /// `max_window`, or for want of memory.
    pub(crate) fn is_limited(&self) -> bool {
        self.window.is_limited()
    }

    /// Takes memory for received data out of what connections share.
    pub(super) fn share(&mut self, memory: Arc<ReceiveMemory>) {
        self.memory.share(memory);
    }

    /// The smoothed RTT, for windows that grow by it.
    pub(super) fn on_rtt(&mut self, smoothed: Duration) {
        self.rtt = Some(smoothed);
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// STREAM, which is not [refused](Self::refuses).
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        record: &mut Record,
        frame: &Stream<'_>,
        events: &mut Events,
    ) -> Result<(), TransportError> {
        let Some(recv) = record.recv.as_mut() else {
            return Ok(());
        };
        let (rtt, offset, data) = (self.rtt, frame.offset, frame.data);
        let before = recv.kept();
        let awaited = record.read_blocked && recv.keeps(offset, data.len());
        recv.on_data(now, rtt, offset, data, frame.fin, &mut self.window)
            .map_err(|error| to_transport(error, types::STREAM))?;
        let after = recv.kept();
        if awaited && after.readable == 0 {
            recv.on_held_up(data.len(), &mut self.window);
        }
        self.on_kept(before, after);
        self.after_arrival((frame.id, record), events);
        Ok(())
    }

    /// RESET_STREAM.
    pub(super) fn on_reset(
        &mut self,
        now: Instant,
        record: &mut Record,
        frame: &ResetStream,
        events: &mut Events,
    ) -> Result<(), TransportError> {
        let Some(recv) = record.recv.as_mut() else {
            return Ok(());
        };
        let (rtt, code, size) = (self.rtt, frame.error_code, frame.final_size);
        let before = recv.kept();
        recv.on_reset(now, rtt, code, size, &mut self.window)
            .map_err(|error| to_transport(error, types::RESET_STREAM))?;
        let after = recv.kept();
        self.on_kept(before, after);
        self.after_arrival((frame.id, record), events);
        Ok(())
    }

    /// Tells the reader, and renews credit.
    fn after_arrival(&mut self, (id, record): (StreamId, &mut Record), events: &mut Events) {
        if record.reader_waits && record.recv.as_ref().is_some_and(RecvPart::is_readable) {
            record.reader_waits = false;
            record.end_wait(&mut self.asking.readers);
            events.push(StreamEvent::Readable(id));
        }
        offer_credit(record);
    }

    /// The application reads a stream by `read`.
    pub(super) fn read<T>(
        &mut self,
        record: &mut Record,
        read: impl FnOnce(&mut RecvPart, &mut ReceiveWindow) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let recv = record.recv.as_mut().ok_or(ReadError::Closed)?;
        let before = recv.kept();
        let result = read(recv, &mut self.window);
        let after = recv.kept();
        self.on_kept(before, after);
        match result {
            Ok(Some(_)) => offer_credit(record),
            Err(ReadError::Blocked) => {
                record.reader_waits = true;
                if !record.read_blocked {
                    record.read_blocked = true;
                    self.asking.readers += 1;
                    self.asking.on_progress();
                }
            }
            _ => {}
        }
        result
    }

    /// The application stops a stream with `code`.
    pub(super) fn stop(&mut self, record: &mut Record, code: u64) -> Result<(), ClosedStream> {
        let recv = record.recv.as_mut().ok_or(ClosedStream)?;
        let before = recv.kept();
        record.due.stop = recv.stop(code, &mut self.window)?;
        let after = recv.kept();
        record.end_wait(&mut self.asking.readers);
        self.on_kept(before, after);
        Ok(())
    }

    /// Drops the receiving part of a stream if it is done.
    pub(super) fn forget_if_done(&mut self, record: &mut Record) {
        if record.recv.as_ref().is_some_and(RecvPart::is_done) {
            record.end_wait(&mut self.asking.readers);
            let before = record.recv.take().map_or(Buffered::default(), |r| r.kept());
            self.readable = self.readable.saturating_sub(before.readable);
            let earned = self.window.earned();
            self.memory.change(before.memory, 0, earned);
        }
    }

    /// A stream keeps `after` now and kept `before`.
    fn on_kept(&mut self, before: Buffered, after: Buffered) {
        let earned = self.window.earned();
        self.readable = (self.readable + after.readable).saturating_sub(before.readable);
        self.memory.change(before.memory, after.memory, earned);
        // Unread data of some streams takes no credit from others.
        self.window
            .set_cap(self.memory.promise(earned), self.readable);
        if after.readable < before.readable {
            self.asking.on_progress();
        }
    }

    /// True if a frame's data is not to be kept, since memory is scarce. The application accepts
    /// `ahead` streams before this one: [`Opening::ahead_of`](super::opening::Opening::ahead_of).
    pub(super) fn refuses(
        &mut self,
        now: Instant,
        record: &Record,
        frame: &Stream<'_>,
        ahead: Option<u64>,
    ) -> bool {
        let refuses = self.is_scarce(now) && self.has_no_place_for(record, frame, ahead);
        if refuses {
            self.asking.on_refused();
        }
        refuses
    }

    fn is_scarce(&mut self, now: Instant) -> bool {
        self.holds_all_it_may() && {
            self.window.measure(now, self.rtt);
            self.holds_all_it_may()
        }
    }

    fn has_no_place_for(&self, record: &Record, frame: &Stream<'_>, ahead: Option<u64>) -> bool {
        record.recv.as_ref().is_some_and(|recv| {
            if !recv.keeps(frame.offset, frame.data.len()) {
                return false;
            }
            // What the application waits for is always taken, or nothing could ever end the
            // shortage: the next bytes of streams that it tried to read, and of any stream while
            // there is nothing to read at all. Of a stream that has something to read, some more:
            // the application may just not have had its turn to read what came before in the same
            // batch, and the sender takes what is refused for lost. Of no other: the first byte may
            // take a whole block.
            let kept = recv.kept();
            let waits = (record.read_blocked && kept.readable == 0)
                || self.readable == 0
                || (kept.readable > 0 && self.readable < FLOOR);
            !recv.is_next(frame.offset) || (self.has_no_room(ahead) && !waits)
        })
    }

    /// True if memory is too short for data in order that the application does not wait for. The
    /// streams that it accepts next have a place that others leave: an application that reads a
    /// stream after the other would get one for each round trip.
    fn has_no_room(&self, ahead: Option<u64>) -> bool {
        let earned = self.window.earned();
        if ahead.is_some_and(|ahead| ahead < self.memory.allowed(earned) / A_STREAM) {
            self.memory.is_full(earned)
        } else {
            self.memory.is_out(earned)
        }
    }

    /// A packet was not acknowledged since data was refused.
    pub(crate) fn on_refused(&self) {
        self.memory.on_refused();
    }

    /// Before packets are built. True if the peer is to be asked for data that was refused: it has
    /// a place now.
    pub(crate) fn prepare(&mut self, now: Instant) -> bool {
        if self.holds_up_a_reader() {
            self.window.stretch(FLOOR, STRETCHED);
        }
        self.has_a_place() && self.asking.take(now, self.rtt)
    }

    /// True if [`prepare`](Self::prepare) is to be called, since the application has read or waits.
    pub(super) fn wants_preparation(&self) -> bool {
        (self.asking.is_wanted() && self.has_a_place()) || self.holds_up_a_reader()
    }

    /// True if some of what was refused would be taken.
    fn has_a_place(&self) -> bool {
        self.asking.readers > 0 || self.readable == 0 || !self.holds_all_it_may()
    }

    /// True if the application waits for a stream while the peer has spent its credit on others.
    fn holds_up_a_reader(&self) -> bool {
        self.asking.readers > 0 && self.memory.is_shared() && self.window.is_used_up(STRETCHED)
    }

    /// True if the connection holds all the memory that it may.
    pub(crate) fn holds_all_it_may(&self) -> bool {
        self.memory.is_scarce(self.window.earned())
    }

    /// Arrivals that the connection keeps outside of streams take `after` bytes, and took `before`.
    pub(crate) fn on_other_memory(&mut self, before: usize, after: usize) {
        self.memory.change(before, after, self.window.earned());
    }

    /// DATA_BLOCKED.
    pub(super) fn on_data_blocked(&mut self, limit: u64) {
        self.window.on_peer_blocked(limit);
    }

    /// True if MAX_DATA is due.
    pub(super) fn has_frame(&self) -> bool {
        self.max_data_due || self.window.update_due()
    }

    /// Writes it, if it fits.
    pub(super) fn write(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        if self.has_frame() {
            room_for(w, 9)?;
            Frame::MaxData(self.window.announce(now, self.rtt)).encode(w)?;
            self.max_data_due = false;
            sent.insert(ConnectionFrames::MAX_DATA);
        }
        Ok(())
    }

    /// The packet with these frames was lost.
    pub(super) fn on_lost(&mut self, lost: ConnectionFrames) {
        self.max_data_due |= lost.contains(ConnectionFrames::MAX_DATA);
    }
}

/// STREAM_DATA_BLOCKED, of a limit of `limit`.
pub(super) fn on_stream_blocked(record: &mut Record, limit: u64) {
    if let Some(recv) = record.recv.as_mut() {
        recv.window_mut().on_peer_blocked(limit);
        offer_credit(record);
    }
}

/// MAX_STREAM_DATA may be due.
fn offer_credit(record: &mut Record) {
    record.due.max_data |= record.recv.as_ref().is_some_and(RecvPart::update_due);
}

fn to_transport(error: RecvError, frame: FrameType) -> TransportError {
    let code = match error {
        RecvError::FinalSize => Code::FINAL_SIZE_ERROR,
        RecvError::StreamLimit | RecvError::ConnectionLimit => Code::FLOW_CONTROL_ERROR,
    };
    TransportError::new(code, error.to_string()).in_frame(frame)
}

#[cfg(test)]
#[path = "receiving_tests.rs"]
mod tests;
