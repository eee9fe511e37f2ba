//! The state that the tasks of connections, their endpoint and the application share, and how they
//! wait for each other. A connection's part is behind a lock, and tasks are woken after it is
//! unlocked.

mod connection;
mod endpoint;
mod state;

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;

use bytes::Bytes;
pub(super) use endpoint::{Found, respond};
use rustc_hash::FxHashMap;
use state::Sender;
use tokio::runtime::Handle;

use super::config::ClientConfig;
use super::interfaces::Interfaces;
use super::socket::Socket;
use super::timers::Timers;
use super::unopened::{Groups, Inbox};
use super::waiters::WaitList;
use pathmark_transport::connection::{self as core, ConnectionError};
use pathmark_transport::endpoint::ConnectionHandle;
use pathmark_transport::path::LARGEST_MTU;
use pathmark_transport::streams::{Dir, StreamId};

/// Bytes per send batch. With segmentation offload, one system call can send as many bytes as the
/// largest single datagram has.
pub(super) const BATCH_BYTES: usize = LARGEST_MTU as usize;

/// A connection, as shared by its task, its endpoint and the application.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) endpoint: Arc<EndpointShared>,
    pub(super) handle: ConnectionHandle,
    /// A number that no other connection of this process has or had.
    pub(super) id: usize,
    /// Datagrams that have arrived but are not opened yet.
    pub(super) inbox: Inbox,
    /// At a client, the name of the server.
    pub(super) server_name: Option<String>,
    /// References that keep the connection open ([`User`](super::user::User)). Others only keep its
    /// state alive.
    pub(super) users: AtomicUsize,
    /// The most bytes that the path has needed of the socket's receive buffer.
    pub(super) receive_buffer: AtomicUsize,
    /// The handshake is not complete.
    handshaking: AtomicBool,
    /// The connection must end because another connection needs its place.
    refused: AtomicBool,
}

/// The part of a connection that its lock protects.
pub(super) struct State {
    pub(super) core: Box<core::Connection>,
    pub(super) senders: FxHashMap<StreamId, Sender>,
    pub(super) readers: FxHashMap<StreamId, Waker>,
    /// Bidirectional streams of the peer that the application has accepted.
    accepted: u64,
    pub(super) lost: Option<ConnectionError>,
    /// The number of probe timeouts when ICMP first reported the server as unreachable during the
    /// handshake.
    pub(super) out_of_reach: Option<u64>,
    /// Why the kernel refused the last datagram, if it did.
    pub(super) send_error: Option<io::ErrorKind>,
    pub(super) driver: Option<Waker>,
    /// Some of the data to send may share a packet with what other tasks are about to write.
    pub(super) may_gather: bool,
    /// The socket from which the task sends and at which the peer's packets arrive.
    pub(super) socket: Weak<Socket>,
    /// The socket to which the connection will move as soon as it may.
    pub(super) next_socket: Option<Arc<Socket>>,
    /// Tasks that wait for the handshake, its confirmation, a change of the longest datagram, or
    /// the end.
    pub(super) progress: WaitList,
    /// Tasks that wait for the peer to open a bidirectional or unidirectional stream.
    accepting: [WaitList; 2],
    /// Tasks that wait for the peer to allow a bidirectional or unidirectional stream.
    opening: [WaitList; 2],
    /// Tasks that wait for a datagram.
    reading: WaitList,
    sending: WaitList,
    /// Tasks that wait until the peer has received all streams that were finished.
    delivering: WaitList,
    /// Wakers to wake or drop once the state is unlocked.
    pub(super) later: Later,
}

/// An event that tasks wait for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    Progress,
    Accept(Dir),
    Open(Dir),
    Datagram,
    DatagramRoom,
    Delivery,
}

/// An endpoint, as shared by its tasks, its connections and the application.
pub(super) struct EndpointShared {
    /// The runtime in which the endpoint was created.
    pub(super) runtime: Handle,
    pub(super) timers: Arc<Timers>,
    pub(super) state: Mutex<EndpointState>,
    pub(super) interfaces: Interfaces,
    pub(super) spare: Mutex<Vec<Box<[u8]>>>,
    /// Groups of datagrams that connections' tasks will open.
    pub(super) groups: Arc<Groups>,
    pub(super) received: ReceivedCount,
    pub(super) users: AtomicUsize,
}

/// Counts the datagrams for connections, and those that the connections' own tasks opened.
#[derive(Debug, Default)]
pub(super) struct ReceivedCount {
    pub(super) all: AtomicU64,
    pub(super) handed_over: AtomicU64,
}

/// The part of an endpoint that its lock protects.
pub(super) struct EndpointState {
    /// The socket for new connections, and for answers to datagrams of no connection.
    pub(super) socket: Arc<Socket>,
    pub(super) core: pathmark_transport::endpoint::Endpoint,
    pub(super) connections: Vec<Option<Arc<Shared>>>,
    pub(super) alive: usize,
    /// Clients that want to connect, with the socket at which each has arrived.
    pub(super) incoming: VecDeque<(pathmark_transport::endpoint::Incoming, Weak<Socket>)>,
    pub(super) accepting: WaitList,
    pub(super) idle: WaitList,
    /// The tasks that receive, with one for each socket.
    pub(super) receiving: WaitList,
    pub(super) closed: bool,
    /// The configuration for connections that are started without one.
    pub(super) client: Option<ClientConfig>,
    /// Tokens by server name.
    pub(super) tokens: FxHashMap<String, Bytes>,
}

/// The locked state. Tasks are only woken, and wakers only dropped, after unlocking it, because a
/// task that is woken or dropped may end and drop handles of this connection.
pub(crate) struct Guard<'a> {
    state: MutexGuard<'a, State>,
    /// Declared after the state, so that it is dropped after unlocking.
    later: Option<Later>,
}

/// Work for the time when the state is unlocked.
#[derive(Default)]
pub(crate) struct Later {
    woken: Woken,
    forgotten: Vec<Waker>,
}

impl Later {
    fn is_empty(&self) -> bool {
        self.woken.first.is_none() && self.forgotten.is_empty()
    }

    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.woken.extend(wakers);
    }

    /// Adds a waker to drop, because its task isn't waiting any more.
    pub(crate) fn forget(&mut self, waker: Option<Waker>) {
        self.forgotten.extend(waker);
    }
}

/// Wakers that are woken when this is dropped. A single waker, as after most packets, needs no
/// allocation.
#[derive(Default)]
struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Woken {
    fn extend(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        let mut wakers = wakers.into_iter();
        if self.first.is_none() {
            self.first = wakers.next();
        }
        self.others.extend(wakers);
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            self.others.drain(..).for_each(Waker::wake);
        }
    }
}

impl<'a> Guard<'a> {
    pub(crate) fn new(state: MutexGuard<'a, State>) -> Self {
        Self { state, later: None }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // This may be a panic in the application's code, for example a controller or a logger.
            // Since the state may be inconsistent, the task must check it.
            self.state.wake_driver();
        }
        // Most calls wake nobody, so this is worth a branch.
        if !self.state.later.is_empty() {
            self.later = Some(std::mem::take(&mut self.state.later));
        }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

#[cfg(test)]
mod guard_tests {
    use std::sync::Arc;

    use super::*;
    use crate::test_waker::Woken as WakeFlag;

    /// All tasks are woken, and a single waker, as after most packets, needs no allocation.
    #[test]
    fn one_waker_takes_no_memory_and_many_are_all_woken() {
        for count in [0, 1, 2, 50] {
            let flags: Vec<_> = (0..count).map(|_| Arc::new(WakeFlag::default())).collect();
            let mut woken = Woken::default();
            for flag in &flags {
                woken.extend(Some(Waker::from(Arc::clone(flag))));
                woken.extend(None);
            }
            assert_eq!(woken.others.capacity() == 0, count <= 1, "{count}");
            assert!(!flags.iter().any(|flag| flag.take()));
            drop(woken);
            assert!(flags.iter().all(|flag| flag.take()), "{count}");
        }
    }
}
