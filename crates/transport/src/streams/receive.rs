//! Frames that arrive.

use pathmark_cc::Instant;

use super::{
    Dir, ReceiveWindow, RecvError, RecvPart, SendPart, StreamEvent, StreamId, Streams,
    account::{STREAM_FLOOR, mostly_gone},
    record::{Buffered, Record, Turn},
    slot,
};
use crate::wire::{
    TransportError, TransportErrorCode as Code,
    frame::{FrameType, MaxStreamData, ResetStream, StopSending, Stream, StreamDataBlocked, types},
};

/// What became of a STREAM frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    /// It was taken in.
    Taken,
    /// There was no memory for it.
    Refused,
}

impl Streams {
    /// STREAM. [`Arrival::Refused`] if memory is so short that its data must not be kept, although
    /// the peer was promised room: its packet must not be acknowledged, so that the peer sends it
    /// again.
    ///
    /// # Errors
    /// The error that ends the connection: flow control, final size, stream limit or stream state.
    pub fn on_stream(
        &mut self,
        now: Instant,
        frame: &Stream<'_>,
    ) -> Result<Arrival, TransportError> {
        if !self.resolve_recv(frame.id, types::STREAM)? {
            return Ok(Arrival::Taken);
        }
        if self.memory_is_scarce(now) && self.refuses(frame) {
            self.asking.on_refused();
            return Ok(Arrival::Refused);
        }
        let rtt = self.rtt;
        let Some(record) = self.records.get_mut(&frame.id) else {
            return Ok(Arrival::Taken);
        };
        let Some(recv) = record.recv.as_mut() else {
            return Ok(Arrival::Taken);
        };
        let before = recv.kept();
        let awaited = record.read_blocked && recv.keeps(frame.offset, frame.data.len());
        recv.on_data(
            now,
            rtt,
            frame.offset,
            frame.data,
            frame.fin,
            &mut self.window,
        )
        .map_err(|error| to_transport(error, types::STREAM))?;
        let after = recv.kept();
        if awaited && after.readable == 0 {
            recv.on_held_up(frame.data.len(), &mut self.window);
        }
        self.on_kept(before, after);
        self.after_arrival(frame.id);
        Ok(Arrival::Taken)
    }

    /// RESET_STREAM.
    ///
    /// # Errors
    /// As [`on_stream`](Self::on_stream).
    pub fn on_reset_stream(
        &mut self,
        now: Instant,
        frame: &ResetStream,
    ) -> Result<(), TransportError> {
        if !self.resolve_recv(frame.id, types::RESET_STREAM)? {
            return Ok(());
        }
        let rtt = self.rtt;
        let record = self.records.get_mut(&frame.id);
        let Some(recv) = record.and_then(|record| record.recv.as_mut()) else {
            return Ok(());
        };
        let before = recv.kept();
        recv.on_reset(
            now,
            rtt,
            frame.error_code,
            frame.final_size,
            &mut self.window,
        )
        .map_err(|error| to_transport(error, types::RESET_STREAM))?;
        let after = recv.kept();
        self.on_kept(before, after);
        self.after_arrival(frame.id);
        Ok(())
    }

    /// STOP_SENDING: the sending part is reset with the peer's code (RFC 9000 §3.5).
    ///
    /// # Errors
    /// Stream limit or stream state.
    pub fn on_stop_sending(&mut self, frame: &StopSending) -> Result<(), TransportError> {
        if !self.resolve_send(frame.id, types::STOP_SENDING)? {
            return Ok(());
        }
        let record = self.records.get_mut(&frame.id);
        let Some(send) = record.and_then(|record| record.send.as_mut()) else {
            return Ok(());
        };
        let dropped = send.unacked();
        if send.on_stop_sending(frame.error_code) {
            self.events
                .push_back(StreamEvent::Stopped(frame.id, frame.error_code));
            self.on_reset_by_us(frame.id, dropped);
        }
        Ok(())
    }

    /// MAX_DATA.
    pub fn on_max_data(&mut self, max: u64) {
        if self.credit.raise(max) {
            self.unpark();
        }
    }

    /// MAX_STREAM_DATA.
    ///
    /// # Errors
    /// Stream limit or stream state.
    pub fn on_max_stream_data(&mut self, frame: &MaxStreamData) -> Result<(), TransportError> {
        if self.resolve_send(frame.id, types::MAX_STREAM_DATA)? {
            self.raise_stream(frame.id, frame.max);
        }
        Ok(())
    }

    /// MAX_STREAMS.
    pub fn on_max_streams(&mut self, dir: Dir, max: u64) {
        if let Some(local) = self.local.get_mut(slot(dir))
            && local.raise(max)
        {
            self.events.push_back(StreamEvent::Available(dir));
        }
        self.release_held(dir);
    }

    /// DATA_BLOCKED.
    pub fn on_data_blocked(&mut self, limit: u64) {
        self.window.on_peer_blocked(limit);
    }

    /// STREAM_DATA_BLOCKED.
    ///
    /// # Errors
    /// Stream limit or stream state.
    pub fn on_stream_data_blocked(
        &mut self,
        frame: &StreamDataBlocked,
    ) -> Result<(), TransportError> {
        if self.resolve_recv(frame.id, types::STREAM_DATA_BLOCKED)? {
            let record = self.records.get_mut(&frame.id);
            if let Some(recv) = record.and_then(|record| record.recv.as_mut()) {
                recv.window_mut().on_peer_blocked(frame.limit);
                self.offer_stream_credit(frame.id);
            }
        }
        Ok(())
    }

    /// STREAMS_BLOCKED.
    pub fn on_streams_blocked(&mut self, dir: Dir, limit: u64) {
        if let Some(remote) = self.remote.get_mut(slot(dir)) {
            remote.on_peer_blocked(limit);
        }
    }

    /// A frame for our receiving part: true if the stream exists, false if it is done and
    /// forgotten.
    fn resolve_recv(&mut self, id: StreamId, frame: FrameType) -> Result<bool, TransportError> {
        // [9000 19.4 send-only]
        if id.dir() == Dir::Uni && id.initiator() == self.side {
            let reason = "the peer sends on a stream that only we may send on";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        self.resolve(id, frame)
    }

    /// The same for our sending part.
    fn resolve_send(&mut self, id: StreamId, frame: FrameType) -> Result<bool, TransportError> {
        // [9000 19.5 receive-only]
        if id.dir() == Dir::Uni && id.initiator() != self.side {
            let reason = "the peer speaks of our sending on a stream that only it may send on";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        self.resolve(id, frame)
    }

    fn resolve(&mut self, id: StreamId, frame: FrameType) -> Result<bool, TransportError> {
        if self.records.contains_key(&id) {
            return Ok(true);
        }
        let slot = slot(id.dir());
        if id.initiator() == self.side {
            if self
                .local
                .get(slot)
                .is_some_and(|local| id.index() < local.opened())
            {
                return Ok(false);
            }
            // [9000 19.5 not-created]
            let reason = "a frame for a stream that we have not opened";
            return Err(TransportError::new(Code::STREAM_STATE_ERROR, reason).in_frame(frame));
        }
        let Some(remote) = self.remote.get_mut(slot) else {
            return Ok(false);
        };
        let opened = remote.on_index(id.index()).map_err(|_| {
            let reason = "more streams than we allowed";
            TransportError::new(Code::STREAM_LIMIT_ERROR, reason).in_frame(frame)
        })?;
        // [9000 13.3 outdated-frames]
        if opened.is_empty() {
            return Ok(false);
        }
        for index in opened {
            if let Some(id) = StreamId::new(self.side.peer(), id.dir(), index) {
                self.insert(id);
            }
        }
        if let Some(waits) = self.acceptor_waits.get_mut(slot)
            && core::mem::take(waits)
        {
            self.events.push_back(StreamEvent::Opened(id.dir()));
        }
        Ok(true)
    }

    /// A new stream, with the parts that are ours.
    pub(super) fn insert(&mut self, id: StreamId) {
        let ours = id.initiator() == self.side;
        let both = id.dir() == Dir::Bi;
        let send = (ours || both).then(|| SendPart::new(self.initial_credit(id)));
        let recv = (!ours || both).then(|| {
            let (initial, max) = (self.config.initial_stream_window, self.config.max_window);
            RecvPart::new(ReceiveWindow::new(initial, max))
        });
        self.records.insert(id, Box::new(Record::new(send, recv)));
    }

    /// What the peer's transport parameters let us send on a stream.
    pub(super) fn initial_credit(&self, id: StreamId) -> u64 {
        match (id.dir(), id.initiator() == self.side) {
            (Dir::Uni, _) => self.peer.max_stream_data_uni,
            (Dir::Bi, true) => self.peer.max_stream_data_bidi_remote,
            (Dir::Bi, false) => self.peer.max_stream_data_bidi_local,
        }
    }

    /// The peer lets us send up to `max` on a stream.
    pub(super) fn raise_stream(&mut self, id: StreamId, max: u64) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let Some(send) = record.send.as_mut() else {
            return;
        };
        send.on_max_stream_data(max);
        let room = self.account.room(send.unacked());
        if record.writer_waits && room.min(send.useful(STREAM_FLOOR)) > 0 {
            record.writer_waits = false;
            self.events.push_back(StreamEvent::Writable(id));
        }
        self.settle_send(id);
    }

    /// Streams that waited for the connection's credit are scheduled again.
    fn unpark(&mut self) {
        while let Some(id) = self.parked.pop_front() {
            let Some(record) = self.records.get_mut(&id) else {
                continue;
            };
            record.in_parked = false;
            if record.turn == Turn::Parked {
                record.turn = Turn::None;
                self.settle_send(id);
            }
        }
    }

    /// Streams that are gone leave the queues before these hold many of them.
    fn leave_queues(&mut self) {
        let records = &self.records;
        let live = records.len();
        let is_live = |id: &StreamId| records.contains_key(id);
        self.schedule.forget_gone(live, is_live);
        self.account.forget_gone(live, is_live);
        for queue in [&mut self.parked, &mut self.control] {
            if mostly_gone(queue.len(), live) {
                queue.retain(is_live);
            }
        }
    }

    /// Tells the reader, renews credit, forgets the stream if that was its end.
    fn after_arrival(&mut self, id: StreamId) {
        if let Some(record) = self.records.get_mut(&id)
            && record.reader_waits
            && record.recv.as_ref().is_some_and(RecvPart::is_readable)
        {
            record.reader_waits = false;
            record.end_wait(&mut self.asking.readers);
            self.events.push_back(StreamEvent::Readable(id));
        }
        self.offer_stream_credit(id);
        self.forget_if_done(id);
    }

    /// Drops parts that are done, and the stream with the last of them.
    pub(super) fn forget_if_done(&mut self, id: StreamId) {
        self.ready = None;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        // [9000 4.4 other-direction]
        if record.send.as_ref().is_some_and(SendPart::is_done) {
            record.send = None;
        }
        if record.recv.as_ref().is_some_and(RecvPart::is_done) {
            record.end_wait(&mut self.asking.readers);
            let before = record.recv.take().map_or(Buffered::default(), |r| r.kept());
            self.readable = self.readable.saturating_sub(before.readable);
            self.memory.change(before.memory, 0, self.window.earned());
        }
        if record.send.is_none() && record.recv.is_none() {
            self.records.remove(&id);
            self.leave_queues();
            if id.initiator() != self.side
                && let Some(remote) = self.remote.get_mut(slot(id.dir()))
            {
                remote.on_closed();
            }
        }
    }
}

fn to_transport(error: RecvError, frame: FrameType) -> TransportError {
    let code = match error {
        RecvError::FinalSize => Code::FINAL_SIZE_ERROR,
        RecvError::StreamLimit | RecvError::ConnectionLimit => Code::FLOW_CONTROL_ERROR,
    };
    TransportError::new(code, error.to_string()).in_frame(frame)
}
