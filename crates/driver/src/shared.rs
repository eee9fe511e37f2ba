//! What connections' tasks, their endpoint and the application share, and how they wait for each
//! other.

mod connection;
mod endpoint;
mod guard;
mod senders;
mod state;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use bytes::Bytes;
use rustc_hash::FxHashMap;
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

pub(super) use endpoint::{Found, respond};
use guard::Later;
use senders::Sender;

/// Bytes of one send batch: with segmentation offload, one system call takes what one datagram may
/// have.
pub(super) const BATCH_BYTES: usize = LARGEST_MTU as usize;

/// A connection as its task, its endpoint and the application share it.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) endpoint: Arc<EndpointShared>,
    pub(super) handle: ConnectionHandle,
    /// Differs from that of every other connection that this process has or had.
    pub(super) id: usize,
    /// Datagrams that arrived and are not opened yet.
    pub(super) inbox: Inbox,
    /// Client: what the server was called.
    pub(super) server_name: Option<String>,
    /// Clones of [`Connection`](super::Connection); streams keep the state but not the connection
    /// alive.
    pub(super) users: AtomicUsize,
    /// The handshake is not complete.
    handshaking: AtomicBool,
    /// Its place is wanted.
    refused: AtomicBool,
}

/// What of a connection changes under its lock.
pub(super) struct State {
    pub(super) core: Box<core::Connection>,
    pub(super) senders: FxHashMap<StreamId, Sender>,
    pub(super) readers: FxHashMap<StreamId, Waker>,
    /// Bidirectional streams of the peer's that the application has accepted.
    accepted: u64,
    pub(super) lost: Option<ConnectionError>,
    /// Probe timeouts when ICMP first reported the server out of reach, during the handshake.
    pub(super) out_of_reach: Option<u64>,
    /// Why the kernel refused the last datagram, if it did.
    pub(super) send_error: Option<io::ErrorKind>,
    pub(super) driver: Option<Waker>,
    /// Where the task sends and the peer's packets arrive.
    pub(super) socket: Weak<Socket>,
    /// Where the connection is to go on, as soon as it may.
    pub(super) next_socket: Option<Arc<Socket>>,
    /// Waiting for the handshake, its confirmation or the end.
    pub(super) progress: WaitList,
    /// Waiting for the peer to open a stream: bidirectional, unidirectional.
    accepting: [WaitList; 2],
    /// Waiting for the peer to allow a stream: bidirectional, unidirectional.
    opening: [WaitList; 2],
    /// Waiting for a datagram.
    reading: WaitList,
    /// Waiting for room to send a datagram.
    sending: WaitList,
    /// What is to be done with wakers once the state is free.
    pub(super) later: Later,
}

/// The event that a task waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    Progress,
    Accept(Dir),
    Open(Dir),
    Datagram,
    DatagramRoom,
}

/// An endpoint as its tasks, its connections and the application share it.
pub(super) struct EndpointShared {
    /// That the endpoint was made in.
    pub(super) runtime: Handle,
    pub(super) timers: Arc<Timers>,
    pub(super) state: Mutex<EndpointState>,
    pub(super) interfaces: Interfaces,
    pub(super) spare: Mutex<Vec<Box<[u8]>>>,
    /// Datagrams that connections' tasks are to open.
    pub(super) groups: Arc<Groups>,
    pub(super) received: ReceivedCount,
    pub(super) users: AtomicUsize,
}

/// Datagrams for connections, and those of them that the connections' own tasks opened.
#[derive(Debug, Default)]
pub(super) struct ReceivedCount {
    pub(super) all: AtomicU64,
    pub(super) handed_over: AtomicU64,
}

/// What of an endpoint changes under its lock.
pub(super) struct EndpointState {
    /// Where connections begin, and what strangers send is answered.
    pub(super) socket: Arc<Socket>,
    pub(super) core: pathmark_transport::endpoint::Endpoint,
    /// By handle.
    pub(super) connections: Vec<Option<Arc<Shared>>>,
    pub(super) alive: usize,
    /// Clients that ask, with the socket where they did.
    pub(super) incoming: VecDeque<(pathmark_transport::endpoint::Incoming, Weak<Socket>)>,
    pub(super) accepting: WaitList,
    pub(super) idle: WaitList,
    /// The tasks that receive, one for each socket.
    pub(super) receiving: WaitList,
    pub(super) closed: bool,
    /// What connections begin with unless they are given a configuration.
    pub(super) client: Option<ClientConfig>,
    /// By server name.
    pub(super) tokens: FxHashMap<String, Bytes>,
}
