//! An endpoint as an application sees it, and what its tasks share.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rand::Rng as _;
use rustc_hash::FxHashMap;

use super::clock;
use super::config::{ClientConfig, ServerConfig};
use super::connection::{BATCH_BYTES, Connecting, Connection, Shared};
use super::incoming::Accept;
use super::receive::ReceiveTask;
use super::socket::{Outgoing, Socket, SocketBuffers, interface_mtu};
use super::task::ConnectionTask;
use super::timers::{TimerTask, Timers};
use super::waiters::{Place, WaitList};
use crate::connection::{self as core_connection, Received};
use crate::crypto::tls::EndpointSecret;
use crate::crypto::{Random, SharedEndpointKey, gather_entropy};
use crate::endpoint::{
    self as core, ConnectionHandle, DatagramEvent, EndpointConfig, EndpointStats,
};
use crate::{Ecn, Instant};

/// Send buffers kept for the next batch; beyond them they are freed.
const SPARE_BUFFERS: usize = 4;
/// Servers whose address-validation token is remembered.
const REMEMBERED_SERVERS: usize = 64;

/// The cryptography library was told to gather entropy.
static ENTROPY: Once = Once::new();

/// A connection could not be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be connected to from this endpoint's socket.
    #[error(
        "cannot connect to {0} from this endpoint: port 0, or the other IP version than the socket's"
    )]
    Address(SocketAddr),
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
    /// The connection could not begin.
    #[error(transparent)]
    Core(#[from] core::ConnectError),
}

/// A UDP socket with QUIC connections on it, as client, server or both. Cheap to clone.
///
/// When the last clone is dropped, no further connection is accepted; those there are go on.
pub struct Endpoint {
    pub(super) shared: Arc<EndpointShared>,
}

pub(super) struct EndpointShared {
    pub(super) socket: Socket,
    pub(super) timers: Arc<Timers>,
    pub(super) state: Mutex<EndpointState>,
    pub(super) spare: Mutex<Vec<Box<[u8]>>>,
    pub(super) users: AtomicUsize,
}

pub(super) struct EndpointState {
    pub(super) core: core::Endpoint,
    /// By handle.
    pub(super) connections: Vec<Option<Arc<Shared>>>,
    pub(super) alive: usize,
    pub(super) incoming: VecDeque<core::Incoming>,
    pub(super) accepting: WaitList,
    pub(super) idle: WaitList,
    pub(super) task: Option<Waker>,
    pub(super) closed: bool,
    /// By server name.
    pub(super) tokens: FxHashMap<String, Bytes>,
    pub(super) answer: Vec<u8>,
}

impl Endpoint {
    /// An endpoint that connects only, bound to `address` (port 0: any).
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn client(address: SocketAddr) -> io::Result<Self> {
        Self::new(std::net::UdpSocket::bind(address)?, None)
    }

    /// An endpoint that accepts connections and may connect too.
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn server(config: ServerConfig, address: SocketAddr) -> io::Result<Self> {
        Self::new(std::net::UdpSocket::bind(address)?, Some(config))
    }

    /// An endpoint on a socket that is bound already.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn new(socket: std::net::UdpSocket, server: Option<ServerConfig>) -> io::Result<Self> {
        let mut seed = [0; 32];
        draw(&mut seed);
        let now = clock::now();
        let epoch = clock::unix_time().saturating_sub(now.saturating_since(Instant::ZERO));
        let key = match server.as_ref().and_then(|server| server.key.clone()) {
            Some(key) => key,
            None => random_key()?,
        };
        let mut config = EndpointConfig::new(key, epoch);
        if let Some(server) = server {
            config.server = Some(core::ServerConfig {
                transport: server.transport,
                crypto: server.crypto,
            });
            config.retry = server.retry.unwrap_or(config.retry);
            config.max_half_open = server.max_half_open.unwrap_or(config.max_half_open);
            config.max_connections = server.max_connections.unwrap_or(config.max_connections);
        }
        let shared = Arc::new(EndpointShared {
            socket: Socket::new(socket)?,
            timers: Arc::new(Timers::new()?),
            state: Mutex::new(EndpointState {
                core: core::Endpoint::new(config, Random::from_seed(seed)),
                connections: Vec::new(),
                alive: 0,
                incoming: VecDeque::new(),
                accepting: WaitList::default(),
                idle: WaitList::default(),
                task: None,
                closed: false,
                tokens: FxHashMap::default(),
                answer: Vec::new(),
            }),
            spare: Mutex::new(Vec::new()),
            users: AtomicUsize::new(1),
        });
        // The first handshake of a process is not to wait for the library's entropy: some 30 ms.
        ENTROPY.call_once(|| drop(tokio::task::spawn_blocking(gather_entropy)));
        tokio::spawn(ReceiveTask::new(Arc::clone(&shared)));
        tokio::spawn(TimerTask::new(Arc::clone(&shared.timers)));
        Ok(Self { shared })
    }

    /// Begins a connection to `address`, whose certificate must fit `server_name`. An endpoint
    /// bound to `[::]` connects to IPv4 addresses too, where the system's sockets take both
    /// versions (on Linux).
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &self,
        config: ClientConfig,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let local = self.shared.socket.local_address();
        let remote = self
            .shared
            .socket
            .reaches(address)
            .ok_or(ConnectError::Address(address))?;
        let interface = interface_mtu(remote, bound(local));
        let mut state = self.shared.lock();
        if state.closed {
            return Err(ConnectError::Closed);
        }
        let token = state.tokens.remove(server_name).unwrap_or_default();
        let connect = core::Connect {
            config: config.transport,
            crypto: config.crypto,
            server_name: server_name.to_owned(),
            remote,
            local: bound(local),
            token: token.into(),
        };
        let (handle, mut connection) = state.core.connect(clock::now(), connect)?;
        if let Some(bytes) = interface {
            connection.set_interface_mtu(bytes);
        }
        let name = Some(server_name.to_owned());
        Ok(self.shared.begin(state, handle, connection, name))
    }

    /// The next client that asks for a connection; `None` once the endpoint is closed.
    pub fn accept(&self) -> Accept<'_> {
        Accept::new(self)
    }

    /// The address that the socket is bound to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.shared.socket.local_address()
    }

    /// The socket's buffers as the kernel granted them.
    #[must_use]
    pub fn socket_buffers(&self) -> SocketBuffers {
        self.shared.socket.buffers()
    }

    /// Counters of what was for no connection, and of what the kernel did not say.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let mut stats = self.shared.lock().core.stats();
        stats.cut_off = self.shared.socket.cut_off();
        stats
    }

    /// Sets the memory for data that was received and not read yet, of all connections together,
    /// bytes. 512 MiB at first ([`EndpointConfig::receive_memory`]); a connection of 10 Gbit/s over
    /// 720 ms wants 8 GiB: it may hold half of the memory at most.
    pub fn set_receive_memory(&self, bytes: u64) {
        self.shared.lock().core.set_receive_memory(bytes);
    }

    /// Connections that are not over and forgotten yet.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().alive
    }

    /// Ends all connections with an application error code and a reason, and accepts none any more.
    pub fn close(&self, code: u32, reason: &[u8]) {
        let mut state = self.shared.lock();
        state.stop_accepting();
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        for connection in connections {
            connection.close(code.into(), Bytes::copy_from_slice(reason));
        }
    }

    /// Waits until all connections are over and their peers have been given time to hear of it.
    pub async fn wait_idle(&self) {
        let mut waiting = Idle {
            shared: &self.shared,
            place: Place::default(),
        };
        poll_fn(|cx| waiting.poll(cx)).await;
    }
}

/// Unpredictable bytes for seeds and secrets.
#[expect(clippy::disallowed_methods, reason = "the driver draws the seeds")]
fn draw(out: &mut [u8]) {
    rand::rng().fill_bytes(out);
}

fn random_key() -> io::Result<SharedEndpointKey> {
    let mut secret = [0; 32];
    draw(&mut secret);
    let key = EndpointSecret::new(&secret).map_err(io::Error::other)?;
    Ok(Arc::new(key))
}

/// The local address, if it is one and not any.
fn bound(local: SocketAddr) -> Option<IpAddr> {
    Some(local.ip()).filter(|ip| !ip.is_unspecified())
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.shared.users.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.shared.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.shared.lock();
            state.stop_accepting();
            self.shared.end_if_over(&mut state);
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("local", &self.local_address())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointShared")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

/// Waits until no connection is left; dropped, it waits no longer.
struct Idle<'a> {
    shared: &'a EndpointShared,
    place: Place,
}

impl Idle<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.alive == 0 {
            return Poll::Ready(());
        }
        state.idle.wait(&mut self.place, cx);
        Poll::Pending
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.shared.lock().idle.leave(&mut self.place);
    }
}

impl EndpointState {
    /// Hands a client to whoever accepts next.
    fn push_incoming(&mut self, incoming: core::Incoming) {
        if self.incoming.len() >= self.incoming.capacity() {
            // Before there are more of them than ever: those that came too late or had to make room
            // are of no use.
            let core = &self.core;
            self.incoming.retain(|incoming| core.is_waiting(incoming));
        }
        self.incoming.push_back(incoming);
        self.accepting.wake();
    }

    /// Connections that have had to make room.
    fn evicted(&mut self) -> Vec<Arc<Shared>> {
        let Self {
            core, connections, ..
        } = self;
        std::iter::from_fn(|| core.poll_evicted())
            .filter_map(|handle| connections.get(handle.0)?.clone())
            .collect()
    }

    pub(super) fn stop_accepting(&mut self) {
        self.closed = true;
        self.core.set_server(None);
        for incoming in self.incoming.drain(..) {
            self.core.ignore(incoming);
        }
        self.accepting.wake();
    }
}

impl EndpointShared {
    pub(super) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        // A panic elsewhere does not make the endpoint's own state any worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn socket_buffers(&self) -> SocketBuffers {
        self.socket.buffers()
    }

    /// A buffer for one send batch.
    pub(super) fn take_buffer(&self) -> Box<[u8]> {
        let spare = self.spare().pop();
        spare.unwrap_or_else(|| vec![0; BATCH_BYTES].into_boxed_slice())
    }

    /// Gives a buffer back.
    pub(super) fn give_buffer(&self, buffer: Box<[u8]>) {
        let mut spare = self.spare();
        if spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once no connection is left, and nobody who could begin one.
    pub(super) fn is_over(&self, state: &EndpointState) -> bool {
        state.alive == 0 && self.users.load(Ordering::Acquire) == 0
    }

    /// Ends the endpoint's own tasks, once nobody needs them.
    fn end_if_over(&self, state: &mut EndpointState) {
        if self.is_over(state) {
            if let Some(task) = state.task.take() {
                task.wake();
            }
            self.timers.end();
        }
    }

    /// Starts the task of a new connection.
    pub(super) fn begin(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, EndpointState>,
        handle: ConnectionHandle,
        connection: core_connection::Connection,
        server_name: Option<String>,
    ) -> Connecting {
        let shared = Shared::new(connection, Arc::clone(self), handle, server_name);
        if state.connections.len() <= handle.0 {
            state.connections.resize_with(handle.0 + 1, || None);
        }
        if let Some(slot) = state.connections.get_mut(handle.0) {
            *slot = Some(Arc::clone(&shared));
            state.alive += 1;
        }
        drop(state);
        let connecting = Connecting::new(Connection::new(Arc::clone(&shared)));
        tokio::spawn(ConnectionTask::new(shared));
        connecting
    }

    /// Takes from a connection the ids to find it by.
    pub(super) fn route(
        &self,
        now: Instant,
        handle: ConnectionHandle,
        connection: &mut core_connection::Connection,
    ) {
        self.lock().core.route(now, handle, connection);
    }

    /// Takes from a connection what the endpoint must know. False: it is over; its task ends.
    pub(super) fn update(
        &self,
        now: Instant,
        handle: ConnectionHandle,
        connection: &mut core_connection::Connection,
    ) -> bool {
        let mut state = self.lock();
        if state.core.update(now, handle, connection) {
            return true;
        }
        if let Some(slot) = state.connections.get_mut(handle.0)
            && slot.take().is_some()
        {
            state.alive -= 1;
        }
        if state.alive == 0 {
            state.idle.wake();
            self.end_if_over(&mut state);
        }
        false
    }

    /// Keeps a token for the next connection to the same server.
    pub(super) fn remember(&self, server_name: &str, token: Bytes) {
        let mut state = self.lock();
        if state.tokens.len() < REMEMBERED_SERVERS || state.tokens.contains_key(server_name) {
            state.tokens.insert(server_name.to_owned(), token);
        }
    }

    pub(super) fn respond(&self, to: SocketAddr, from: Option<IpAddr>, bytes: &[u8]) {
        // If the kernel has no room, the answer is lost like any datagram; strangers ask again.
        self.socket.send(&Outgoing {
            to,
            from,
            ecn: Ecn::NotEct,
            dscp: 0,
            bytes,
            segment: bytes.len(),
        });
    }

    /// Finds the connection of a datagram; strangers are answered here.
    pub(super) fn sort(
        &self,
        now: Instant,
        received: &Received,
        bytes: &[u8],
    ) -> Option<Arc<Shared>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        match state.core.handle(now, received, bytes, &mut state.answer) {
            DatagramEvent::Connection(handle) => state.connections.get(handle.0)?.clone(),
            DatagramEvent::Incoming(incoming) => {
                state.push_incoming(incoming);
                let evicted = state.evicted();
                drop(guard);
                // A connection's lock comes before the endpoint's.
                evicted.iter().for_each(|connection| connection.refuse(now));
                None
            }
            DatagramEvent::Respond => {
                self.respond(received.remote, received.local, &state.answer);
                None
            }
            DatagramEvent::Nothing => None,
        }
    }
}
