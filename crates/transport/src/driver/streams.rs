//! Streams as an application sees them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::Shared;
use crate::connection::ConnectionError;
use crate::streams::{self, StreamId};

/// Writing to a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer asked to stop, with this application error code.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset.
    #[error("the stream is closed for writing")]
    Closed,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Reading from a stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer abandoned the stream with this application error code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The stream was stopped, or read to its end before.
    #[error("the stream is closed for reading")]
    Closed,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Reading a whole stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is more than the limit.
    #[error("the stream is longer than {0} bytes")]
    TooLong(usize),
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::Closed | WriteError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::Closed | ReadError::ConnectionLost(_) => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// The sending part of a stream.
///
/// Dropped, it is finished: what was written is still delivered. To abandon it,
/// [`reset`](Self::reset) it.
#[derive(Debug)]
pub struct SendStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// A waker of whoever polled last is kept for it.
    waits: bool,
}

/// The receiving part of a stream.
///
/// Dropped before its end was read, it asks the peer to stop with code 0.
#[derive(Debug)]
pub struct RecvStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// Read to its end, reset or stopped: nothing is left to tell the peer.
    done: bool,
    /// Read to its end.
    ended: bool,
    /// A waker of whoever polled last is kept for it.
    waits: bool,
}

/// A future that waits for a sending part; dropped, it leaves no waker behind.
struct Writing<'a>(&'a mut SendStream);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.0.waits {
            self.0.waits = false;
            self.0.shared.lock().forget_writer(self.0.id);
        }
    }
}

/// A future that waits for a receiving part; dropped, it leaves no waker behind.
struct Reading<'a>(&'a mut RecvStream);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.0.waits {
            self.0.waits = false;
            self.0.shared.lock().forget_reader(self.0.id);
        }
    }
}

impl SendStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        // Or the peer has asked to stop before it was accepted.
        shared.lock().senders.entry(id).or_default();
        Self {
            shared,
            id,
            waits: false,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data` and says how much, once there is room in the send buffer.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        let writing = Writing(self);
        poll_fn(|cx| writing.0.poll_write_bytes(cx, data)).await
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let written = self.write(data).await?;
            data = data.get(written..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// Writes all of `chunk` without copying it; it is kept until it is acknowledged.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        let writing = Writing(self);
        while !chunk.is_empty() {
            poll_fn(|cx| writing.0.poll_write_chunk(cx, &mut chunk)).await?;
        }
        Ok(())
    }

    /// [`write`](Self::write) for what cannot await. Pending, it has the task of the last poll
    /// woken; the stream keeps one waker, until it is dropped.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_with(cx, |streams, id| streams.write(id, data))
    }

    /// Writes the front of `chunk` without copying it and takes it off, in the manner of
    /// [`poll_write_bytes`](Self::poll_write_bytes); how many bytes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_with(cx, |streams, id| streams.write_bytes(id, chunk))
    }

    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut streams::Streams, StreamId) -> Result<usize, streams::WriteError>,
    ) -> Poll<Result<usize, WriteError>> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Poll::Ready(Err(error.into()));
        }
        let result = match write(state.core.streams(), self.id) {
            Ok(written) => Ok(written),
            Err(streams::WriteError::Blocked) => {
                state.wait_to_write(self.id, cx);
                self.waits = true;
                return Poll::Pending;
            }
            Err(streams::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(_) => Err(WriteError::Closed),
        };
        state.wake_driver();
        Poll::Ready(result)
    }

    /// No more will be written; what was is delivered.
    ///
    /// # Errors
    /// [`WriteError`] if the stream was finished, reset or stopped before.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Err(error.into());
        }
        let result = match state.core.streams().finish(self.id) {
            Ok(()) => Ok(()),
            Err(streams::FinishError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(_) => Err(WriteError::Closed),
        };
        state.wake_driver();
        result
    }

    /// Abandons the stream with an application error code: nothing more is delivered.
    ///
    /// # Errors
    /// [`WriteError::Closed`] if it is done already.
    pub fn reset(&mut self, code: u32) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().reset(self.id, code.into());
        state.wake_driver();
        result.map_err(|_| WriteError::Closed)
    }

    /// Streams of higher priority are sent first; those of the same take turns. 0 at first.
    ///
    /// # Errors
    /// [`WriteError::Closed`] if it is done already.
    pub fn set_priority(&mut self, priority: i32) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().set_priority(self.id, priority);
        result.map_err(|_| WriteError::Closed)
    }

    /// Says that about `bytes` more will be written: the size of a file, where it is known. Routers
    /// are then asked for no starting rate that this does not need, and others get it. A hint: more
    /// or less may be written.
    ///
    /// # Errors
    /// [`WriteError::Closed`] if it is done already.
    pub fn announce(&mut self, bytes: u64) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().announce(self.id, bytes);
        result.map_err(|_| WriteError::Closed)
    }

    /// Waits until the peer has everything (`None`) or asked to stop (its application error code).
    ///
    /// # Errors
    /// [`WriteError::ConnectionLost`].
    pub async fn stopped(&mut self) -> Result<Option<u64>, WriteError> {
        let writing = Writing(self);
        poll_fn(|cx| writing.0.poll_stopped(cx)).await
    }

    /// [`stopped`](Self::stopped) in the manner of [`poll_write_bytes`](Self::poll_write_bytes),
    /// whose waker it replaces.
    ///
    /// # Errors
    /// [`WriteError::ConnectionLost`].
    pub fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, WriteError>> {
        let mut state = self.shared.lock();
        let lost = state.lost();
        let Some(sender) = state.senders.get_mut(&self.id) else {
            return Poll::Ready(Err(WriteError::Closed));
        };
        match (sender.end, lost) {
            (Some(end), _) => Poll::Ready(Ok(end)),
            (None, Some(error)) => Poll::Ready(Err(error.into())),
            (None, None) => {
                state.wait_to_write(self.id, cx);
                self.waits = true;
                Poll::Pending
            }
        }
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.forget_sender(self.id);
        // Finished, reset or stopped before: then there is nothing to do.
        if state.core.streams().finish(self.id).is_ok() {
            state.wake_driver();
        }
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        Poll::Ready(ready!(this.poll_write_bytes(cx, data)).map_err(Into::into))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().finish().map_err(Into::into))
    }
}

impl RecvStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        Self {
            shared,
            id,
            done: false,
            ended: false,
            waits: false,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what is there next, in order, into `out`; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_read_bytes(cx, out)).await
    }

    /// The next piece of data, in order; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        let reading = Reading(self);
        poll_fn(|cx| reading.0.poll_read_chunk(cx)).await
    }

    /// [`read`](Self::read) for what cannot await. Pending, it has the task of the last poll woken;
    /// the stream keeps one waker, until it is dropped.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        self.poll_with(cx, |streams, id| streams.read(id, out))
    }

    /// [`read_chunk`](Self::read_chunk) in the manner of
    /// [`poll_read_bytes`](Self::poll_read_bytes).
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll_with(cx, |streams, id| streams.read_chunk(id, usize::MAX))
    }

    /// Everything up to the end.
    ///
    /// # Errors
    /// [`ReadToEndError`], among others if there is more than `limit`.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk().await? {
            if all.len() + chunk.len() > limit {
                return Err(ReadToEndError::TooLong(limit));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut streams::Streams, StreamId) -> Result<Option<T>, streams::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if self.ended {
            // Also where the connection is over since: nothing is missing.
            return Poll::Ready(Err(ReadError::Closed));
        }
        let mut state = self.shared.lock();
        let result = match read(state.core.streams(), self.id) {
            Ok(read) => Ok(read),
            // What had arrived before the connection was lost can still be read.
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
                None => Err(ReadError::Closed),
            },
        };
        self.done |= !matches!(result, Ok(Some(_)));
        self.ended |= matches!(result, Ok(None));
        // Reading may have opened the peer's windows.
        state.wake_driver_for_credit();
        Poll::Ready(result)
    }

    /// Asks the peer to stop sending, with an application error code.
    ///
    /// # Errors
    /// [`ReadError::Closed`] if the stream is done already.
    pub fn stop(&mut self, code: u32) -> Result<(), ReadError> {
        self.done = true;
        let mut state = self.shared.lock();
        let result = state.core.streams().stop(self.id, code.into());
        state.wake_driver();
        result.map_err(|_| ReadError::Closed)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.forget_reader(self.id);
        if !self.done && state.core.streams().stop(self.id, 0).is_ok() {
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
            // As a reader of bytes sees it, the end may be read again and again.
            Err(ReadError::Closed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}
