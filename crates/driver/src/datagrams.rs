//! Unreliable datagrams as an application sees them (RFC 9221).

use std::future::poll_fn;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::clock;
use super::connection::Connection;
use super::shared::{Awaited, Shared, State};
use super::waiters::Place;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::{DatagramError, Ecn, FlowDatagram, QueueCounters};

/// The reason why a datagram was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer doesn't accept DATAGRAM frames, or its parameters have not arrived yet.
    #[error("the peer takes no datagrams")]
    UnsupportedByPeer,
    /// The datagram is longer than [`Connection::max_datagram_size`], the current limit of the path
    /// and the peer.
    #[error("the datagram is longer than the path or the peer currently allows")]
    TooLarge,
    /// The connection is over.
    #[error("the connection is over: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

impl From<DatagramError> for SendDatagramError {
    fn from(error: DatagramError) -> Self {
        match error {
            DatagramError::Unsupported => Self::UnsupportedByPeer,
            DatagramError::TooLong(_) => Self::TooLarge,
        }
    }
}

/// Returns the next datagram with its ECN field, or registers the task to wait for one.
fn poll_read(
    shared: &Shared,
    place: &mut Place,
    cx: &Context<'_>,
) -> Poll<Result<(Bytes, Ecn), ConnectionError>> {
    let mut state = shared.lock();
    let ready = match (state.core.datagrams().read_marked(), state.lost()) {
        (Some(read), _) => Ok(read),
        (None, Some(error)) => Err(error),
        (None, None) => {
            state.wait(Awaited::Datagram, place, cx);
            return Poll::Pending;
        }
    };
    state.leave(Awaited::Datagram, place);
    Poll::Ready(ready)
}

/// A queue for the datagrams of one flow, so that flows don't delay each other.
///
/// Flows and streams of a connection that have something to send share its window by weight. If
/// datagrams have waited longer than 5 ms for an interval, CoDel (RFC 8289) will mark or drop some.
/// This interval is 100 ms, or a round trip if that is longer. Datagrams with ECT(1) are already
/// marked if they waited for 1 ms (RFC 9331). A datagram that has waited for a whole interval is
/// dropped, unless it is the last datagram of its flow.
#[derive(Debug)]
pub struct DatagramQueue {
    shared: Arc<Shared>,
    flow: u64,
    counters: Arc<QueueCounters>,
}

impl DatagramQueue {
    /// Queues a datagram, which may be lost and will not be sent again.
    ///
    /// # Errors
    /// [`SendDatagramError`], as for [`Connection::send_datagram`].
    pub fn send(&self, datagram: FlowDatagram) -> Result<(), SendDatagramError> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Err(error.into());
        }
        let mut datagrams = state.core.datagrams();
        let bytes = datagram.data.len();
        datagrams.send_in(clock::now(), self.flow, datagram)?;
        state.wake_driver_for_data(bytes);
        Ok(())
    }

    /// Sets the weight of this flow, which is 1 initially.
    pub fn set_weight(&self, weight: NonZeroU8) {
        let mut state = self.shared.lock();
        state.core.datagrams().set_flow_weight(self.flow, weight);
    }

    /// Returns the counters of this queue.
    pub const fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

impl Drop for DatagramQueue {
    fn drop(&mut self) {
        self.shared.lock().core.datagrams().close_flow(self.flow);
    }
}

impl Connection {
    /// Opens a queue for the datagrams of one flow. Dropping the returned handle closes this queue.
    pub fn datagram_queue(&self) -> DatagramQueue {
        let counters = Arc::<QueueCounters>::default();
        let mut state = self.shared.lock();
        let flow = state.core.datagrams().open_flow(Arc::clone(&counters));
        DatagramQueue {
            shared: Arc::clone(&self.shared),
            flow,
            counters,
        }
    }

    /// Sends a datagram, which may be lost and will not be sent again (RFC 9221).
    ///
    /// It waits for the congestion window in a queue. If this queue is full, its oldest datagrams
    /// are dropped and counted ([`Stats::datagram_frames_unsent`][unsent]). The peer must accept
    /// datagrams
    /// ([`DatagramsConfig::receive_bytes`](pathmark_transport::DatagramsConfig::receive_bytes)).
    ///
    /// [unsent]: pathmark_transport::connection::Stats::datagram_frames_unsent
    ///
    /// # Errors
    /// [`SendDatagramError`] if the peer accepts no datagrams, if `data` is too long, or if the
    /// connection is over.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut state = self.shared.lock();
        if let Some(error) = state.lost() {
            return Err(error.into());
        }
        let bytes = data.len();
        state.core.datagrams().send(data)?;
        state.wake_driver_for_data(bytes);
        Ok(())
    }

    /// Sends a datagram as [`send_datagram`](Self::send_datagram) does, but waits for room in the
    /// queue instead of dropping an older datagram.
    ///
    /// If several callers wait, any caller may get the room first. Dropping this future
    /// sends nothing.
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
                Ok(true) => state.wake_driver_for_data(data.len()),
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

    /// Returns the length in bytes up to which [`send_datagram`](Self::send_datagram) will not drop
    /// an older datagram.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.shared.lock().core.datagrams().send_room()
    }

    /// Receives the oldest datagram that has arrived, waiting for one if necessary. Datagrams that
    /// you don't read in time are dropped and counted ([`Stats::datagram_frames_unread`][unread]).
    ///
    /// [unread]: pathmark_transport::connection::Stats::datagram_frames_unread
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over and you have read every datagram that had
    /// arrived.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        self.read_marked_datagram().await.map(|(data, _)| data)
    }

    /// Like [`read_datagram`](Self::read_datagram), but also returns the ECN field of the
    /// datagram's packet. This is Not-ECT if the field has a code of VCP instead of the meaning of
    /// RFC 3168.
    ///
    /// # Errors
    /// As for [`read_datagram`](Self::read_datagram).
    pub async fn read_marked_datagram(&self) -> Result<(Bytes, Ecn), ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Datagram);
        poll_fn(|cx| poll_read(&self.shared, waiting.place(), cx)).await
    }

    /// Poll-based [`read_datagram`](Self::read_datagram), which wakes tasks as
    /// [`poll_open_bi`](Self::poll_open_bi) does.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub fn poll_read_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionError>> {
        let read = poll_read(&self.shared, &mut self.places.datagram, cx);
        read.map_ok(|(data, _)| data)
    }

    /// Returns the length in bytes of the longest datagram that you can currently send, or `None`
    /// if the peer doesn't accept datagrams. This changes with the path's MTU: see
    /// [`max_datagram_size_changed`](Self::max_datagram_size_changed).
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.shared.lock().core.datagrams().max_size()
    }

    /// Waits until [`max_datagram_size`](Self::max_datagram_size) differs from `known`, and returns
    /// it. Dropping the future has no effect.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection ends before this.
    pub async fn max_datagram_size_changed(
        &self,
        known: Option<usize>,
    ) -> Result<Option<usize>, ConnectionError> {
        let changed = |state: &mut State| state.core.datagrams().max_size() != known;
        self.shared
            .until_or_lost(Awaited::Progress, changed)
            .await?;
        Ok(self.max_datagram_size())
    }
}
