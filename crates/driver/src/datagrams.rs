//! Unreliable datagrams as an application sees them (RFC 9221).

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::connection::Connection;
use super::shared::{Awaited, Shared};
use super::waiters::Place;
use pathmark_transport::DatagramError;
use pathmark_transport::connection::ConnectionError;

/// A datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no DATAGRAM frames, or its parameters have not arrived.
    #[error("the peer takes no datagrams")]
    Unsupported,
    /// It is longer than this, which is what the path and the peer take now.
    #[error("a datagram may have {0} bytes at most now")]
    TooLong(usize),
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

impl From<DatagramError> for SendDatagramError {
    fn from(error: DatagramError) -> Self {
        match error {
            DatagramError::Unsupported => Self::Unsupported,
            DatagramError::TooLong(most) => Self::TooLong(most),
        }
    }
}

/// The next datagram, or a place among those who wait for one.
fn poll_read(
    shared: &Shared,
    place: &mut Place,
    cx: &Context<'_>,
) -> Poll<Result<Bytes, ConnectionError>> {
    let mut state = shared.lock();
    let ready = match (state.core.datagrams().read(), state.lost()) {
        (Some(data), _) => Ok(data),
        (None, Some(error)) => Err(error),
        (None, None) => {
            state.wait(Awaited::Datagram, place, cx);
            return Poll::Pending;
        }
    };
    state.leave(Awaited::Datagram, place);
    Poll::Ready(ready)
}

impl Connection {
    /// Sends a datagram that may be lost, and is not sent again (RFC 9221). It waits for the
    /// congestion window in a queue; where that is full, the oldest in it are dropped and counted
    /// ([`Stats::datagram_frames_unsent`][unsent]). The peer must take datagrams
    /// ([`DatagramsConfig::receive_bytes`](pathmark_transport::DatagramsConfig::receive_bytes)).
    ///
    /// [unsent]: pathmark_transport::connection::Stats::datagram_frames_unsent
    ///
    /// # Errors
    /// [`SendDatagramError`].
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Err(error.into());
        }
        state.core.datagrams().send(data)?;
        state.wake_driver();
        Ok(())
    }

    /// Sends a datagram as [`send_datagram`](Self::send_datagram) does, once there is room for it
    /// in the queue: no older one is dropped. Of several callers any may get the room first. A
    /// dropped future sends nothing.
    ///
    /// # Errors
    /// [`SendDatagramError`].
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut waiting = self.shared.waiting(Awaited::DatagramRoom);
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error.into()));
            }
            match state.core.datagrams().try_send(&data) {
                Ok(true) => state.wake_driver(),
                Ok(false) => {
                    waiting.wait(&mut state, cx);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Bytes of one more datagram that [`send_datagram`](Self::send_datagram) takes without
    /// dropping an older one from the queue.
    #[must_use]
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.shared.lock().core.datagrams().send_room()
    }

    /// The next datagram of the peer's, the oldest that is there. Those that are not read in time
    /// are dropped and counted
    /// ([`Stats::datagram_frames_unread`][unread]).
    ///
    /// [unread]: pathmark_transport::connection::Stats::datagram_frames_unread
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over and all that had arrived was read.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Datagram);
        poll_fn(|cx| poll_read(&self.shared, waiting.place(), cx)).await
    }

    /// [`read_datagram`](Self::read_datagram) in the manner of
    /// [`poll_open_bi`](Self::poll_open_bi).
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_read_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionError>> {
        poll_read(&self.shared, &mut self.places.datagram, cx)
    }

    /// The longest datagram that can be sent now, bytes; it changes with the path's MTU. `None`:
    /// the peer takes none.
    #[must_use]
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.shared.lock().core.datagrams().max_size()
    }
}
