//! The connection's half of receiving: the window and the memory that all streams share.

use std::sync::Arc;

use pathmark_cc::{Duration, Instant};

use super::memory::MemoryAccount;
use super::sent::{ConnectionFrames, room_for};
use super::{
    Buffered, ClosedStream, Events, ReadError, ReceiveMemory, ReceiveWindow, Record, RecvError,
    RecvPart, SentFrames, StreamEvent, StreamId, StreamsConfig,
};
use crate::wire::{
    Frame, TransportError, TransportErrorCode as Code, WriteError, Writer,
    frame::{FrameType, ResetStream, Stream, types},
};

/// Additional credit for a reader that waits while other streams have used up the connection's.
/// The peer is informed which streams these are. The credit is replenished as the reader reads.
const STRETCH: u64 = 16 * 1024;

/// Maximum additional credit at a time, in case the peer uses it for other streams.
const STRETCHED: u64 = 64 * 1024;

/// Maximum window of a stream, in eighths of the connection's window, so that an unread stream
/// leaves some credit for others.
const OF_A_STREAM: u64 = 7;

/// What the peer may send on all streams together.
///
/// Arrived data uses the window up. The application gives it back by reading, and so does a reset,
/// or a stream that it no longer reads. Its growth is limited by the endpoint's memory.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// The peer's credit for all streams together.
    window: ReceiveWindow,
    /// Whether MAX_DATA must be sent even if the limit is unchanged.
    max_data_due: bool,
    memory: MemoryAccount,
    /// Number of streams on which the application waits for data.
    readers: u32,
    /// The window that the application has set.
    wanted: u64,
    /// Bytes that the application could read now, on all streams.
    readable: u64,
    rtt: Option<Duration>,
}

impl Receiving {
    pub(super) fn new(config: &StreamsConfig) -> Self {
        Self {
            window: ReceiveWindow::new(config.initial_connection_window, config.max_window),
            max_data_due: false,
            memory: MemoryAccount::default(),
            readers: 0,
            wanted: 0,
            readable: 0,
            rtt: None,
        }
    }

    /// Returns the receive window of the whole connection, bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window.window()
    }

    /// Sets the window, which doesn't grow automatically anymore.
    pub(super) fn set_window(&mut self, bytes: u64) {
        self.window.set(bytes);
        self.wanted = bytes;
        self.limit_window();
    }

    /// Returns the memory that the connection may take beyond its base, if others leave that
    /// much.
    fn earned(&self) -> u64 {
        self.window.earned().max(self.wanted)
    }

    /// Returns true while `max_window` or lack of memory keeps the window smaller than the
    /// application's reading rate requires.
    pub(crate) fn is_limited(&self) -> bool {
        self.window.is_limited()
    }

    /// Uses memory shared with other connections for received data.
    pub(super) fn share(&mut self, memory: Arc<ReceiveMemory>) {
        self.memory.share(memory, self.window.outstanding());
    }

    pub(super) fn on_rtt(&mut self, smoothed: Duration) {
        self.rtt = Some(smoothed);
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

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

    /// Wakes the reader, and renews credit.
    fn after_arrival(&mut self, (id, record): (StreamId, &mut Record), events: &mut Events) {
        if record.reader_waits && record.recv.as_ref().is_some_and(RecvPart::is_readable) {
            record.reader_waits = false;
            record.end_wait(&mut self.readers);
            events.push(StreamEvent::Readable(id));
        }
        self.offer_credit(record);
    }

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
            Ok(Some(_)) => self.offer_credit(record),
            Err(ReadError::Blocked) => {
                record.reader_waits = true;
                if !record.read_blocked {
                    record.read_blocked = true;
                    self.readers += 1;
                }
            }
            _ => {}
        }
        result
    }

    pub(super) fn stop(&mut self, record: &mut Record, code: u64) -> Result<(), ClosedStream> {
        let recv = record.recv.as_mut().ok_or(ClosedStream)?;
        let before = recv.kept();
        record.due.stop = recv.stop(code, &mut self.window)?;
        let after = recv.kept();
        record.end_wait(&mut self.readers);
        self.on_kept(before, after);
        Ok(())
    }

    /// Removes the receiving part of a stream if it is done.
    pub(super) fn forget_if_done(&mut self, record: &mut Record) {
        if record.recv.as_ref().is_some_and(RecvPart::is_done) {
            record.end_wait(&mut self.readers);
            let before = record.recv.take().map_or(Buffered::default(), |r| r.kept());
            self.readable = self.readable.saturating_sub(before.readable);
            let earned = self.earned();
            self.memory.change(before.memory, 0, earned);
        }
    }

    /// Updates the totals after the data kept for a stream changed from `before` to `after`.
    fn on_kept(&mut self, before: Buffered, after: Buffered) {
        let earned = self.earned();
        self.readable = (self.readable + after.readable).saturating_sub(before.readable);
        self.memory.change(before.memory, after.memory, earned);
        self.limit_window();
    }

    /// Updates the memory account with the connection's promises, and limits further promises
    /// to the memory available.
    fn limit_window(&mut self) {
        let earned = self.earned();
        self.memory.promise(self.window.outstanding(), earned);
        let cap = self.memory.window(earned);
        // Unread data of some streams should not use up the credit of others.
        let half = self.window.window().min(cap) / 2;
        let extra = match self.readable.saturating_sub(half) {
            0 => 0,
            extra => extra.min(self.memory.for_unread()),
        };
        self.window.set_cap(cap, extra);
    }

    /// Schedules MAX_STREAM_DATA if it is due.
    fn offer_credit(&self, record: &mut Record) {
        if let Some(recv) = record.recv.as_mut() {
            let most = self.window.allowed() / 8 * OF_A_STREAM;
            recv.window_mut().set_cap(most, 0);
            record.due.max_data |= recv.update_due();
        }
    }

    pub(super) fn on_stream_blocked(&self, record: &mut Record, limit: u64) {
        if let Some(recv) = record.recv.as_mut() {
            recv.window_mut().on_peer_blocked(limit);
            self.offer_credit(record);
        }
    }

    /// Grants some more credit, before packets are built, while a reader is [held
    /// up](Self::holds_up_a_reader) because the peer has spent its credit on other streams.
    pub(super) fn stretch(&mut self) {
        let most = self.most();
        self.window.stretch(STRETCH, most);
    }

    /// Returns true if the application waits for a stream while the peer has spent its credit
    /// on others.
    pub(super) fn holds_up_a_reader(&self) -> bool {
        self.readers > 0 && self.memory.is_shared() && self.window.is_used_up(self.most())
    }

    /// Returns the maximum credit beyond the bytes consumed that a waiting reader justifies.
    fn most(&self) -> u64 {
        let window = self.memory.window(self.earned());
        window
            .saturating_add(self.memory.for_unread())
            .saturating_add(STRETCHED)
    }

    /// Returns true if the connection uses all the memory that it may.
    pub(crate) fn holds_all_it_may(&self) -> bool {
        self.memory.is_out(self.earned())
    }

    /// Records that data kept outside of streams now takes `after` bytes instead of `before`.
    pub(crate) fn on_other_memory(&mut self, before: usize, after: usize) {
        self.memory.change(before, after, self.earned());
    }

    pub(super) fn on_data_blocked(&mut self, limit: u64) {
        self.window.on_peer_blocked(limit);
    }

    /// Returns true if MAX_DATA is due.
    pub(super) fn has_frame(&self) -> bool {
        self.max_data_due || self.window.update_due()
    }

    /// Writes MAX_DATA if it is due and fits.
    pub(super) fn write(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        if self.has_frame() {
            room_for(w, 9)?;
            let max = self.window.announce(now, self.rtt);
            self.limit_window();
            Frame::MaxData(max).encode(w)?;
            self.max_data_due = false;
            sent.insert(ConnectionFrames::MAX_DATA);
        }
        Ok(())
    }

    pub(super) fn on_lost(&mut self, lost: ConnectionFrames) {
        self.max_data_due |= lost.contains(ConnectionFrames::MAX_DATA);
    }
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
