//! The receiving parts of streams, as an application uses them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::shared::Shared;
use super::stream_error::{ReadError, ReadExactError, ReadToEndError};
use super::user::User;
use pathmark_transport::VarInt;
use pathmark_transport::streams::{self, StreamId};

/// How a receiving part ended, which must be kept here because the stream's state is gone by then.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Everything was read.
    Read,
    /// The peer reset the stream with this code.
    Reset(u64),
    /// This side stopped the stream.
    Stopped,
}

impl End {
    fn repeated<T>(self) -> Result<Option<T>, ReadError> {
        match self {
            Self::Read => Ok(None),
            Self::Reset(code) => Err(ReadError::Reset(code)),
            Self::Stopped => Err(ReadError::ClosedStream),
        }
    }
}

/// The receiving part of a stream.
///
/// Each read after the end repeats it: `None` if you have read everything, [`ReadError::Reset`] if
/// the peer reset the stream, or [`ReadError::ClosedStream`] after [`stop`](Self::stop).
/// [`AsyncRead`] only returns 0 bytes in the first case, so that a reader that tries again after an
/// error will never take a truncated stream for a complete one.
///
/// Dropping this before the end asks the peer to stop with code 0.
///
/// You can drop its futures before they are ready, for example by using `select!` or a timeout,
/// without losing data, except that of [`read_exact`](Self::read_exact): the next read continues
/// where the last completed one ended.
#[derive(Debug)]
pub struct RecvStream {
    shared: User,
    id: StreamId,
    end: Option<End>,
    /// Data that [`read_to_end`](Self::read_to_end) has read but not returned.
    kept: BytesMut,
    /// The connection keeps a waker of the task that polled last.
    waits: bool,
}

/// A future that waits for a receiving part. Dropping it removes its waker.
struct Reading<'a>(&'a mut RecvStream);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.0.waits {
            self.0.waits = false;
            self.0.shared.lock().forget_reader(self.0.id);
        }
    }
}

impl RecvStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        Self {
            shared: User::new(shared),
            id,
            end: None,
            kept: BytesMut::new(),
            waits: false,
        }
    }

    /// Returns the stream's number on the wire.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the number of bytes that were read but not returned.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Reads the next data, in order, into `out`, and returns the number of bytes, or `None` at the
    /// end, even if you call it again. If `out` is empty, it immediately returns `Some(0)`.
    ///
    /// # Errors
    /// [`ReadError`] if the stream is reset or stopped, or if the connection is over and no data is
    /// left.
    pub async fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_read_bytes(cx, out)).await
    }

    /// Fills `out` with the next data, in order.
    ///
    /// If you drop the future before it is ready, it may have read a part of the data, which is
    /// then lost, and you can't tell how much. If this matters, call [`read`](Self::read) instead.
    ///
    /// # Errors
    /// [`ReadExactError::FinishedEarly`] if the stream ends before `out` is full, or
    /// [`ReadExactError::ReadError`] if reading fails.
    pub async fn read_exact(&mut self, out: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest).await? {
                Some(read) => filled += read,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Returns the next piece of data, in order, or `None` at the end, even if you call it again.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_read_chunk(cx)).await
    }

    /// Poll-based [`read`](Self::read), for callers that cannot await. When this returns `Pending`,
    /// the task of the most recent poll will be woken. The stream keeps one waker until you drop
    /// it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if out.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        if !self.kept.is_empty() {
            let len = out.len().min(self.kept.len());
            if let Some(out) = out.get_mut(..len) {
                self.kept.copy_to_slice(out);
            }
            return Poll::Ready(Ok(Some(len)));
        }
        self.poll_with(cx, |streams, id| streams.read(id, out))
    }

    /// Poll-based [`read_chunk`](Self::read_chunk), which wakes tasks as
    /// [`poll_read_bytes`](Self::poll_read_bytes) does.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        if !self.kept.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.kept).freeze())));
        }
        self.poll_with(cx, |streams, id| streams.read_chunk(id, usize::MAX))
    }

    /// Reads everything up to the end. If you drop the future before this, or if there is too much,
    /// the stream keeps the data, and the next read of any kind will begin with it.
    ///
    /// # Errors
    /// [`ReadToEndError::TooLong`] if there are more than `limit` bytes, or
    /// [`ReadToEndError::Read`] if reading fails.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_read_to_end(cx, limit)).await
    }

    fn poll_read_to_end(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Result<Vec<u8>, ReadToEndError>> {
        while self.kept.len() <= limit {
            let read = self.poll_with(cx, |streams, id| streams.read_chunk(id, usize::MAX));
            match ready!(read) {
                Ok(Some(chunk)) => self.kept.extend_from_slice(&chunk),
                Ok(None) => return Poll::Ready(Ok(std::mem::take(&mut self.kept).into())),
                Err(error) => {
                    self.kept.clear();
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
        Poll::Ready(Err(ReadToEndError::TooLong))
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut streams::Streams, StreamId) -> Result<Option<T>, streams::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if let Some(end) = self.end {
            // This also holds if the connection has ended since, because no data is missing.
            return Poll::Ready(end.repeated());
        }
        let mut state = self.shared.lock();
        let result = match read(state.core.streams(), self.id) {
            Ok(read) => Ok(read),
            // Data that arrived before the connection was lost can still be read.
            Err(streams::ReadError::Blocked) => match state.lost() {
                Some(error) => Err(error.into()),
                None => {
                    state.wait_to_read(self.id, cx);
                    state.wake_driver_for_request();
                    self.waits = true;
                    return Poll::Pending;
                }
            },
            Err(streams::ReadError::Reset(code)) => Err(ReadError::Reset(code)),
            Err(_) => match state.lost() {
                Some(error) => Err(error.into()),
                None => Err(ReadError::ClosedStream),
            },
        };
        self.end = match &result {
            Ok(None) => Some(End::Read),
            Err(ReadError::Reset(code)) => Some(End::Reset(*code)),
            Ok(Some(_)) | Err(_) => None,
        };
        // Reading may have given the peer more credit.
        state.wake_driver_for_credit();
        Poll::Ready(result)
    }

    /// Waits until the peer resets the stream, and returns its application error code. Returns
    /// `None` once this can't happen any more, because all data has arrived or you have stopped the
    /// stream.
    ///
    /// This doesn't consume data, and dropping the future has no effect.
    ///
    /// # Errors
    /// [`ReadError::ConnectionLost`].
    pub async fn received_reset(&mut self) -> Result<Option<u64>, ReadError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_received_reset(cx)).await
    }

    fn poll_received_reset(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<u64>, ReadError>> {
        match self.end {
            Some(End::Reset(code)) => return Poll::Ready(Ok(Some(code))),
            Some(End::Read | End::Stopped) => return Poll::Ready(Ok(None)),
            None => {}
        }
        let mut state = self.shared.lock();
        let reset = match (state.core.streams().received_reset(self.id), state.lost()) {
            (Ok(None), Some(error)) => return Poll::Ready(Err(error.into())),
            (Ok(None), None) => {
                state.wait_to_read(self.id, cx);
                self.waits = true;
                return Poll::Pending;
            }
            (Ok(reset), _) => reset,
            (Err(_), _) => None,
        };
        self.end = reset.map(End::Reset);
        // The peer may now open another stream.
        state.wake_driver_for_credit();
        Poll::Ready(Ok(reset))
    }

    /// Asks the peer to stop sending, with an application error code below 2^62. Data that has
    /// arrived but is unread is dropped.
    ///
    /// # Errors
    /// [`ReadError::ClosedStream`] if the stream was already read to its end, reset or stopped.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ReadError> {
        self.kept.clear();
        let mut state = self.shared.lock();
        let result = state.core.streams().stop(self.id, code.into());
        self.end.get_or_insert(End::Stopped);
        state.wake_driver();
        result.map_err(|_| ReadError::ClosedStream)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.forget_reader(self.id);
        if self.end.is_none() && state.core.streams().stop(self.id, 0).is_ok() {
            state.wake_driver();
        }
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let out = buffer.initialize_unfilled();
        match ready!(this.poll_read_bytes(cx, out)) {
            Ok(read) => {
                buffer.advance(read.unwrap_or(0));
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}
