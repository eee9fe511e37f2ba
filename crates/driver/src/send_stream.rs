//! Sending parts of streams as an application sees them.

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
use super::waiters::Place;
use pathmark_transport::VarInt;
use pathmark_transport::streams::{self, StreamId};

/// The sending part of a stream.
///
/// Dropped, it is finished: what was written is still delivered. To abandon it,
/// [`reset`](Self::reset) it.
#[derive(Debug)]
pub struct SendStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// The waker of the last poll is kept for it.
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

impl SendStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        // Or the peer has asked to stop before it was accepted.
        shared.lock().hold_sender(id);
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

    /// Writes some of `data` and returns how much, once there is room in the send buffer. Dropped
    /// before it is ready, the future has written nothing.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        let writing = Writing(self);
        poll_fn(|cx| writing.0.poll_write_bytes(cx, data)).await
    }

    /// Writes all of `data`. Dropped before it is ready, the future has written a part, and nothing
    /// tells how much: use [`write`](Self::write) where that matters, or
    /// [`reset`](Self::reset) the stream. After [`finish`](Self::finish) the peer takes the part
    /// for the whole.
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

    /// Abandons the stream with an application error code below 2^62: nothing more is delivered.
    ///
    /// # Errors
    /// [`WriteError::Closed`] if it is done already.
    pub fn reset(&mut self, code: impl Into<VarInt>) -> Result<(), WriteError> {
        let mut state = self.shared.lock();
        let result = state.core.streams().reset(self.id, code.into().into());
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

    /// Waits until the peer has everything, or has acknowledged this side's
    /// [`reset`](Self::reset) (both `None`), or until it asked to stop (its application error
    /// code). The future is `'static`: it may wait in a `select!` with writes, and after this part
    /// is dropped.
    ///
    /// # Errors
    /// [`WriteError::ConnectionLost`].
    pub fn stopped(&self) -> Stopped {
        self.shared.lock().hold_sender(self.id);
        Stopped {
            shared: Arc::clone(&self.shared),
            id: self.id,
            place: Place::default(),
        }
    }

    /// Says that the stream carries a flow which would have a connection of its own elsewhere. Its
    /// next 14,720 bytes, an initial window (RFC 9002 §7.2), may be in flight in addition to the
    /// congestion window, until a loss or CE. It has no effect once the stream has ended.
    pub fn start_flow(&self) {
        let _ = self.shared.lock().core.streams().start_flow(self.id);
    }

    /// Sets how many packets the stream sends in its turn among those with data, 1 at first. It has
    /// no effect once the stream has ended.
    pub fn set_weight(&self, weight: NonZeroU8) {
        let mut state = self.shared.lock();
        let _ = state.core.streams().set_weight(self.id, weight);
    }

    /// Tells at any time, also after this part is dropped, whether it waits for the peer's credit
    /// alone, and not for the path.
    #[must_use]
    pub fn stall(&self) -> Stall {
        Stall {
            shared: Arc::clone(&self.shared),
            id: self.id,
        }
    }

    /// [`stopped`](Self::stopped) in the manner of [`poll_write_bytes`](Self::poll_write_bytes),
    /// whose waker it replaces.
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

/// Tells whether the peer's credit for a stream is used up: see [`SendStream::stall`].
#[derive(Clone, Debug)]
pub struct Stall {
    shared: Arc<Shared>,
    id: StreamId,
}

impl Stall {
    /// True while the stream has data to send and no credit.
    #[must_use]
    pub fn is_now(&self) -> bool {
        self.shared.lock().core.streams().is_stalled(self.id)
    }
}

/// Waits for the end of a sending part: see [`SendStream::stopped`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Stopped {
    shared: Arc<Shared>,
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
