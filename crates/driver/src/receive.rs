//! The task that receives for all connections of an endpoint.
//!
//! Where its runtime has several threads it opens itself what is for the connection that most of a
//! batch is for (of those for which nothing waits), and leaves the rest to the tasks of the other
//! connections: so the packets of one connection are not copied, and those of many are decrypted on
//! all cores. What is for a handshake it leaves to the connection's task in any case, which signs
//! and checks signatures as it opens that: no other connection waits for it.

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

/// Receive batches that one turn of the task handles before other tasks get their turn.
const BATCHES_PER_TURN: usize = 8;

/// Datagrams for no connection that one turn of the task handles before other tasks get theirs: for
/// a client's first packet keys are derived, and a batch may hold some two thousand, since the
/// kernel hands over what one sender has sent together as one message.
const STRANGERS_PER_TURN: usize = 64;

/// Bytes after which applications get a turn if datagrams pile up that they have not read: their
/// queue drops the oldest, and a batch may hold twice as much as it takes.
const BEFORE_READERS: usize = 128 * 1024;

/// How long a socket that was replaced is read after its last connection has left it: until what
/// was under way to there has arrived.
const LINGER: Duration = Duration::from_secs(3);

/// The task that receives at one socket, for all connections of an endpoint. It ends when no
/// connection or handle can use it any more.
pub(super) struct ReceiveTask {
    batch: Batch,
    /// Where in the batch the next turn goes on; `None`: all of it is dealt with.
    rest: Option<usize>,
    /// Datagrams for no connection in this turn.
    strangers: usize,
    shares: Shares,
    /// Another thread may open packets meanwhile.
    hands_over: bool,
    /// The answer to a stranger.
    answer: Vec<u8>,
    place: Place,
    /// Once the socket was replaced.
    replaced: Option<Replaced>,
    /// It has ended in order.
    over: bool,
    /// These go last: who sees the socket closed may count on the memory above being free.
    socket: Arc<Socket>,
    shared: Arc<EndpointShared>,
}

/// A socket that was replaced, which is looked after once in a while.
struct Replaced {
    timer: Timer,
    look_at: Instant,
    /// No connection was at the socket when it was last looked at.
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

    /// True once `socket` has been unused for [`LINGER`].
    fn is_over(&mut self, socket: &Arc<Socket>, cx: &Context<'_>) -> bool {
        loop {
            let now = clock::now();
            if self.timer.poll(cx, now, Some(self.look_at)).is_pending() {
                return false;
            }
            // Connections' tasks hold the others.
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

    /// Deals with the batch, or with as much of it as may be in this turn. True if it is others'
    /// turn after that.
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
            // What came before is opened here if there is one thread: a handshake that it completes
            // makes no room for this client. With several, each handshake's packets are left to its
            // task, and while they wait there it keeps its place for a while.
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

    /// Finds whom the datagrams of the batch from place `from` on are for, up to the first packet
    /// of a client, or until it may be others' turn.
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

    /// Opens the datagrams of the batch that are sorted, which stand at `from..to`, or leaves them
    /// to the tasks of their connections. True if applications should read before there is more.
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

/// Threads besides this one run the tasks of this runtime.
fn has_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| {
        runtime.runtime_flavor() == RuntimeFlavor::MultiThread
            && runtime.metrics().num_workers() > 1
    })
}

/// How far the datagrams of a batch are sorted.
enum Sorted {
    /// Up to a client's first packet: its place, and itself.
    First(usize, FirstPacket),
    /// Up to this place; the rest has to wait.
    Pause(usize),
    /// Up to this place; the rest may have to wait.
    Part(usize),
    All,
}

/// Whom the datagrams of a batch are for.
#[derive(Default)]
struct Shares {
    of_each: Vec<Share>,
    /// Each datagram's place among the shares; `None`: it is for no connection.
    owners: Vec<Option<usize>>,
}

/// The datagrams of a batch for one connection.
struct Share {
    connection: Arc<Shared>,
    datagrams: usize,
    bytes: usize,
    /// Where its datagrams are gathered for the connection's task; `None`: they are opened here.
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

    /// Leaves the shares to the tasks of their connections, all but the largest one of those for
    /// which nothing waits yet and whose handshake is complete.
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
    /// Leaves a group to the connection's task, or opens it where too much waits for that.
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
    /// The socket is of no use any more: the connections at it are over, and the endpoint if it
    /// has no other.
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
            // The runtime of the endpoint has ended, and this socket came to it in another.
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
            // No task reads the socket any more.
            self.fail(&match std::thread::panicking() {
                true => ConnectionError::Panicked,
                false => ConnectionError::RuntimeEnded,
            });
        }
        let _forgotten = self.shared.lock().receiving.leave(&mut self.place);
    }
}
