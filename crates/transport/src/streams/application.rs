//! Calls for the application.

use core::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    ClosedStream, Dir, FinishError, OpenError, ReadError, ReceiveMemory, ReceiveWindow, RecvPart,
    SendPart, StreamEvent, StreamId, Streams, WriteError,
};

impl Streams {
    /// Opens a stream. The peer learns about it from the first frame.
    ///
    /// # Errors
    /// Returns [`OpenError::Limit`] if you already have as many streams open as the peer allows.
    pub fn open(&mut self, dir: Dir) -> Result<StreamId, OpenError> {
        self.opening.open(dir, &mut self.records)
    }

    /// Stops waiting for a stream of this kind to become available.
    pub fn give_up_opening(&mut self, dir: Dir) {
        self.opening.give_up(dir);
    }

    /// Sets how many streams of one kind the peer can have open at once, replacing
    /// [`StreamsConfig::max_bidi_streams`](super::StreamsConfig::max_bidi_streams) or
    /// [`max_uni_streams`](super::StreamsConfig::max_uni_streams). Earlier promises can't be
    /// withdrawn, so a lower number takes effect gradually, as streams end.
    pub fn set_max_concurrent(&mut self, dir: Dir, streams: u64) {
        self.opening.set_concurrent(dir, streams);
    }

    /// Returns the next stream opened by the peer, lowest first. After `None`, wait for
    /// [`StreamEvent::Opened`] before calling this again.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.opening.accept(dir)
    }

    /// Copies data to the end of a stream. Returns how many bytes there was room for, at least one
    /// unless `data` is empty.
    ///
    /// # Errors
    /// Returns [`WriteError::Blocked`] if there's no room, and another [`WriteError`] if you can't
    /// write to the stream anymore.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let record = self.records.get_mut(&id).ok_or(WriteError::Closed)?;
        let stream = (id, record.as_mut());
        let written = self.account.write(stream, data.len(), |send, room| {
            send.write(data.get(..room).unwrap_or(data));
        })?;
        self.turns.settle(id, record, &mut self.control);
        Ok(written)
    }

    /// Moves data from the front of `data` to the end of a stream without copying it. Returns how
    /// many bytes there was room for, at least one unless `data` is empty.
    ///
    /// # Errors
    /// Returns the same errors as [`write`](Self::write).
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let record = self.records.get_mut(&id).ok_or(WriteError::Closed)?;
        let (stream, len) = ((id, record.as_mut()), data.len());
        let written = self.account.write(stream, len, |send, room| {
            send.push(data.split_to(room));
        })?;
        self.turns.settle(id, record, &mut self.control);
        Ok(written)
    }

    /// Marks the end of the stream after writing everything. [`StreamEvent::Finished`] tells you
    /// when the peer has received all data.
    ///
    /// # Errors
    /// Returns [`FinishError`] if the stream was already closed, or stopped by the peer.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let record = self.records.get_mut(&id).ok_or(FinishError::Closed)?;
        let send = record.send.as_mut().ok_or(FinishError::Closed)?;
        send.finish().map_err(|error| match error {
            WriteError::Stopped(code) => FinishError::Stopped(code),
            WriteError::Blocked | WriteError::Closed => FinishError::Closed,
        })?;
        self.turns.settle(id, record, &mut self.control);
        Ok(())
    }

    /// Abandons sending. Data that hasn't been delivered yet may never be, and the peer reads
    /// `code` instead.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] if the sending part was already reset or is done.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        let dropped = send.unacked();
        send.reset(code)?;
        self.on_reset_by_us(id, dropped);
        Ok(())
    }

    /// Sets the priority for sending: streams of higher priority go first, and streams of equal
    /// priority take turns. The default is 0.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has a sending part.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.set_priority(priority);
        Ok(())
    }

    /// Sets how many packets a stream can send per turn. The default is 1.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has a sending part.
    pub fn set_weight(&mut self, id: StreamId, weight: NonZeroU8) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.set_weight(weight);
        Ok(())
    }

    /// Announces that you will write about `bytes` more, so that routers aren't asked for a higher
    /// rate than necessary.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has a sending part.
    pub fn announce(&mut self, id: StreamId, bytes: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.announce(bytes);
        Ok(())
    }

    /// Declares that a stream carries a flow which would otherwise have its own connection. Its
    /// next 14,720 bytes, an initial window (RFC 9002 §7.2), can be in flight in addition to the
    /// congestion window until a loss or CE occurs. Over all flows, these bytes are limited to 2
    /// MiB per round trip.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has a sending part.
    pub fn start_flow(&mut self, id: StreamId) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.start_flow();
        Ok(())
    }

    /// Returns the priority of a stream.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has a sending part.
    pub fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        let record = self.records.get(&id).ok_or(ClosedStream)?;
        let send = record.send.as_ref().ok_or(ClosedStream)?;
        Ok(send.priority())
    }

    /// Returns true while a stream has data to send but no credit from the peer, either for the
    /// stream or for the connection, because its application reads more slowly than the path
    /// delivers.
    pub fn is_stalled(&self, id: StreamId) -> bool {
        let send = self
            .records
            .get(&id)
            .and_then(|record| record.send.as_ref());
        let no_credit = self.turns.credit() == 0;
        send.is_some_and(|send| send.is_stalled() || no_credit && send.has_fresh())
    }

    /// Copies received data into `out`. Returns the number of bytes, at least one unless `out` is
    /// empty, or `None` at the end of the stream, which is reported only once.
    ///
    /// # Errors
    /// Returns [`ReadError::Blocked`] if there's nothing to read yet, and another [`ReadError`] if
    /// the peer reset the stream or you can't read from it anymore.
    pub fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.read_with(id, |recv, window| recv.read(out, window))
    }

    /// Returns the next piece of received data, at most `max` bytes, without copying it, or `None`
    /// at the end of the stream, which is reported only once.
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        self.read_with(id, |recv, window| recv.read_chunk(max, window))
    }

    /// Drops all received data that can be read, and returns its length in bytes, or `None` at the
    /// end of the stream, which is reported only once. This is useful for measurements that don't
    /// use the data. From then on, data is only kept where counting requires it, so
    /// [`read`](Self::read) and [`read_chunk`](Self::read_chunk) fail.
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    pub fn skip(&mut self, id: StreamId) -> Result<Option<u64>, ReadError> {
        self.read_with(id, RecvPart::skip)
    }

    /// Returns the application error code with which the peer reset a stream. Like
    /// [`read`](Self::read), this reports it only once, and the receiving part is then done. After
    /// `None`, wait for [`StreamEvent::Readable`] before asking again; it may also signal that only
    /// data arrived.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] if the peer can't reset it anymore, because all data has arrived or
    /// this side stopped the stream.
    pub fn received_reset(&mut self, id: StreamId) -> Result<Option<u64>, ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let recv = record.recv.as_mut().ok_or(ClosedStream)?;
        let reset = recv.received_reset()?;
        record.reader_waits |= reset.is_none();
        self.forget_if_done(id);
        Ok(reset)
    }

    /// Stops receiving. Buffered and arriving data is discarded, and the peer is asked to stop
    /// sending, with `code`.
    ///
    /// # Errors
    /// Returns [`ClosedStream`] unless the stream has an open receiving part.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        self.receiving.stop(record, code)?;
        self.control.push(id, record);
        self.forget_if_done(id);
        Ok(())
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop()
    }

    /// Returns true if the peer hasn't acknowledged all data of the streams that were finished.
    pub fn has_undelivered(&self) -> bool {
        let mut parts = self
            .records
            .values()
            .filter_map(|record| record.send.as_ref());
        parts.any(SendPart::is_finishing)
    }

    /// Returns the number of streams with at least one part that isn't done.
    pub fn open_streams(&self) -> usize {
        self.records.len()
    }

    /// Sets the receive window of the whole connection, in bytes. It doesn't grow automatically
    /// anymore. However, [`receive_memory`](crate::endpoint::EndpointConfig::receive_memory) still
    /// limits it.
    pub fn set_receive_window(&mut self, bytes: u64) {
        self.receiving.set_window(bytes);
    }

    /// Sets the maximum size to which the send buffer of all streams together can grow, in bytes.
    /// Each stream can always buffer 16 KiB.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.account.set_max(bytes);
    }

    /// Uses memory shared between connections for received data. Without it, only flow control
    /// limits that data.
    pub fn share_memory(&mut self, memory: Arc<ReceiveMemory>) {
        self.receiving.share(memory);
    }

    /// Returns true if packets should be built even if there's nothing to send, because the
    /// application is waiting for a stream while the peer has spent its credit on others.
    pub fn wants_preparation(&self) -> bool {
        self.receiving.holds_up_a_reader()
    }

    fn read_with<T>(
        &mut self,
        id: StreamId,
        read: impl FnOnce(&mut RecvPart, &mut ReceiveWindow) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let record = self.records.get_mut(&id).ok_or(ReadError::Closed)?;
        let result = self.receiving.read(record, read);
        self.control.push(id, record);
        if matches!(result, Ok(None) | Err(ReadError::Reset(_))) {
            self.forget_if_done(id);
        }
        result
    }
}
