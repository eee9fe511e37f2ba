//! The sending parts of streams, as an application uses them.

use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;

use super::shared::Shared;
use super::stream_error::WriteError;
use super::user::User;
use super::waiters::Place;
use pathmark_transport::VarInt;
use pathmark_transport::streams::{self, StreamId};

/// The sending part of a stream.
///
/// You can write until you [`finish`](Self::finish) or [`reset`](Self::reset) the stream, the peer
/// stops it, or the connection ends. [`stopped`](Self::stopped) returns how it ended.
///
/// Dropping this finishes the stream, so that written data is still delivered as long as something
/// keeps the connection open: a [`Connection`](super::Connection), another stream, or the future of
/// [`stopped`](Self::stopped). To abandon the stream instead, call [`reset`](Self::reset).
#[derive(Debug)]
pub struct SendStream {
    shared: User,
    id: StreamId,
    /// The connection keeps a waker of the task that polled last.
    waits: bool,
}

/// A future that waits for a sending part. Dropping it removes its waker.
struct Writing<'a>(&'a mut SendStream);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.0.waits {
            self.0.waits = false;
            self.0.shared.lock().forget_writer(self.0.id);
        }
    }
}

impl SendStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        // The peer may have asked to stop before the stream was accepted.
        shared.lock().hold_sender(id);
        Self {
            shared: User::new(shared),
            id,
            waits: false,
        }
    }

    /// Returns the stream's number on the wire.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data` once the send buffer has room, and returns the number of bytes
    /// written. Dropping the future before it is ready writes nothing.
    ///
    /// # Errors
    /// [`WriteError`] if the stream is stopped, finished or reset, or if the connection is over.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        let writing = Writing(self);
        poll_fn(|cx| writing.0.poll_write_bytes(cx, data)).await
    }

    /// Writes all of `data`.
    ///
    /// If you drop the future before it is ready, it may have written a part of the data, and you
    /// can't tell how much. If this matters, call [`write`](Self::write) instead, or
    /// [`reset`](Self::reset) the stream. If you called [`finish`](Self::finish), the peer would
    /// take the part for the whole.
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

    /// Writes all of `chunk` without copying, by keeping it until it is acknowledged.
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

    /// Poll-based [`write`](Self::write), for callers that cannot await. When this returns
    /// `Pending`, the task of the most recent poll will be woken. The stream keeps one waker until
    /// you drop it.
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

    /// Writes the front of `chunk` without copying, removes the written part from `chunk`, and
    /// returns its length. This wakes tasks as [`poll_write_bytes`](Self::poll_write_bytes) does.
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
        let error = match write(state.core.streams(), self.id) {
            Ok(written) => {
                state.wake_driver_for_data(written);
                return Poll::Ready(Ok(written));
            }
            Err(streams::WriteError::Blocked) => {
                state.wait_to_write(self.id, cx);
                self.waits = true;
                return Poll::Pending;
            }
            Err(streams::WriteError::Stopped(code)) => WriteError::Stopped(code),
            Err(_) => WriteError::ClosedStream,
        };
        state.wake_driver();
        Poll::Ready(Err(error))
    }

    /// Finishes the stream. You can't write any more, but data that you have written will be
    /// delivered.
    ///
    /// If the peer has stopped the stream or the connection is over, this has no effect, and
    /// [`stopped`](Self::stopped) returns why.
    ///
    /// # Errors
    /// [`WriteError::ClosedStream`] if you have already finished or reset the stream.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        match self.end() {
            Err(WriteError::Stopped(_) | WriteError::ConnectionLost(_)) => Ok(()),
            ended => ended,
        }
    }

    /// Finishes the stream, unless it has ended in any way.
    fn end(&mut self) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Err(error.into());
        }
        let result = match state.core.streams().finish(self.id) {
            Ok(()) => Ok(()),
            Err(streams::FinishError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(_) => Err(WriteError::ClosedStream),
        };
        state.wake_driver_for_data(0);
        result
    }

    /// Abandons the stream with an application error code below 2^62. Data that the peer hasn't
    /// received yet may never arrive.
    ///
    /// # Errors
    /// [`WriteError::ClosedStream`] if the stream has already ended.
    pub fn reset(&mut self, code: VarInt) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().reset(self.id, code.into());
        state.wake_driver();
        result.map_err(|_| WriteError::ClosedStream)
    }

    /// Sets the priority, which is initially 0. Streams of higher priority are sent first, and
    /// streams of the same priority take turns.
    ///
    /// # Errors
    /// [`WriteError::ClosedStream`] if the stream has already ended.
    pub fn set_priority(&self, priority: i32) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().set_priority(self.id, priority);
        result.map_err(|_| WriteError::ClosedStream)
    }

    /// Announces that you will write about `bytes` more, for example if you know the size of a
    /// file. The connection then requests no higher starting rate from routers than this needs, so
    /// that others can get it. This is only a hint: you can write more or less.
    ///
    /// # Errors
    /// [`WriteError::ClosedStream`] if the stream has already ended.
    pub fn announce(&mut self, bytes: u64) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().announce(self.id, bytes);
        result.map_err(|_| WriteError::ClosedStream)
    }

    /// Waits until the peer has received everything or acknowledged your [`reset`](Self::reset)
    /// (both return `None`), or until it asks you to stop (which returns its application error
    /// code).
    ///
    /// The future is `'static`, so that you can use it in a `select!` with writes, and after
    /// dropping this part.
    ///
    /// # Errors
    /// [`WriteError::ConnectionLost`].
    pub fn stopped(&self) -> Stopped {
        self.shared.lock().hold_sender(self.id);
        Stopped {
            shared: self.shared.clone(),
            id: self.id,
            place: Place::default(),
        }
    }

    /// Marks the beginning of a flow that would otherwise have its own connection. The stream's
    /// next 14,720 bytes, an initial window (RFC 9002 §7.2), can be in flight in addition to the
    /// congestion window, until a loss or CE mark. This has no effect once the stream has ended.
    pub fn start_flow(&self) {
        let _ = self.shared.lock().core.streams().start_flow(self.id);
    }

    /// Sets how many packets the stream can send per turn when it takes turns with other streams.
    /// The initial weight is 1. This has no effect once the stream has ended.
    pub fn set_weight(&self, weight: NonZeroU8) {
        let mut state = self.shared.lock();
        let _ = state.core.streams().set_weight(self.id, weight);
    }

    /// Returns a handle that tells whether the stream is only waiting for flow control credit from
    /// the peer, rather than for the path. You can use it even after dropping this part.
    pub fn stall(&self) -> Stall {
        Stall {
            shared: Arc::clone(&self.shared),
            id: self.id,
        }
    }

    /// Poll-based [`stopped`](Self::stopped), which wakes tasks as
    /// [`poll_write_bytes`](Self::poll_write_bytes) does and replaces its waker.
    ///
    /// # Errors
    /// [`WriteError::ConnectionLost`].
    pub fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, WriteError>> {
        let mut state = self.shared.lock();
        match state.sender_end(self.id) {
            Some(end) => Poll::Ready(end),
            None => {
                state.wait_to_write(self.id, cx);
                self.waits = true;
                Poll::Pending
            }
        }
    }
}

/// A handle that tells whether a stream has used up the peer's flow control credit, returned by
/// [`SendStream::stall`].
#[derive(Clone, Debug)]
pub struct Stall {
    shared: Arc<Shared>,
    id: StreamId,
}

impl Stall {
    /// Returns true while the stream has data to send but no credit.
    pub fn is_now(&self) -> bool {
        self.shared.lock().core.streams().is_stalled(self.id)
    }
}

/// Future of the end of a sending part, returned by [`SendStream::stopped`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Stopped {
    shared: User,
    id: StreamId,
    place: Place,
}

impl Future for Stopped {
    type Output = Result<Option<u64>, WriteError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, id, place } = &mut *self;
        let mut state = shared.lock();
        match state.sender_end(*id) {
            Some(end) => Poll::Ready(end),
            None => {
                state.wait_for_end(*id, place, cx);
                Poll::Pending
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.leave_end(self.id, &mut self.place);
        state.release_sender(self.id);
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.forget_writer(self.id);
        state.release_sender(self.id);
        // This fails if the stream was already finished, reset or stopped, and then nothing is left
        // to do.
        if state.core.streams().finish(self.id).is_ok() {
            state.wake_driver_for_data(0);
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
        Poll::Ready(self.get_mut().end().map_err(Into::into))
    }
}
