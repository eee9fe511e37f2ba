//! The application's calls.

use core::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;

use super::{
    ClosedStream, Dir, FinishError, OpenError, ReadError, ReceiveMemory, ReceiveWindow, RecvPart,
    StreamEvent, StreamId, Streams, WriteError,
};

impl Streams {
    /// Opens a stream. The peer learns of it with the first frame.
    ///
    /// # Errors
    /// [`OpenError::Limit`] if as many are open as the peer allows.
    pub fn open(&mut self, dir: Dir) -> Result<StreamId, OpenError> {
        self.opening.open(dir, &mut self.records)
    }

    /// The application waits no longer to open a stream of this kind.
    pub fn give_up_opening(&mut self, dir: Dir) {
        self.opening.give_up(dir);
    }

    /// Sets how many streams of one kind the peer may have open at once, in place of
    /// [`StreamsConfig::max_bidi_streams`](super::StreamsConfig::max_bidi_streams) or
    /// [`max_uni_streams`](super::StreamsConfig::max_uni_streams). Earlier promises stay:
    /// a lower number holds as streams end.
    pub fn set_max_concurrent(&mut self, dir: Dir, streams: u64) {
        self.opening.set_concurrent(dir, streams);
    }

    /// The next stream that the peer opened, lowest first. After `None`, [`StreamEvent::Opened`]
    /// says when to ask again.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.opening.accept(dir)
    }

    /// Copies data to the end of a stream; returns how many bytes there was room for, at least one
    /// unless `data` is empty.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let record = self.records.get_mut(&id).ok_or(WriteError::Closed)?;
        let stream = (id, record.as_mut());
        let written = self.account.write(stream, data.len(), |send, room| {
            send.write(data.get(..room).unwrap_or(data));
        })?;
        self.turns.settle(id, record, &mut self.control);
        Ok(written)
    }

    /// Moves data from the front of `data` to the end of a stream, without copying it; returns how
    /// many bytes there was room for, at least one unless `data` is empty.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write_bytes(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let record = self.records.get_mut(&id).ok_or(WriteError::Closed)?;
        let (stream, len) = ((id, record.as_mut()), data.len());
        let written = self.account.write(stream, len, |send, room| {
            send.push(data.split_to(room));
        })?;
        self.turns.settle(id, record, &mut self.control);
        Ok(written)
    }

    /// Says that everything was written. [`StreamEvent::Finished`] tells when the peer has it.
    ///
    /// # Errors
    /// [`FinishError`].
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

    /// Sets how many packets a stream sends in its turn, 1 at first.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn set_weight(&mut self, id: StreamId, weight: NonZeroU8) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.set_weight(weight);
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

    /// Says that a stream carries a flow which would have a connection of its own elsewhere. Its
    /// next 14,720 bytes, an initial window (RFC 9002 §7.2), may be in flight in addition to the
    /// congestion window, until a loss or CE. Such bytes of all flows have a bound of 2 MiB in a
    /// round trip.
    ///
    /// # Errors
    /// [`ClosedStream`].
    pub fn start_flow(&mut self, id: StreamId) -> Result<(), ClosedStream> {
        let record = self.records.get_mut(&id).ok_or(ClosedStream)?;
        let send = record.send.as_mut().ok_or(ClosedStream)?;
        send.start_flow();
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

    /// True while a stream has data to send, and the peer's credit for it or for the connection is
    /// used up: its application does not read as fast as the path carries.
    #[must_use]
    pub fn is_stalled(&self, id: StreamId) -> bool {
        let send = self
            .records
            .get(&id)
            .and_then(|record| record.send.as_ref());
        let no_credit = self.turns.credit() == 0;
        send.is_some_and(|send| send.is_stalled() || no_credit && send.has_fresh())
    }

    /// Copies received data into `out`; returns how much, at least one byte unless `out` is empty.
    /// `None` at the end of the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.read_with(id, |recv, window| recv.read(out, window))
    }

    /// The next piece of received data, at most `max` bytes, without copying it. `None` at the end
    /// of the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        self.read_with(id, |recv, window| recv.read_chunk(max, window))
    }

    /// Drops all received data that can be read, and returns how much: for measurements without
    /// use for the bytes. From then on data is not kept where that is not needed to count it, and
    /// [`read`](Self::read) and [`read_chunk`](Self::read_chunk) fail. `None` at the end of the
    /// stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn skip(&mut self, id: StreamId) -> Result<Option<u64>, ReadError> {
        self.read_with(id, RecvPart::skip)
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
        self.receiving.stop(record, code)?;
        self.control.push(id, record);
        self.forget_if_done(id);
        Ok(())
    }

    /// The next thing that an application may wait for.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop()
    }

    /// Streams with at least one part that is not done.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.records.len()
    }

    /// Sets the receive window of the connection as a whole, bytes. It does not grow by itself from
    /// then on; [`receive_memory`](crate::endpoint::EndpointConfig::receive_memory) still bounds
    /// it.
    pub fn set_receive_window(&mut self, bytes: u64) {
        self.receiving.set_window(bytes);
    }

    /// Sets the most that the send buffer of all streams together grows to, bytes. Each stream may
    /// buffer 16 KiB in any case.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.account.set_max(bytes);
    }

    /// Takes memory for received data out of what connections share. Without it, flow control is
    /// the only bound.
    pub fn share_memory(&mut self, memory: Arc<ReceiveMemory>) {
        self.receiving.share(memory);
    }

    /// True if packets are to be built although there is nothing to send: the application waits for
    /// a stream while the peer has spent its credit on others.
    #[must_use]
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
