//! The receiving part of a stream (RFC 9000 §3.2), with its final size rules (§4.5).

use bytes::Bytes;
use pathmark_cc::{Duration, Instant};

use super::{ClosedStream, ReadError, Reassembly, ReceiveWindow};

/// States of a receiving part (RFC 9000 §3.2, figure 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvState {
    /// Data may arrive; its end isn't known.
    Recv,
    /// The end is known, but not all data has arrived.
    SizeKnown,
    /// All data has arrived.
    DataRecvd,
    /// The application has read all data.
    DataRead,
    /// The peer reset the stream.
    ResetRecvd,
    /// The application was informed of the reset.
    ResetRead,
}

/// A frame that the peer must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvError {
    /// FINAL_SIZE_ERROR.
    #[error("the final size of a stream changed or was exceeded")]
    FinalSize,
    /// FLOW_CONTROL_ERROR.
    #[error("more data on a stream than was allowed")]
    StreamLimit,
    /// FLOW_CONTROL_ERROR.
    #[error("more data on all streams together than was allowed")]
    ConnectionLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Reading,
    /// The application stopped reading, with this code.
    Stopped(u64),
    /// It read all data.
    AtEnd,
    /// It was informed of the reset.
    KnowsReset,
}

/// The receiving part, in one of the states of [`RecvState`].
///
/// [`on_data`](Self::on_data) moves it from Recv over SizeKnown to DataRecvd, and
/// [`on_reset`](Self::on_reset) to ResetRecvd. Reading to the end moves it to DataRead, and a read
/// that fails because of the reset, or [`received_reset`](Self::received_reset), to ResetRead.
/// After [`stop`](Self::stop), it is done as soon as its size is known or the peer has reset it.
#[derive(Debug)]
pub struct RecvPart {
    pub(super) buffer: Reassembly,
    window: ReceiveWindow,
    highest: u64,
    final_size: Option<u64>,
    /// Code of the peer's RESET_STREAM.
    reset: Option<u64>,
    reader: Reader,
    /// Bytes counted as consumed, either read or discarded.
    consumed: u64,
}

impl RecvPart {
    /// Creates a part in state Recv, with the stream's window.
    pub fn new(window: ReceiveWindow) -> Self {
        Self {
            buffer: Reassembly::default(),
            window,
            highest: 0,
            final_size: None,
            reset: None,
            reader: Reader::Reading,
            consumed: 0,
        }
    }

    /// Returns the state of the part. A stream that the application stopped counts as read once
    /// its end is known.
    pub fn state(&self) -> RecvState {
        match (self.reset, self.reader, self.final_size) {
            (Some(_), Reader::Reading, _) => RecvState::ResetRecvd,
            (Some(_), _, _) => RecvState::ResetRead,
            (None, Reader::AtEnd | Reader::KnowsReset, _) | (None, Reader::Stopped(_), Some(_)) => {
                RecvState::DataRead
            }
            (None, _, None) => RecvState::Recv,
            (None, Reader::Reading, Some(size)) if self.buffer.frontier() < size => {
                RecvState::SizeKnown
            }
            (None, Reader::Reading, Some(_)) => RecvState::DataRecvd,
        }
    }

    /// Returns true in the final states DataRead and ResetRead.
    pub fn is_done(&self) -> bool {
        matches!(self.state(), RecvState::DataRead | RecvState::ResetRead)
    }

    /// Returns true if a read would return something other than [`ReadError::Blocked`].
    pub fn is_readable(&self) -> bool {
        self.reader != Reader::Reading
            || self.reset.is_some()
            || self.buffer.readable() > 0
            || self.final_size == Some(self.buffer.base())
    }

    /// Returns the stream's flow control window.
    pub fn window_mut(&mut self) -> &mut ReceiveWindow {
        &mut self.window
    }

    /// Returns true if a MAX_STREAM_DATA frame is due.
    pub fn update_due(&self) -> bool {
        self.wants_more() && self.window.update_due()
    }

    /// Returns true while a MAX_STREAM_DATA frame is meaningful: in state Recv while the
    /// application reads.
    pub fn wants_more(&self) -> bool {
        self.final_size.is_none() && self.reader == Reader::Reading
    }

    /// Returns the code for a STOP_SENDING frame, while one is meaningful.
    pub fn stop_frame(&self) -> Option<u64> {
        match (self.reader, self.final_size) {
            (Reader::Stopped(code), None) => Some(code),
            _ => None,
        }
    }

    /// Processes a STREAM frame.
    ///
    /// # Errors
    /// [`RecvError`] if the peer violated a rule, so the connection must be closed.
    pub fn on_data(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        offset: u64,
        data: &[u8],
        fin: bool,
        connection: &mut ReceiveWindow,
    ) -> Result<(), RecvError> {
        let end = offset.saturating_add(data.len() as u64);
        self.check_final_size(end, fin)?;
        self.count(now, rtt, end, connection)?;
        if fin {
            self.final_size = Some(end);
        }
        if self.reader == Reader::Reading && self.reset.is_none() {
            // [9000 2.2 ordered-bytes]
            self.buffer.insert(offset, data);
        } else {
            self.discard(connection);
        }
        Ok(())
    }

    /// Processes a RESET_STREAM frame, which is ignored if all data has arrived already.
    ///
    /// # Errors
    /// [`RecvError`] if the peer violated a rule, so the connection must be closed.
    pub fn on_reset(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        code: u64,
        final_size: u64,
        connection: &mut ReceiveWindow,
    ) -> Result<(), RecvError> {
        self.check_final_size(final_size, true)?;
        // [9000 4.5 final-size-counts]
        self.count(now, rtt, final_size, connection)?;
        let all_there = self.state() == RecvState::DataRecvd;
        self.final_size = Some(final_size);
        if self.reset.is_none() && !all_there {
            self.reset = Some(code);
            self.discard(connection);
        }
        Ok(())
    }

    /// Copies data into `out`. Returns `None` at the end of the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(
        &mut self,
        out: &mut [u8],
        connection: &mut ReceiveWindow,
    ) -> Result<Option<usize>, ReadError> {
        if !self.check_readable()? {
            return Ok(None);
        }
        self.check_kept()?;
        let len = self.buffer.read(out);
        self.on_read(len as u64, connection);
        Ok(Some(len))
    }

    /// Returns the next piece of at most `max` bytes, without copying, or `None` at the end of
    /// the stream, which is reported once.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_chunk(
        &mut self,
        max: usize,
        connection: &mut ReceiveWindow,
    ) -> Result<Option<Bytes>, ReadError> {
        if !self.check_readable()? {
            return Ok(None);
        }
        self.check_kept()?;
        let chunk = self.buffer.read_chunk(max).unwrap_or_default();
        self.on_read(chunk.len() as u64, connection);
        Ok(Some(chunk))
    }

    /// Drops all readable data, and returns its length, or `None` at the end of the stream,
    /// which is reported once. Afterwards, the part can't be read.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn skip(&mut self, connection: &mut ReceiveWindow) -> Result<Option<u64>, ReadError> {
        if !self.check_readable()? {
            return Ok(None);
        }
        let len = self.buffer.skip();
        self.on_read(len, connection);
        Ok(Some(len))
    }

    /// Reports the code of the peer's RESET_STREAM to the application, or returns `None` while this
    /// frame may still arrive.
    ///
    /// # Errors
    /// [`ClosedStream`] if it can't arrive anymore, because all data has arrived or the application
    /// has stopped reading.
    pub fn received_reset(&mut self) -> Result<Option<u64>, ClosedStream> {
        if self.reset.is_some() && self.reader == Reader::Reading {
            self.reader = Reader::KnowsReset;
            return Ok(self.reset);
        }
        match self.state() {
            RecvState::Recv | RecvState::SizeKnown if self.reader == Reader::Reading => Ok(None),
            _ => Err(ClosedStream),
        }
    }

    /// Stops reading. Returns true if a STOP_SENDING frame is due.
    ///
    /// # Errors
    /// [`ClosedStream`] if the application stopped before, or has read to the end or the reset.
    pub fn stop(
        &mut self,
        code: u64,
        connection: &mut ReceiveWindow,
    ) -> Result<bool, ClosedStream> {
        if self.reader != Reader::Reading {
            return Err(ClosedStream);
        }
        self.reader = Reader::Stopped(code);
        self.discard(connection);
        Ok(self.stop_frame().is_some())
    }

    /// Returns true if there is data, and false at the end.
    fn check_readable(&mut self) -> Result<bool, ReadError> {
        match (self.reader, self.reset) {
            (Reader::Reading, Some(code)) => {
                self.reader = Reader::KnowsReset;
                Err(ReadError::Reset(code))
            }
            (Reader::Reading, None) if self.buffer.readable() > 0 => Ok(true),
            (Reader::Reading, None) if self.final_size == Some(self.buffer.base()) => {
                self.reader = Reader::AtEnd;
                Ok(false)
            }
            (Reader::Reading, None) => Err(ReadError::Blocked),
            _ => Err(ReadError::Closed),
        }
    }

    /// Fails if data was skipped and therefore not kept.
    fn check_kept(&self) -> Result<(), ReadError> {
        if self.buffer.is_counted() {
            return Err(ReadError::Closed);
        }
        Ok(())
    }

    fn on_read(&mut self, len: u64, connection: &mut ReceiveWindow) {
        self.consumed += len;
        self.window.on_read(len);
        connection.on_read(len);
    }

    /// Records that `len` bytes arrived beyond a gap for which the application waits.
    pub(super) fn on_held_up(&mut self, len: usize, connection: &mut ReceiveWindow) {
        self.window.on_held_up(len as u64);
        connection.on_held_up(len as u64);
    }

    /// Returns true if data at `offset` would extend the contiguous data.
    pub fn is_next(&self, offset: u64) -> bool {
        offset <= self.buffer.frontier()
    }

    /// Returns true if any of `len` bytes at `offset` would be kept, because the application
    /// reads the stream and the bytes extend beyond the contiguous data.
    pub fn keeps(&self, offset: u64, len: usize) -> bool {
        let end = offset.saturating_add(len as u64);
        self.reader == Reader::Reading
            && self.reset.is_none()
            && len > 0
            && end > self.buffer.frontier()
    }

    /// RFC 9000 §4.5: checks that data up to `end` is within the final size, which `end` must
    /// be if `is_final`.
    fn check_final_size(&self, end: u64, is_final: bool) -> Result<(), RecvError> {
        let fits = match self.final_size {
            Some(size) if is_final => end == size,
            Some(size) => end <= size,
            None => !is_final || end >= self.highest,
        };
        if fits {
            Ok(())
        } else {
            Err(RecvError::FinalSize)
        }
    }

    /// Charges both windows if `end` is a new highest offset.
    fn count(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        end: u64,
        connection: &mut ReceiveWindow,
    ) -> Result<(), RecvError> {
        let more = end.saturating_sub(self.highest);
        self.window
            .on_received(now, rtt, more)
            .map_err(|_| RecvError::StreamLimit)?;
        connection
            .on_received(now, rtt, more)
            .map_err(|_| RecvError::ConnectionLimit)?;
        self.highest += more;
        Ok(())
    }

    /// Drops buffered data and returns its credit, because the application won't read it.
    fn discard(&mut self, connection: &mut ReceiveWindow) {
        let left = self.highest - self.consumed;
        self.consumed = self.highest;
        self.window.on_consumed(left);
        connection.on_consumed(left);
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests;
