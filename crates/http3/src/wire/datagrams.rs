//! HTTP datagrams (RFC 9297): datagrams of a connection, each of one request stream.
//!
//! ```text
//!   DATAGRAM frame ─► one task per connection ─► queue of the stream ─► its flow
//!     quarter stream id                            full: the oldest is dropped and counted
//! ```
//!
//! Those that are sent wait in a queue of their stream, too
//! ([`DatagramQueue`](pathmark_driver::DatagramQueue)).

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use h3::{ConnectionState, SharedState};
use pathmark_driver::{self as driver, DatagramQueue, SendDatagramError};
use pathmark_transport::{Ecn, FlowDatagram, QueueCounters};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::error::{LinkError, codes};
use super::{streams, varint};

/// Bytes that a flow keeps for its reader; each datagram counts [`OVERHEAD`] more.
const FLOW_BYTES: usize = 256 * 1024;
const OVERHEAD: usize = 64;
/// Datagrams that are kept of streams whose request is not read yet.
const EARLY: usize = 64;

/// Hands the datagrams of a connection to their streams, as long as it exists.
#[derive(Debug)]
pub(super) struct Hub {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    connection: driver::Connection,
    /// The peer's SETTINGS.
    peer: Arc<SharedState>,
    state: Mutex<State>,
    dropped: AtomicU64,
}

/// A datagram, and the ECN field of the packet that it came in.
type Arrived = (Bytes, Ecn);

#[derive(Default)]
struct State {
    flows: HashMap<u64, Arc<Queue>>,
    early: VecDeque<(u64, Arrived)>,
    /// The connection is over.
    over: bool,
}

/// Datagrams that have arrived for one stream.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    datagrams: VecDeque<Arrived>,
    bytes: usize,
    over: bool,
}

/// The datagrams of one stream. The stream has them as long as this exists.
pub struct DatagramFlow {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    sending: DatagramQueue,
    stream: u64,
}

/// A datagram was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramRefused {
    /// It is longer than the path carries, or the peer takes no datagrams: a capsule is left.
    #[error("the datagram is longer than the path carries")]
    TooLong,
    /// The connection is over.
    #[error("the connection is over")]
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Hub {
    /// Begins to read the datagrams of a connection.
    pub(super) fn new(connection: driver::Connection, peer: Arc<SharedState>) -> Self {
        let shared = Arc::new(Shared {
            connection,
            peer,
            state: Mutex::default(),
            dropped: AtomicU64::new(0),
        });
        let reading = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok(arrived) = reading.connection.read_marked_datagram().await {
                if reading.hand_over(arrived).is_none() {
                    let code = streams::short(codes::DATAGRAM_ERROR);
                    reading.connection.close(code, b"a datagram has no stream");
                    break;
                }
            }
            reading.end();
        });
        Self { shared, task }
    }

    /// The datagrams of a stream from now on, with those that came before its request was read.
    pub(super) fn flow(&self, stream: u64) -> DatagramFlow {
        self.shared.flow(stream)
    }

    /// Datagrams that arrived and had no room or no stream.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.end();
    }
}

impl Shared {
    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// `None`: it names no request stream.
    fn hand_over(&self, (mut datagram, ecn): Arrived) -> Option<()> {
        let (quarter, rest) = varint::take(&datagram)?;
        let stream = quarter.checked_mul(4).filter(|id| *id <= varint::MAX)?;
        datagram.advance(datagram.len() - rest.len());
        let queue = {
            let mut state = lock(&self.state);
            match state.flows.get(&stream) {
                Some(queue) => Arc::clone(queue),
                None => {
                    state.early.push_back((stream, (datagram, ecn)));
                    if state.early.len() > EARLY {
                        state.early.pop_front();
                        self.drop_one();
                    }
                    return Some(());
                }
            }
        };
        queue.push((datagram, ecn), self);
        Some(())
    }

    fn flow(self: &Arc<Self>, stream: u64) -> DatagramFlow {
        let queue = Arc::new(Queue::default());
        let mut state = lock(&self.state);
        state.early.retain(|(of, arrived)| {
            if *of == stream {
                queue.push(arrived.clone(), self);
            }
            *of != stream
        });
        lock(&queue.waiting).over = state.over;
        state.flows.insert(stream, Arc::clone(&queue));
        DatagramFlow {
            shared: Arc::clone(self),
            queue,
            sending: self.connection.datagram_queue(),
            stream,
        }
    }

    /// Readers get what is left, and then the end.
    fn end(&self) {
        let mut state = lock(&self.state);
        state.over = true;
        for queue in state.flows.values() {
            lock(&queue.waiting).over = true;
            queue.arrived.notify_waiters();
        }
    }
}

impl Queue {
    fn push(&self, arrived: Arrived, shared: &Shared) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += arrived.0.len() + OVERHEAD;
        waiting.datagrams.push_back(arrived);
        while waiting.bytes > FLOW_BYTES {
            let Some((oldest, _)) = waiting.datagrams.pop_front() else {
                break;
            };
            waiting.bytes -= oldest.len() + OVERHEAD;
            shared.drop_one();
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The oldest datagram; `None` while there is none.
    fn pop(&self) -> Option<Result<Arrived, LinkError>> {
        let mut waiting = lock(&self.waiting);
        match waiting.datagrams.pop_front() {
            Some(arrived) => {
                waiting.bytes -= arrived.0.len() + OVERHEAD;
                Some(Ok(arrived))
            }
            None => waiting.over.then(|| {
                let why = "the connection is over".to_owned();
                Err(LinkError::Ended(why))
            }),
        }
    }
}

impl DatagramFlow {
    /// Queues a datagram of a context with one byte, for a packet with this ECN field. `ce`: the
    /// context of packets that have CE; without one, the datagram is dropped in place of a mark.
    ///
    /// # Errors
    /// [`DatagramRefused`].
    pub fn send(
        &self,
        (context, ce): (u8, Option<u8>),
        ecn: Ecn,
        payload: &[u8],
    ) -> Result<(), DatagramRefused> {
        if !self.shared.peer.settings().enable_datagram() {
            return Err(DatagramRefused::TooLong);
        }
        let mut data = Vec::with_capacity(8 + 1 + payload.len());
        varint::put(&mut data, self.stream / 4);
        let place = data.len();
        data.push(context);
        data.extend_from_slice(payload);
        let datagram = FlowDatagram {
            data: data.into(),
            ecn,
            ce: ce.map(|ce| (place, ce)),
        };
        self.sending.send(datagram).map_err(|error| match error {
            SendDatagramError::TooLong(_) | SendDatagramError::Unsupported => {
                DatagramRefused::TooLong
            }
            _ => DatagramRefused::Over,
        })
    }

    /// Sets the weight of the flow among the flows and streams of the connection, 1 at first.
    pub fn set_weight(&self, weight: NonZeroU8) {
        self.sending.set_weight(weight);
    }

    /// The counters of the datagrams that were queued.
    #[must_use]
    pub const fn queue(&self) -> &Arc<QueueCounters> {
        self.sending.counters()
    }

    /// The next datagram, with the ECN field of the packet that it came in. A dropped future loses
    /// none.
    ///
    /// # Errors
    /// [`LinkError`] once the connection is over.
    pub async fn receive(&self) -> Result<(Bytes, Ecn), LinkError> {
        loop {
            let arrived = self.queue.arrived.notified();
            tokio::pin!(arrived);
            // From here on it hears of the end, too.
            arrived.as_mut().enable();
            if let Some(arrived) = self.queue.pop() {
                return arrived;
            }
            arrived.await;
        }
    }
}

impl Drop for DatagramFlow {
    fn drop(&mut self) {
        lock(&self.shared.state).flows.remove(&self.stream);
    }
}
