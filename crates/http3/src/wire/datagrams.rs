//! HTTP datagrams (RFC 9297): datagrams of a connection, each of one request stream.
//!
//! ```text
//!   DATAGRAM frame ─► one task per connection ─► queue of the stream ─► its flow
//!     quarter stream id                            full: the oldest is dropped and counted
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use h3::{ConnectionState, SharedState};
use pathmark_driver::{self as driver, SendDatagramError};
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

#[derive(Default)]
struct State {
    flows: HashMap<u64, Arc<Queue>>,
    early: VecDeque<(u64, Bytes)>,
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
    datagrams: VecDeque<Bytes>,
    bytes: usize,
    over: bool,
}

/// The datagrams of one stream. The stream has them as long as this exists.
pub struct DatagramFlow {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
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
            while let Ok(datagram) = reading.connection.read_datagram().await {
                if reading.hand_over(datagram).is_none() {
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
    fn hand_over(&self, mut datagram: Bytes) -> Option<()> {
        let (quarter, rest) = varint::take(&datagram)?;
        let stream = quarter.checked_mul(4).filter(|id| *id <= varint::MAX)?;
        datagram.advance(datagram.len() - rest.len());
        let queue = {
            let mut state = lock(&self.state);
            match state.flows.get(&stream) {
                Some(queue) => Arc::clone(queue),
                None => {
                    state.early.push_back((stream, datagram));
                    if state.early.len() > EARLY {
                        state.early.pop_front();
                        self.drop_one();
                    }
                    return Some(());
                }
            }
        };
        queue.push(datagram, self);
        Some(())
    }

    fn flow(self: &Arc<Self>, stream: u64) -> DatagramFlow {
        let queue = Arc::new(Queue::default());
        let mut state = lock(&self.state);
        state.early.retain(|(of, datagram)| {
            if *of == stream {
                queue.push(datagram.clone(), self);
            }
            *of != stream
        });
        lock(&queue.waiting).over = state.over;
        state.flows.insert(stream, Arc::clone(&queue));
        DatagramFlow {
            shared: Arc::clone(self),
            queue,
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
    fn push(&self, datagram: Bytes, shared: &Shared) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += datagram.len() + OVERHEAD;
        waiting.datagrams.push_back(datagram);
        while waiting.bytes > FLOW_BYTES {
            let Some(oldest) = waiting.datagrams.pop_front() else {
                break;
            };
            waiting.bytes -= oldest.len() + OVERHEAD;
            shared.drop_one();
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The oldest datagram; `None` while there is none.
    fn pop(&self) -> Option<Result<Bytes, LinkError>> {
        let mut waiting = lock(&self.waiting);
        match waiting.datagrams.pop_front() {
            Some(datagram) => {
                waiting.bytes -= datagram.len() + OVERHEAD;
                Some(Ok(datagram))
            }
            None => waiting.over.then(|| {
                let why = "the connection is over".to_owned();
                Err(LinkError::Ended(why))
            }),
        }
    }
}

impl DatagramFlow {
    /// Sends a datagram with this `head` and `payload` when the connection's queue has room.
    ///
    /// # Errors
    /// [`DatagramRefused`].
    pub async fn send(&self, head: &[u8], payload: &[u8]) -> Result<(), DatagramRefused> {
        if !self.shared.peer.settings().enable_datagram() {
            return Err(DatagramRefused::TooLong);
        }
        let mut datagram = Vec::with_capacity(8 + head.len() + payload.len());
        varint::put(&mut datagram, self.stream / 4);
        datagram.extend_from_slice(head);
        datagram.extend_from_slice(payload);
        let most = self.shared.connection.max_datagram_size();
        if most.is_none_or(|most| datagram.len() > most) {
            return Err(DatagramRefused::TooLong);
        }
        let sent = self.shared.connection.send_datagram_wait(datagram.into());
        sent.await.map_err(|error| match error {
            SendDatagramError::TooLong(_) | SendDatagramError::Unsupported => {
                DatagramRefused::TooLong
            }
            _ => DatagramRefused::Over,
        })
    }

    /// The next datagram. A dropped future loses none.
    ///
    /// # Errors
    /// [`LinkError`] once the connection is over.
    pub async fn receive(&self) -> Result<Bytes, LinkError> {
        loop {
            let arrived = self.queue.arrived.notified();
            tokio::pin!(arrived);
            // From here on it hears of the end, too.
            arrived.as_mut().enable();
            if let Some(datagram) = self.queue.pop() {
                return datagram;
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
