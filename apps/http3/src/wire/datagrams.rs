//! HTTP datagrams (RFC 9297): each datagram of a connection belongs to one request stream.
//!
//! ```text
//!   DATAGRAM frame ─► one task per connection ─► queue of the stream ─► its flow
//!     quarter stream id                            full: the oldest is dropped and counted
//! ```
//!
//! Outgoing datagrams also wait in a queue per stream
//! ([`DatagramQueue`]).
//!
//! Capsules (section 3) are messages in the content of an extended CONNECT.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes, BytesMut};
use h3::{ConnectionState, SharedState};
use pathmark_driver::{self as driver, DatagramQueue, SendDatagramError};
use pathmark_transport::{Ecn, FlowDatagram, QueueCounters};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{LinkError, codes, frames, streams};
use crate::lock;

/// Maximum number of bytes that a flow keeps for its reader, counting [`OVERHEAD`] for each
/// datagram in addition to its length.
const FLOW_BYTES: usize = 256 * 1024;
const OVERHEAD: usize = 64;
/// Maximum number of datagrams to keep for streams whose request has not been read yet.
const EARLY: usize = 64;

/// Distributes the datagrams of a connection to their streams until it is dropped.
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
        let (quarter, rest) = frames::take(&datagram)?;
        let stream = quarter.checked_mul(4).filter(|id| *id <= frames::MAX)?;
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
        context: u8,
        ce: Option<u8>,
        ecn: Ecn,
        payload: &[u8],
    ) -> Result<(), DatagramRefused> {
        if !self.shared.peer.settings().enable_datagram() {
            return Err(DatagramRefused::TooLong);
        }
        let mut data = Vec::with_capacity(8 + 1 + payload.len());
        frames::put(&mut data, self.stream / 4);
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

/// DATAGRAM, whose value is an HTTP datagram.
pub const DATAGRAM: u64 = 0;

/// A DATAGRAM capsule exceeds the receiver's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a capsule has {0} bytes, which is above the limit")]
pub struct CapsuleTooLong(pub u64);

/// Extracts datagrams from a stream of capsules, skipping other capsules regardless of their
/// length.
#[derive(Debug)]
pub struct Capsules {
    state: CapsuleState,
    limit: u64,
}

#[derive(Debug)]
enum CapsuleState {
    /// The bytes of an incomplete type and length.
    Header(Vec<u8>),
    /// The rest of a datagram.
    Datagram { left: usize, value: BytesMut },
    /// The rest of an unknown capsule.
    Skip(u64),
}

impl Capsules {
    /// Creates a reader for datagrams of at most `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self {
            state: CapsuleState::Header(Vec::new()),
            limit,
        }
    }

    /// Appends the datagrams that the next bytes complete to `out`. Of an incomplete datagram,
    /// at most `limit` bytes are kept.
    ///
    /// # Errors
    /// [`CapsuleTooLong`].
    pub fn feed(
        &mut self,
        mut input: Bytes,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), CapsuleTooLong> {
        while input.has_remaining() {
            match &mut self.state {
                CapsuleState::Header(head) => {
                    head.push(input.get_u8());
                    let (kind, rest) = match frames::take(head) {
                        Some(taken) => taken,
                        None => continue,
                    };
                    if let Some((length, _)) = frames::take(rest) {
                        self.state = self.begin(kind, length, out)?;
                    }
                }
                CapsuleState::Datagram { left, value } => {
                    let here = (*left).min(input.len());
                    let part = input.split_to(here);
                    *left -= here;
                    if *left > 0 {
                        value.extend_from_slice(&part);
                        continue;
                    }
                    // If the whole value is in one piece, no copy is needed.
                    out.push_back(if value.is_empty() {
                        part
                    } else {
                        value.extend_from_slice(&part);
                        std::mem::take(value).freeze()
                    });
                    self.state = CapsuleState::Header(Vec::new());
                }
                CapsuleState::Skip(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX);
                    let here = here.min(input.len());
                    input.advance(here);
                    *left -= here as u64;
                    if *left == 0 {
                        self.state = CapsuleState::Header(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        kind: u64,
        length: u64,
        out: &mut VecDeque<Bytes>,
    ) -> Result<CapsuleState, CapsuleTooLong> {
        Ok(match (kind, length) {
            (DATAGRAM, 0) => {
                out.push_back(Bytes::new());
                CapsuleState::Header(Vec::new())
            }
            (_, 0) => CapsuleState::Header(Vec::new()),
            (DATAGRAM, length) if length > self.limit => return Err(CapsuleTooLong(length)),
            (DATAGRAM, length) => CapsuleState::Datagram {
                left: usize::try_from(length).unwrap_or(usize::MAX),
                value: BytesMut::new(),
            },
            (_, length) => CapsuleState::Skip(length),
        })
    }

    /// Returns true between two capsules, where the content may end.
    pub const fn is_between(&self) -> bool {
        matches!(&self.state, CapsuleState::Header(head) if head.is_empty())
    }
}

/// Encodes a DATAGRAM capsule from the parts of a datagram.
pub fn datagram(parts: [&[u8]; 2]) -> Bytes {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut capsule = Vec::with_capacity(length + 9);
    frames::put(&mut capsule, DATAGRAM);
    frames::put(&mut capsule, length as u64);
    for part in parts {
        capsule.extend_from_slice(part);
    }
    capsule.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_out_whole_and_others_are_skipped() {
        let mut stream = datagram([b"ab", b"c"]).to_vec();
        // Type 0x2575 with 300 bytes, an empty capsule of type 1, and an empty datagram.
        stream.extend_from_slice(b"\x65\x75\x41\x2c");
        stream.extend_from_slice(&[7; 300]);
        stream.extend_from_slice(b"\x01\x00\x00\x00");
        stream.extend_from_slice(&datagram([&[1; 100], &[2; 1]]));
        for chunk in [1, 2, 3, 5, 64, stream.len()] {
            let (mut capsules, mut out) = (Capsules::new(101), VecDeque::new());
            for part in stream.chunks(chunk) {
                capsules
                    .feed(Bytes::copy_from_slice(part), &mut out)
                    .unwrap();
            }
            assert!(capsules.is_between());
            let lengths: Vec<_> = out.iter().map(Bytes::len).collect();
            assert_eq!(lengths, [3, 0, 101], "{chunk}");
            assert_eq!(out[0], "abc");
        }
    }

    #[test]
    fn a_datagram_above_the_limit_is_refused_before_it_arrives() {
        let (mut capsules, mut out) = (Capsules::new(4), VecDeque::new());
        let head = Bytes::from_static(b"\x00\x05");
        assert_eq!(capsules.feed(head, &mut out), Err(CapsuleTooLong(5)));
        let mut capsules = Capsules::new(4);
        capsules
            .feed(Bytes::from_static(b"\x00\x04a"), &mut out)
            .unwrap();
        assert!(!capsules.is_between() && out.is_empty());
    }
}
