//! What the application asks of its streams.

use bytes::Bytes;

use super::{
    ClosedStream, Dir, FinishError, OpenError, ReadError, RecvPart, StreamEvent, StreamId, Streams,
    WriteError, account::STREAM_FLOOR, record::Turn, slot,
};

impl Streams {
    /// Opens a stream. The peer learns of it with the first frame.
    ///
    /// # Errors
    /// [`OpenError::Limit`] if as many are open as the peer allows.
    pub fn open(&mut self, dir: Dir) -> Result<StreamId, OpenError> {
        let index = match self.local.get_mut(slot(dir)) {
            Some(local) => local.open(),
            None => None,
        };
        let id = index
            .and_then(|index| StreamId::new(self.side, dir, index))
            .ok_or(OpenError::Limit(dir))?;
        self.insert(id);
        Ok(id)
    }

    /// True while the application waits to open a stream, after [`OpenError::Limit`].
    #[must_use]
    pub fn waits_to_open(&self) -> bool {
        self.local.iter().any(super::LocalStreams::is_blocked)
    }

    /// The application waits no longer to open a stream of this kind.
    pub fn give_up_opening(&mut self, dir: Dir) {
        if let Some(local) = self.local.get_mut(slot(dir)) {
            local.give_up();
        }
    }

    /// Sets how many streams of one kind the peer may have open at once, in place of
    /// [`StreamsConfig::max_bidi_streams`](super::StreamsConfig::max_bidi_streams) or
    /// [`max_uni_streams`](super::StreamsConfig::max_uni_streams). What was promised before stays:
    /// a lower number holds as streams end.
    pub fn set_max_concurrent(&mut self, dir: Dir, streams: u64) {
        if let Some(remote) = self.remote.get_mut(slot(dir)) {
            remote.set_concurrent(streams);
        }
    }

    /// The next stream that the peer opened, lowest first. After `None`, [`StreamEvent::Opened`]
    /// says when to ask again.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let index = self.remote.get_mut(slot(dir))?.accept();
        if let (None, Some(waits)) = (index, self.acceptor_waits.get_mut(slot(dir))) {
            *waits = true;
        }
        StreamId::new(self.side.peer(), dir, index?)
    }

    /// Copies data to the end of a stream; returns how many bytes there was room for, at least one
    /// unless `data` is empty.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let room = self.writable(id, data.len())?;
        let taken = data.get(..room).unwrap_or(data);
        if let Some(send) = self.records.get_mut(&id).and_then(|r| r.send.as_mut()) {
            send.write(taken);
        }
        self.on_written(id, taken.len());
        Ok(taken.len())
    }

    /// Moves data from the front of `data` to the end of a stream, without copying it; returns how
    /// many bytes there was room for, at least one unless `data` is empty.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let room = self.writable(id, data.len())?;
        let taken = data.split_to(room.min(data.len()));
        let len = taken.len();
        if let Some(send) = self.records.get_mut(&id).and_then(|r| r.send.as_mut()) {
            send.push(taken);
        }
        self.on_written(id, len);
        Ok(len)
    }

    /// Says that everything was written. [`StreamEvent::Finished`] tells when the peer has it.
    ///
    /// # Errors
    /// [`FinishError`].
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let send = self.records.get_mut(&id).and_then(|r| r.send.as_mut());
        let finished = send.map_or(Err(WriteError::Closed), super::SendPart::finish);
        finished.map_err(|error| match error {
            WriteError::Stopped(code) => FinishError::Stopped(code),
            WriteError::Blocked | WriteError::Closed => FinishError::Closed,
        })?;
        self.settle_send(id);
        Ok(())
    }

    /// Gives up sending: what was not delivered yet may never be, and the peer reads `code`.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        let dropped = send.unacked();
        send.reset(code)?;
        self.on_reset_by_us(id, dropped);
        Ok(())
    }

    /// Sets which streams send first: higher before lower, equals in turn. 0 at first.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.set_priority(priority);
        Ok(())
    }

    /// Says that about `bytes` more will be written. Routers are then asked for no rate that this
    /// does not need.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn announce(&mut self, id: StreamId, bytes: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.announce(bytes);
        Ok(())
    }

    /// The priority of a stream.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        let record = self.records.get(&id).ok_or(ClosedStream)?;
        let send = record.send.as_ref().ok_or(ClosedStream)?;
        Ok(send.priority())
    }

    /// Copies received data into `out`; returns how much, at least one byte unless `out` is empty.
    /// `None` at the end of the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let record = self.records.get_mut(&id).ok_or(ReadError::Closed)?;
        let recv = record.recv.as_mut().ok_or(ReadError::Closed)?;
        let before = recv.kept();
        let result = recv.read(out, &mut self.window);
        let after = recv.kept();
        self.on_kept(before, after);
        self.after_read(id, result)
    }

    /// The next piece of received data, at most `max` bytes, without copying it. `None` at the end
    /// of the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        let record = self.records.get_mut(&id).ok_or(ReadError::Closed)?;
        let recv = record.recv.as_mut().ok_or(ReadError::Closed)?;
        let before = recv.kept();
        let result = recv.read_chunk(max, &mut self.window);
        let after = recv.kept();
        self.on_kept(before, after);
        self.after_read(id, result)
    }

    /// Drops all received data that can be read, and returns how much: for measurements without
    /// use for the bytes. From then on data is not kept where that is not needed to count it, and
    /// [`read`](Self::read) and [`read_chunk`](Self::read_chunk) fail. `None` at the end of the
    /// stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn skip(&mut self, id: StreamId) -> Result<Option<u64>, ReadError> {
        let record = self.records.get_mut(&id).ok_or(ReadError::Closed)?;
        let recv = record.recv.as_mut().ok_or(ReadError::Closed)?;
        let before = recv.kept();
        let result = recv.skip(&mut self.window);
        let after = recv.kept();
        self.on_kept(before, after);
        self.after_read(id, result)
    }

    /// The application error code with which the peer reset a stream: reported once, as by
    /// [`read`](Self::read), and the receiving part is done. After `None`,
    /// [`StreamEvent::Readable`] says when to ask again, also where only data arrived.
    ///
    /// # Errors
    /// [`ClosedStream`] if the peer cannot reset it any more: all data has arrived, or this side
    /// stopped the stream.
    pub fn received_reset(&mut self, id: StreamId) -> Result<Option<u64>, ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let recv = record.recv.as_mut().ok_or(ClosedStream)?;
        let reset = recv.received_reset()?;
        record.reader_waits |= reset.is_none();
        self.forget_if_done(id);
        Ok(reset)
    }

    /// Wants no more of a stream: what is buffered or arrives is discarded, and the peer is asked
    /// to stop with `code`.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let recv = record.recv.as_mut().ok_or(ClosedStream)?;
        let before = recv.kept();
        record.due.stop = recv.stop(code, &mut self.window)?;
        let after = recv.kept();
        record.end_wait(&mut self.asking.readers);
        self.on_kept(before, after);
        self.queue_control(id);
        self.forget_if_done(id);
        Ok(())
    }

    /// How many of `wanted` bytes may be written now.
    fn writable(&mut self, id: StreamId, wanted: usize) -> Result<usize, WriteError> {
        let record = self.records.get_mut(&id).ok_or(WriteError::Closed)?;
        let send = record.send.as_mut().ok_or(WriteError::Closed)?;
        send.check_writable()?;
        if wanted == 0 {
            return Ok(0);
        }
        let shared = self.account.room(send.unacked());
        let room = shared.min(send.useful(STREAM_FLOOR));
        if room == 0 {
            record.writer_waits = true;
            if shared == 0 && !record.in_waiting {
                record.in_waiting = true;
                self.account.wait(id);
            }
            return Err(WriteError::Blocked);
        }
        Ok(usize::try_from(room).unwrap_or(usize::MAX).min(wanted))
    }

    fn on_written(&mut self, id: StreamId, len: usize) {
        self.account.unacked += len as u64;
        self.settle_send(id);
    }

    fn after_read<T>(
        &mut self,
        id: StreamId,
        result: Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match &result {
            Ok(Some(_)) => self.offer_stream_credit(id),
            Ok(None) | Err(ReadError::Reset(_)) => self.forget_if_done(id),
            Err(ReadError::Blocked) => {
                if let Some(record) = self.records.get_mut(&id) {
                    record.reader_waits = true;
                    if !record.read_blocked {
                        record.read_blocked = true;
                        self.asking.readers += 1;
                        self.asking.on_progress();
                    }
                }
            }
            Err(_) => {}
        }
        result
    }

    /// Queues MAX_STREAM_DATA if it is due.
    pub(super) fn offer_stream_credit(&mut self, id: StreamId) {
        if let Some(record) = self.records.get_mut(&id)
            && !record.due.max_data
            && record.recv.as_ref().is_some_and(RecvPart::update_due)
        {
            record.due.max_data = true;
            self.queue_control(id);
        }
    }

    /// The sending part was reset, by the application or by STOP_SENDING, and `dropped` bytes with
    /// it.
    pub(super) fn on_reset_by_us(&mut self, id: StreamId, dropped: u64) {
        self.account.unacked = self.account.unacked.saturating_sub(dropped);
        if let Some(record) = self.records.get_mut(&id) {
            record.due.reset = true;
            record.due.data_blocked = false;
            record.writer_waits = false;
        }
        self.queue_control(id);
        self.settle_send(id);
        self.wake_writers();
    }

    /// Puts a stream where its sending part belongs now: into the schedule, among the stalled, or
    /// nowhere.
    pub(super) fn settle_send(&mut self, id: StreamId) {
        self.ready = None;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let Some(send) = record.send.as_mut() else {
            return;
        };
        let stalled = send.is_stalled();
        if stalled != record.stalled {
            record.stalled = stalled;
            if stalled {
                self.account.stalled += 1;
            } else {
                self.account.stalled = self.account.stalled.saturating_sub(1);
            }
        }
        let waits_for_credit = record.turn == Turn::Parked && !send.has_old();
        if !matches!(record.turn, Turn::Scheduled | Turn::Held)
            && !waits_for_credit
            && (send.has_old() || send.has_fresh())
        {
            record.turn = Turn::Scheduled;
            self.schedule.push_back(send.priority(), id);
        }
        if stalled && send.block() {
            record.due.data_blocked = true;
            self.queue_control(id);
        }
    }

    /// Tells writers that there is room, once there is enough of it to be worth their while.
    pub(super) fn wake_writers(&mut self) {
        while self.account.has_worthwhile_room()
            && let Some(id) = self.account.next_waiting()
        {
            if let Some(record) = self.records.get_mut(&id) {
                record.in_waiting = false;
                // One that waits for the peer's credit as well is woken by that.
                let useful = record.send.as_ref().map_or(0, |s| s.useful(STREAM_FLOOR));
                if record.writer_waits && useful > 0 {
                    record.writer_waits = false;
                    self.events.push_back(StreamEvent::Writable(id));
                }
            }
        }
    }
}
