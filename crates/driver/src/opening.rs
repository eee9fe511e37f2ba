//! Opening and accepting streams, as futures and as polls, which callers need if they cannot await,
//! such as implementations of the traits of HTTP/3 crates.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::connection::Connection;
use super::connection::Places;
use super::recv_stream::RecvStream;
use super::send_stream::SendStream;
use super::shared::{Awaited, Shared, State};
use super::waiters::Place;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::streams::{Dir, OpenError, StreamId};

/// Returns the result of `take`, or registers the task to wait for `awaited`.
fn poll(
    shared: &Shared,
    awaited: Awaited,
    place: &mut Place,
    cx: &Context<'_>,
    take: impl FnOnce(&mut State) -> Poll<Result<StreamId, ConnectionError>>,
) -> Poll<Result<StreamId, ConnectionError>> {
    let mut state = shared.lock();
    let taken = take(&mut state);
    match taken {
        Poll::Ready(_) => state.leave(awaited, place),
        Poll::Pending => state.wait(awaited, place, cx),
    }
    taken
}

/// Returns a stream that the peer has opened, or registers the task to wait for one.
fn poll_accept(
    shared: &Shared,
    dir: Dir,
    place: &mut Place,
    cx: &Context<'_>,
) -> Poll<Result<StreamId, ConnectionError>> {
    poll(shared, Awaited::Accept(dir), place, cx, |state| {
        match (state.core.streams().accept(dir), state.lost()) {
            (Some(id), _) => {
                state.on_accepted(id);
                Poll::Ready(Ok(id))
            }
            (None, Some(error)) => Poll::Ready(Err(error)),
            (None, None) => Poll::Pending,
        }
    })
}

/// Opens a stream, or registers the task to wait until this is possible.
fn poll_open(
    shared: &Shared,
    dir: Dir,
    place: &mut Place,
    cx: &Context<'_>,
) -> Poll<Result<StreamId, ConnectionError>> {
    poll(shared, Awaited::Open(dir), place, cx, |state| {
        if let Some(error) = state.lost() {
            return Poll::Ready(Err(error));
        }
        match state.core.streams().open(dir) {
            Ok(id) => Poll::Ready(Ok(id)),
            Err(OpenError::Limit(_)) => {
                // The core may now have to send STREAMS_BLOCKED.
                state.wake_driver();
                Poll::Pending
            }
        }
    })
}

impl Connection {
    /// Opens a bidirectional stream, waiting until the peer allows one.
    /// The peer will not notice this stream before you write to it.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((self.sender(id), self.receiver(id)))
    }

    /// Opens a unidirectional stream, waiting until the peer allows one.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(self.sender(self.open(Dir::Uni).await?))
    }

    /// Waits for the next bidirectional stream that the peer opens.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((self.sender(id), self.receiver(id)))
    }

    /// Waits for the next unidirectional stream that the peer opens.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(self.receiver(self.accept(Dir::Uni).await?))
    }

    /// Poll-based [`open_bi`](Self::open_bi). When this returns `Pending`, the task of the most
    /// recent poll of this handle will be woken. Clones of the handle wait independently, and
    /// dropping one ends its wait.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_open_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        let place = Places::of(&mut self.places.open, Dir::Bi);
        let id = ready!(poll_open(&self.shared, Dir::Bi, place, cx))?;
        Poll::Ready(Ok((self.sender(id), self.receiver(id))))
    }

    /// Poll-based [`open_uni`](Self::open_uni), which wakes tasks as
    /// [`poll_open_bi`](Self::poll_open_bi) does.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_open_uni(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, ConnectionError>> {
        let place = Places::of(&mut self.places.open, Dir::Uni);
        let id = ready!(poll_open(&self.shared, Dir::Uni, place, cx))?;
        Poll::Ready(Ok(self.sender(id)))
    }

    /// Poll-based [`accept_bi`](Self::accept_bi), which wakes tasks as
    /// [`poll_open_bi`](Self::poll_open_bi) does.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_accept_bi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        let place = Places::of(&mut self.places.accept, Dir::Bi);
        let id = ready!(poll_accept(&self.shared, Dir::Bi, place, cx))?;
        Poll::Ready(Ok((self.sender(id), self.receiver(id))))
    }

    /// Poll-based [`accept_uni`](Self::accept_uni), which wakes tasks as
    /// [`poll_open_bi`](Self::poll_open_bi) does.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_accept_uni(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionError>> {
        let place = Places::of(&mut self.places.accept, Dir::Uni);
        let id = ready!(poll_accept(&self.shared, Dir::Uni, place, cx))?;
        Poll::Ready(Ok(self.receiver(id)))
    }

    fn sender(&self, id: StreamId) -> SendStream {
        SendStream::new(Arc::clone(&self.shared), id)
    }

    fn receiver(&self, id: StreamId) -> RecvStream {
        RecvStream::new(Arc::clone(&self.shared), id)
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Open(dir));
        poll_fn(|cx| poll_open(&self.shared, dir, waiting.place(), cx)).await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Accept(dir));
        poll_fn(|cx| poll_accept(&self.shared, dir, waiting.place(), cx)).await
    }
}
