//! The task that receives for all connections of an endpoint.
//!
//! If its runtime has several threads, this task only opens the packets of one connection itself:
//! of the connections that have nothing waiting, the one with the largest share of a batch. It
//! leaves the rest to the tasks of the other connections. Therefore the packets of a single
//! connection aren't copied, whereas the packets of many connections are decrypted on all cores.
//! Packets of a handshake are always left to the connection's task, so that signing and checking
//! signatures doesn't delay other connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::arrivals::Batch;
use super::clock;
use super::shared::{EndpointShared, Found, Shared};
use super::socket::Socket;
use super::timers::{Timer, Timers};
use super::unopened::Group;
use super::waiters::{Place, Wakers};
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::endpoint::FirstPacket;
use pathmark_transport::{Duration, Instant};

/// Receive batches that the task handles per turn before other tasks can run.
const BATCHES_PER_TURN: usize = 8;

/// Datagrams for no connection that the task handles per turn before other tasks can run. A
/// client's first packet requires deriving keys, and a batch can hold about two thousand, since the
/// kernel combines consecutive datagrams of one sender into one message.
const STRANGERS_PER_TURN: usize = 64;

/// Bytes after which applications get a turn if they haven't read their datagrams. Their queue
/// drops the oldest datagrams, and a batch can hold twice as much as fits.
const BEFORE_READERS: usize = 128 * 1024;

/// How long a replaced socket is still read after its last connection has left, so that packets in
/// flight can arrive.
const LINGER: Duration = Duration::from_secs(3);

/// The task that receives at one socket for all connections of an endpoint. It ends when no
/// connection or handle can use the socket any more.
pub(super) struct ReceiveTask {
    batch: Batch,
    /// Position in the batch at which the next turn continues; `None` if the batch is finished.
    rest: Option<usize>,
    /// Datagrams for no connection in this turn.
    strangers: usize,
    shares: Shares,
    /// The runtime has other threads, which can open packets at the same time.
    hands_over: bool,
    /// Buffer for answers to datagrams that belong to no connection.
    answer: Vec<u8>,
    place: Place,
    /// Set once the socket was replaced.
    replaced: Option<Replaced>,
    /// The task has ended regularly.
    over: bool,
    /// These fields are dropped last: if an application sees that the socket is closed, the memory
    /// above is already free.
    socket: Arc<Socket>,
    shared: Arc<EndpointShared>,
}

/// A replaced socket, which is checked from time to time.
struct Replaced {
    timer: Timer,
    look_at: Instant,
    /// At the last check, no connection used the socket.
    is_left: bool,
}

impl Replaced {
    fn new(timers: &Arc<Timers>) -> Self {
        Self {
            timer: Timer::new(timers),
            look_at: clock::now() + LINGER,
            is_left: false,
        }
    }

    /// Returns true once `socket` has been unused for [`LINGER`].
    fn is_over(&mut self, socket: &Arc<Socket>, cx: &Context<'_>) -> bool {
        loop {
            let now = clock::now();
            if self.timer.poll(cx, now, Some(self.look_at)).is_pending() {
                return false;
            }
            // Connections' tasks hold all other references.
            let left = Arc::strong_count(socket) == 1;
            if left && self.is_left {
                return true;
            }
            self.is_left = left;
            self.look_at = now + LINGER;
        }
    }
}

impl ReceiveTask {
    pub(super) fn new(shared: Arc<EndpointShared>, socket: Arc<Socket>) -> Self {
        Self {
            batch: socket.batch(),
            shared,
            socket,
            place: Place::default(),
            replaced: None,
            over: false,
            rest: None,
            strangers: 0,
            shares: Shares::default(),
            hands_over: has_threads(),
            answer: Vec::new(),
        }
    }

    /// Handles the batch, or as much as fits into this turn. Returns true if other tasks should run
    /// next.
    fn handle_batch(&mut self) -> bool {
        let now = clock::now();
        let begin = self.rest.take().unwrap_or(0);
        let (mut sorted, mut done) = (begin, begin);
        let pauses = loop {
            let (at, first) = match self.sort(now, sorted) {
                Sorted::First(at, first) => (at, first),
                Sorted::Pause(at) => {
                    self.open(now, done, at);
                    self.rest = Some(at);
                    break true;
                }
                Sorted::Part(at) => {
                    if self.open(now, done, at) {
                        self.rest = Some(at);
                        break true;
                    }
                    (sorted, done) = (at, at);
                    continue;
                }
                Sorted::All => break self.open(now, done, usize::MAX),
            };
            // With a single thread, everything before this packet is opened here, because a
            // handshake that is now complete needn't make room for this client. With several
            // threads, packets of handshakes are left to their tasks, and a connection keeps its
            // place for a while as long as some are waiting there.
            self.open(now, done, at);
            if let Some(datagram) = self.batch.datagrams().nth(at) {
                let (shared, socket) = (&self.shared, &self.socket);
                let received = datagram.received();
                let bytes = datagram.bytes;
                let found = shared.admit(now, socket, &received, bytes, first, &mut self.answer);
                self.shares.add(found.connection(), bytes.len());
            }
            (sorted, done) = (at + 1, at);
        };
        self.shared.timers.wake_due(now);
        pauses
    }

    /// Finds the connections for the batch's datagrams from position `from` on, up to a client's
    /// first packet or the end of the turn.
    fn sort(&mut self, now: Instant, from: usize) -> Sorted {
        let mut sorted = 0;
        for (at, datagram) in self.batch.datagrams().enumerate().skip(from) {
            if self.strangers >= STRANGERS_PER_TURN {
                return Sorted::Pause(at);
            }
            if sorted >= BEFORE_READERS {
                return Sorted::Part(at);
            }
            let (shared, socket) = (&self.shared, &self.socket);
            let received = datagram.received();
            let bytes = datagram.bytes;
            sorted += bytes.len();
            let found = shared.sort(now, socket, &received, bytes, &mut self.answer);
            self.strangers += usize::from(!matches!(found, Found::Connection(_)));
            match found {
                Found::First(first) => return Sorted::First(at, first),
                found => self.shares.add(found.connection(), bytes.len()),
            }
        }
        Sorted::All
    }

    /// Opens the sorted datagrams of the batch, at positions `from..to`, or leaves them to the
    /// tasks of their connections. Returns true if applications should read before more are opened.
    fn open(&mut self, now: Instant, from: usize, to: usize) -> bool {
        let Self {
            shared,
            batch,
            shares,
            ..
        } = self;
        if shares.of_each.is_empty() {
            shares.owners.clear();
            return false;
        }
        if self.hands_over {
            shares.hand_over();
        }
        let mut piles_up = false;
        let all = shares.of_each.iter().map(|share| share.datagrams);
        shared.received.count(all.sum());
        let datagrams = batch.datagrams().take(to).skip(from);
        for (datagram, owner) in datagrams.zip(&shares.owners) {
            let Some(share) = owner.and_then(|owner| shares.of_each.get_mut(owner)) else {
                continue;
            };
            let received = datagram.received();
            let Some(group) = &mut share.group else {
                piles_up |= share.connection.receive(now, &received, datagram.bytes);
                continue;
            };
            if group.add(received, datagram.bytes) {
                let full = std::mem::replace(group, shared.groups.take());
                share.push(now, full);
            }
        }
        for mut share in shares.of_each.drain(..) {
            match share.group.take() {
                None => share.connection.received_all(),
                Some(group) => {
                    share.push(now, group);
                    share.connection.inbox.wake();
                }
            }
        }
        shares.owners.clear();
        piles_up
    }
}

/// Returns true if this runtime has other threads that run tasks.
fn has_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| {
        runtime.runtime_flavor() == RuntimeFlavor::MultiThread
            && runtime.metrics().num_workers() > 1
    })
}

/// How far the datagrams of a batch are sorted.
enum Sorted {
    /// Up to a client's first packet, with its position.
    First(usize, FirstPacket),
    /// Up to this position; the rest must wait.
    Pause(usize),
    /// Up to this position; the rest may have to wait.
    Part(usize),
    All,
}

/// The assignment of a batch's datagrams to connections.
#[derive(Default)]
struct Shares {
    of_each: Vec<Share>,
    /// The index of each datagram's share; `None` if it belongs to no connection.
    owners: Vec<Option<usize>>,
}

/// The datagrams of a batch for one connection.
struct Share {
    connection: Arc<Shared>,
    datagrams: usize,
    bytes: usize,
    /// Collects the datagrams for the connection's task; `None` if they are opened here.
    group: Option<Group>,
}

impl Shares {
    /// Adds the next datagram.
    fn add(&mut self, connection: Option<Arc<Shared>>, bytes: usize) {
        let Some(connection) = connection else {
            self.owners.push(None);
            return;
        };
        let is_its = |share: &Share| Arc::ptr_eq(&share.connection, &connection);
        let owner = self.of_each.iter().rposition(is_its);
        self.owners.push(Some(owner.unwrap_or(self.of_each.len())));
        match owner.and_then(|owner| self.of_each.get_mut(owner)) {
            Some(share) => {
                share.datagrams += 1;
                share.bytes += bytes;
            }
            None => self.of_each.push(Share {
                connection,
                datagrams: 1,
                bytes,
                group: None,
            }),
        }
    }

    /// Leaves the shares to the tasks of their connections, except for the largest share among
    /// connections that have nothing waiting and whose handshake is complete.
    fn hand_over(&mut self) {
        let idle = self.of_each.iter().enumerate();
        let idle = idle.filter(|(_, share)| {
            share.connection.inbox.is_empty() && !share.connection.is_handshaking()
        });
        let here = idle.max_by_key(|(_, share)| share.bytes).map(|(at, _)| at);
        for (at, share) in self.of_each.iter_mut().enumerate() {
            if Some(at) != here {
                share.group = Some(share.connection.endpoint.groups.take());
            }
        }
    }
}

impl Share {
    /// Leaves a group to the connection's task, or opens it here if too much is waiting for that
    /// task.
    fn push(&self, now: Instant, group: Group) {
        if group.is_empty() {
            return;
        }
        if let Err(group) = self.connection.inbox.push(group) {
            self.connection.receive_group(now, group);
        }
    }
}

impl ReceiveTask {
    /// Ends the connections at this socket because it can't be used any more, and also the endpoint
    /// if this is its current socket.
    fn fail(&self, error: &ConnectionError) {
        let mut state = self.shared.lock();
        let mut accepting = Wakers::default();
        if Arc::ptr_eq(&state.socket, &self.socket) {
            accepting = state.stop_accepting();
        }
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        accepting.for_each(Waker::wake);
        for connection in connections {
            connection.fail(&self.socket, error);
        }
    }
}

impl Future for ReceiveTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.shared.lock();
        if this.shared.is_over(&state) {
            this.over = true;
            return Poll::Ready(());
        }
        if this.shared.timers.are_gone() {
            drop(state);
            // This socket was added in another runtime, and the endpoint's runtime has ended.
            this.fail(&ConnectionError::RuntimeEnded);
            this.over = true;
            return Poll::Ready(());
        }
        let replaced = state.receiving.wait(&mut this.place, cx);
        let is_current = Arc::ptr_eq(&state.socket, &this.socket);
        drop(state);
        drop(replaced);
        if !is_current {
            let timers = &this.shared.timers;
            let replaced = this.replaced.get_or_insert_with(|| Replaced::new(timers));
            if replaced.is_over(&this.socket, cx) {
                this.over = true;
                return Poll::Ready(());
            }
        }
        this.strangers = 0;
        for _ in 0..BATCHES_PER_TURN {
            if this.rest.is_none() {
                match this.socket.poll_receive(cx, &mut this.batch) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => {
                        tracing::error!(%error, "a socket fails, and its connections with it");
                        this.fail(&ConnectionError::Socket(error.kind()));
                        this.over = true;
                        return Poll::Ready(());
                    }
                }
            }
            if this.handle_batch() {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for ReceiveTask {
    fn drop(&mut self) {
        if !self.over {
            // No task will read this socket any more.
            self.fail(&match std::thread::panicking() {
                true => ConnectionError::Panicked,
                false => ConnectionError::RuntimeEnded,
            });
        }
        let _forgotten = self.shared.lock().receiving.leave(&mut self.place);
    }
}
