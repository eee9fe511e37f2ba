//! HTTP datagrams (RFC 9297): each datagram of a connection belongs to one request stream.
//!
//! ```text
//!   DATAGRAM frame ─► one task per connection ─► queue of the stream ─► its flow
//!     quarter stream id                            full: the oldest is dropped and counted
//! ```
//!
//! Outgoing datagrams also wait in a queue per stream
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

/// Maximum number of bytes that a flow keeps for its reader, counting [`OVERHEAD`] for each
/// datagram in addition to its length.
const FLOW_BYTES: usize = 256 * 1024;
const OVERHEAD: usize = 64;
/// Maximum number of datagrams to keep for streams whose request has not been read yet.
const EARLY: usize = 64;

/// Distributes the datagrams of a connection to their streams until it is dropped.
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

/// A datagram, and the ECN field of the packet that carried it.
type Arrived = (Bytes, Ecn);

#[derive(Default)]
struct State {
    flows: HashMap<u64, Arc<Queue>>,
    early: VecDeque<(u64, Arrived)>,
    /// Whether the connection has ended.
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

/// The datagrams of one stream. It receives them until it is dropped.
pub struct DatagramFlow {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    sending: DatagramQueue,
    stream: u64,
}

/// The reason why a datagram was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramRefused {
    /// It is longer than the path allows, or the peer doesn't support datagrams. You can send a
    /// capsule instead.
    #[error("the datagram is longer than the path carries")]
    TooLong,
    /// The connection has ended.
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
    /// Starts reading the datagrams of a connection.
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
                    reading
                        .connection
                        .close(code.into(), b"a datagram has no stream");
                    break;
                }
            }
            reading.end();
        });
        Self { shared, task }
    }

    /// Returns the datagrams of a stream, including those that arrived before its request was read.
    pub(super) fn flow(&self, stream: u64) -> DatagramFlow {
        self.shared.flow(stream)
    }

    /// Returns the number of arrived datagrams that were dropped for lack of room or a stream.
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

    /// Hands a datagram to its stream. Returns `None` if its prefix isn't a valid stream id.
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

    /// Marks the end of the connection. Readers get the remaining datagrams first.
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

    /// Removes the oldest datagram. Returns `None` while the queue is empty.
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
    /// Queues a datagram with a context of one byte, for a packet with this ECN field. If the
    /// packet has to be marked with CE, the context is changed to `ce`. Without `ce`, the
    /// datagram is dropped instead of being marked.
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
            SendDatagramError::TooLarge | SendDatagramError::UnsupportedByPeer => {
                DatagramRefused::TooLong
            }
            _ => DatagramRefused::Over,
        })
    }

    /// Sets the weight among the connection's flows and streams, which is 1 initially.
    pub fn set_weight(&self, weight: NonZeroU8) {
        self.sending.set_weight(weight);
    }

    /// Returns the counters of queued datagrams.
    pub const fn queue(&self) -> &Arc<QueueCounters> {
        self.sending.counters()
    }

    /// Waits for the next datagram, and returns it with the ECN field of the packet that carried
    /// it. Dropping the future loses no datagram.
    ///
    /// # Errors
    /// [`LinkError`], once the connection has ended.
    pub async fn receive(&self) -> Result<(Bytes, Ecn), LinkError> {
        loop {
            let arrived = self.queue.arrived.notified();
            tokio::pin!(arrived);
            // Register before checking the queue, so that the end isn't missed either.
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
