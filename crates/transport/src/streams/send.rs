//! The sending part of a stream (RFC 9000 §3.1).

use core::num::NonZeroU8;
use core::ops::Range;

use bytes::Bytes;

use super::{ClosedStream, SendBuffer, SendCredit, WriteError};

/// States of a sending part (RFC 9000 §3.1, figure 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Nothing was sent yet.
    Ready,
    /// Data is being sent.
    Send,
    /// All data and the end of the stream were sent; some may have to be sent again.
    DataSent,
    /// All data was acknowledged.
    DataRecvd,
    /// Reset, but not acknowledged.
    ResetSent,
    /// Reset and acknowledged.
    ResetRecvd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fin {
    /// The application may write more.
    Open,
    /// Must be sent for the first time.
    Due,
    InFlight,
    /// Must be sent again.
    Lost,
    Acked,
}

/// The contents of a STREAM frame, as chosen by [`SendPart::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes; may be empty if `fin` is set.
    pub range: Range<u64>,
    /// Whether it contains the end of the stream.
    pub fin: bool,
    /// How many of its bytes are sent for the first time, and therefore count for flow control.
    pub fresh: u64,
}

/// The sending part, in one of the states of [`SendState`].
///
/// The first [`take`](Self::take) moves it from Ready to Send, and the one that contains the end
/// ([`finish`](Self::finish)) to DataSent. [`on_acked`](Self::on_acked) moves it to DataRecvd once
/// all is acknowledged. The application ([`reset`](Self::reset)) or the peer
/// ([`on_stop_sending`](Self::on_stop_sending)) moves it to ResetSent, and
/// [`on_reset_acked`](Self::on_reset_acked) to ResetRecvd.
#[derive(Debug)]
pub struct SendPart {
    buffer: SendBuffer,
    credit: SendCredit,
    fin: Fin,
    /// Code of our RESET_STREAM, and whether the peer acknowledged it.
    reset: Option<(u64, bool)>,
    /// Code of the peer's STOP_SENDING.
    stopped: Option<u64>,
    priority: i32,
    weight: NonZeroU8,
    /// Total bytes that the application announced; 0: no announcement.
    announced: u64,
    /// Remaining bytes of the start of a flow.
    start: u16,
}

/// The initial window of a flow (RFC 9002 §7.2).
const START: u16 = 14_720;

impl SendPart {
    /// Creates a part in state Ready with flow control credit of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            buffer: SendBuffer::default(),
            credit: SendCredit::new(limit),
            fin: Fin::Open,
            reset: None,
            stopped: None,
            priority: 0,
            weight: NonZeroU8::MIN,
            announced: 0,
            start: 0,
        }
    }

    /// Returns the state of the part.
    pub fn state(&self) -> SendState {
        match (self.reset, self.fin) {
            (Some((_, true)), _) => SendState::ResetRecvd,
            (Some((_, false)), _) => SendState::ResetSent,
            (None, Fin::Acked) if self.buffer.all_acked() => SendState::DataRecvd,
            (None, Fin::InFlight | Fin::Lost | Fin::Acked) => SendState::DataSent,
            (None, Fin::Open | Fin::Due) if self.buffer.sent() == 0 => SendState::Ready,
            (None, Fin::Open | Fin::Due) => SendState::Send,
        }
    }

    /// Returns true in the final states DataRecvd and ResetRecvd.
    pub fn is_done(&self) -> bool {
        matches!(self.state(), SendState::DataRecvd | SendState::ResetRecvd)
    }

    /// Returns true if the application has finished the stream, and the peer hasn't acknowledged
    /// all of it.
    pub(super) fn is_finishing(&self) -> bool {
        self.fin != Fin::Open && self.reset.is_none() && !self.is_done()
    }

    /// Returns the bytes that were written but not acknowledged.
    pub fn unacked(&self) -> u64 {
        self.buffer.unacked()
    }

    /// Returns the priority. See [`set_priority`](Self::set_priority).
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Sets the priority. Higher priorities are sent first; the default is 0.
    pub fn set_priority(&mut self, priority: i32) {
        self.priority = priority;
    }

    /// Sets the number of packets that it sends per turn. The default is 1.
    pub fn set_weight(&mut self, weight: NonZeroU8) {
        self.weight = weight;
    }

    pub(super) fn weight(&self) -> u64 {
        self.weight.get().into()
    }

    pub(super) const fn turn(&self) -> (i32, NonZeroU8) {
        (self.priority, self.weight)
    }

    /// Records that a flow begins on the stream.
    pub(super) const fn start_flow(&mut self) {
        self.start = START;
    }

    /// Returns how many of `written` more bytes belong to the start of a flow.
    pub(super) fn take_start(&mut self, written: u64) -> u64 {
        let start = u16::try_from(written).map_or(self.start, |written| written.min(self.start));
        self.start -= start;
        start.into()
    }

    /// Announces that the application will write about `bytes` more.
    pub fn announce(&mut self, bytes: u64) {
        self.announced = self.buffer.end().saturating_add(bytes);
    }

    /// Returns the bytes that the application has yet to write, if known.
    pub fn unwritten(&self) -> Option<u64> {
        match self.fin {
            Fin::Open if self.reset.is_none() => self
                .announced
                .checked_sub(self.buffer.end())
                .filter(|_| self.announced > 0),
            _ => Some(0),
        }
    }

    /// Checks whether the application may write now.
    ///
    /// # Errors
    /// [`WriteError::Stopped`] or [`WriteError::Closed`].
    pub fn check_writable(&self) -> Result<(), WriteError> {
        match (self.stopped, self.reset, self.fin) {
            (Some(code), _, _) => Err(WriteError::Stopped(code)),
            (None, None, Fin::Open) => Ok(()),
            (None, _, _) => Err(WriteError::Closed),
        }
    }

    /// Returns how many more bytes are worth buffering: those that the peer allows, plus
    /// `ahead` for when it raises the limit.
    pub fn useful(&self, ahead: u64) -> u64 {
        let wanted = self.credit.available().saturating_add(ahead);
        wanted.saturating_sub(self.buffer.unsent())
    }

    /// Appends a copy of `data`. The caller must check first that the part is writable.
    pub fn write(&mut self, data: &[u8]) {
        self.buffer.write(data);
    }

    /// Appends `data` without copying. The caller must check first that the part is writable.
    pub fn push(&mut self, data: Bytes) {
        self.buffer.push(data);
    }

    /// Marks the end of the data.
    ///
    /// # Errors
    /// As [`check_writable`](Self::check_writable).
    pub fn finish(&mut self) -> Result<(), WriteError> {
        self.check_writable()?;
        // [9000 4.5 beyond-final-size]
        self.fin = Fin::Due;
        Ok(())
    }

    /// Stops sending and retransmitting, so that only a RESET_STREAM with `code` is due.
    ///
    /// # Errors
    /// [`ClosedStream`] if the part was already reset or is done.
    pub fn reset(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.reset.is_some() || self.is_done() {
            return Err(ClosedStream);
        }
        self.reset = Some((code, false));
        // [9000 3.3 after-the-end]
        self.buffer.clear();
        Ok(())
    }

    /// Processes STOP_SENDING by resetting the part with the peer's code (RFC 9000 §3.5).
    /// Returns true the first time, unless the part was already reset or is done.
    pub fn on_stop_sending(&mut self, code: u64) -> bool {
        // [9000 3.5 stop-answered]
        let stops = self.reset(code).is_ok();
        if stops {
            self.stopped = Some(code);
        }
        stops
    }

    /// Raises the peer's limit. Returns true if only the previous limit kept data from being
    /// sent.
    pub fn on_max_stream_data(&mut self, limit: u64) -> bool {
        let stalled = self.is_stalled();
        self.credit.raise(limit);
        stalled && !self.is_stalled()
    }

    /// Treats all data as never sent, with a new credit of `limit` bytes. Nothing may have been
    /// acknowledged.
    pub fn start_over(&mut self, limit: u64) {
        self.buffer.start_over();
        self.credit = SendCredit::new(limit);
        if matches!(self.fin, Fin::InFlight | Fin::Lost) {
            self.fin = Fin::Due;
        }
    }

    /// Returns true if data waits for the peer to raise the limit of this stream.
    pub fn is_stalled(&self) -> bool {
        self.buffer.unsent() > 0 && self.credit.available() == 0
    }

    /// Returns true the first time that the part is stalled at the current limit, when a
    /// STREAM_DATA_BLOCKED frame is due.
    pub fn block(&mut self) -> bool {
        self.credit.block()
    }

    /// Returns the limit for a STREAM_DATA_BLOCKED frame, while it is accurate.
    pub fn blocked_at(&self) -> Option<u64> {
        // [9000 3.3 after-the-end]
        (self.reset.is_none() && self.is_stalled()).then(|| self.credit.limit())
    }

    /// Returns the code and final size for a RESET_STREAM frame, until it is acknowledged.
    pub fn reset_frame(&self) -> Option<(u64, u64)> {
        match self.reset {
            // [9000 13.3 same-reset]
            Some((code, false)) => Some((code, self.credit.used())),
            _ => None,
        }
    }

    /// Returns true if a STREAM frame can be sent without the connection's credit: a frame with
    /// lost data, or with only the end of the stream.
    pub fn has_old(&self) -> bool {
        let fin_alone = self.reset.is_none() && self.fin_due() && self.buffer.unsent() == 0;
        self.buffer.has_lost() || fin_alone
    }

    /// Returns the bytes that the peer still allows on this stream. Once nothing more may be
    /// written, only unsent bytes count.
    pub fn allowed(&self) -> u64 {
        match self.check_writable() {
            Ok(()) => self.credit.available(),
            Err(_) => self.credit.available().min(self.buffer.unsent()),
        }
    }

    /// Returns true if a STREAM frame is within the stream's credit but needs credit of the
    /// connection as well.
    pub fn has_fresh(&self) -> bool {
        self.buffer.unsent() > 0 && self.credit.available() > 0
    }

    /// Returns the start offset of the next STREAM frame, and the number of bytes available for
    /// it.
    pub fn next(&self, connection_credit: u64) -> (u64, u64) {
        if let Some(lost) = self.buffer.first_lost() {
            return (lost.start, lost.end - lost.start);
        }
        let credit = self.credit.available().min(connection_credit);
        (self.buffer.sent(), self.buffer.unsent().min(credit))
    }

    /// Chooses the contents of the next STREAM frame, at most `max` bytes, with lost data
    /// before new data.
    pub fn take(&mut self, max: u64, connection_credit: u64) -> Option<Piece> {
        let (range, fresh) = match self.buffer.take_lost(max) {
            Some(lost) => (lost, 0),
            None if self.buffer.has_lost() => return None,
            None => {
                // [9000 2.2 within-limits]
                let credit = self.credit.available().min(connection_credit);
                match self.buffer.take_unsent(max.min(credit)) {
                    Some(range) => {
                        let fresh = range.end - range.start;
                        self.credit.consume(fresh);
                        (range, fresh)
                    }
                    None => (self.buffer.sent()..self.buffer.sent(), 0),
                }
            }
        };
        let fin = self.fin != Fin::Open && self.reset.is_none() && range.end == self.buffer.end();
        if range.is_empty() && !(fin && self.fin_due()) {
            return None;
        }
        if fin && self.fin_due() {
            self.fin = Fin::InFlight;
        }
        Some(Piece { range, fin, fresh })
    }

    fn fin_due(&self) -> bool {
        matches!(self.fin, Fin::Due | Fin::Lost)
    }

    /// Passes the bytes of a piece to `put`, in order.
    pub fn read(&mut self, range: Range<u64>, put: impl FnMut(&[u8])) {
        self.buffer.read(range, put);
    }

    /// Processes the acknowledgement of a STREAM frame. Returns the number of newly
    /// acknowledged bytes.
    pub fn on_acked(&mut self, range: Range<u64>, fin: bool) -> u64 {
        if self.reset.is_some() {
            return 0;
        }
        if fin {
            self.fin = Fin::Acked;
        }
        self.buffer.on_acked(range)
    }

    /// Processes the loss of a STREAM frame.
    pub fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin && self.fin == Fin::InFlight {
            self.fin = Fin::Lost;
        }
        self.buffer.on_lost(range);
    }

    /// Processes the loss of a STREAM frame in which `range` was retransmitted.
    pub fn on_lost_again(&mut self, range: Range<u64>, fin: bool) {
        self.on_lost(0..0, fin);
        if self.reset.is_none() {
            self.buffer.on_lost_again(range);
        }
    }

    /// Sends the first `most` unacknowledged bytes again.
    pub fn repeat_first(&mut self, most: u64) {
        let range = self.buffer.first_unacked(most);
        self.on_lost(0..0, range.end == self.buffer.end());
        if self.reset.is_none() {
            self.buffer.on_forgotten(range);
        }
    }

    /// Records that the peer acknowledged the RESET_STREAM.
    pub fn on_reset_acked(&mut self) {
        if let Some((_, acked)) = &mut self.reset {
            *acked = true;
        }
    }
}

#[cfg(test)]
mod tests;
