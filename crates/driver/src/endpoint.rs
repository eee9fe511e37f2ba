//! Endpoints, as an application uses them.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;

use super::clock;
use super::config::{ClientConfig, EndpointConfig, ServerConfig, TokioRuntime};
use super::handshake::Accept;
use super::handshake::Connecting;
use super::interfaces::{Interfaces, bound};
use super::own_socket::DatagramSocket;
use super::receive_buffer::ReceiveBuffer;
use super::receive_task::ReceiveTask;
use super::shared::{EndpointShared, EndpointState, ReceivedCount};
use super::socket::Socket;
use super::timers::{TimerTask, Timers};
use super::waiters::{Place, WaitList};
use pathmark_transport::crypto::tls::EndpointSecret;
use pathmark_transport::crypto::{Random, SharedEndpointKey, gather_entropy};
use pathmark_transport::endpoint::{self as core, EndpointStats};
use pathmark_transport::{Instant, VarInt};

/// Set once the cryptography library has started to gather entropy.
static ENTROPY: Once = Once::new();

/// Why a connection could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The socket can't reach this address, because its port is 0 or because it has the other IP
    /// version.
    #[error(
        "cannot connect to {0} from this endpoint: port 0, or the other IP version than the \
         socket's"
    )]
    Address(SocketAddr),
    /// The endpoint has no default client configuration. You can call [`Endpoint::connect_with`]
    /// instead.
    #[error("the endpoint has no default client configuration: set one, or connect with one")]
    NoDefaultClientConfig,
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    Closed,
    /// The connection could not be started, for example because the endpoint has too many.
    #[error(transparent)]
    Core(#[from] core::ConnectError),
}

/// A UDP socket that carries QUIC connections as a client, a server or both. Clones are cheap
/// handles of the same endpoint.
///
/// After you drop the last clone, no further connections are accepted, but existing connections
/// continue. To end them as well, call [`close`](Self::close).
///
/// You must create an endpoint inside a tokio runtime that has I/O enabled
/// ([`enable_all`](tokio::runtime::Builder::enable_all)). A connection's task runs in the runtime
/// from which you start it. If you call [`connect`](Self::connect) or
/// [`Incoming::accept`](super::Incoming::accept) outside any runtime, the task runs in the
/// endpoint's runtime instead. All connections end with the endpoint's runtime.
pub struct Endpoint {
    pub(super) shared: Arc<EndpointShared>,
}

impl Endpoint {
    /// Creates an endpoint for outgoing connections only, bound to `address`. If you pass port 0,
    /// the system chooses a port.
    ///
    /// # Errors
    /// If the socket can't be bound, or outside a tokio runtime.
    pub fn client(address: SocketAddr) -> io::Result<Self> {
        Self::from_socket(std::net::UdpSocket::bind(address)?, None)
    }

    /// Creates an endpoint that accepts connections and can also connect.
    ///
    /// # Errors
    /// If the socket can't be bound, or outside a tokio runtime.
    pub fn server(config: ServerConfig, address: SocketAddr) -> io::Result<Self> {
        Self::from_socket(std::net::UdpSocket::bind(address)?, Some(config))
    }

    /// Creates an endpoint on a socket that is already bound. Without `server`, it can only
    /// connect.
    ///
    /// # Errors
    /// If the socket can't be used, or outside a tokio runtime.
    pub fn from_socket(
        socket: std::net::UdpSocket,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let runtime = Arc::new(TokioRuntime);
        Self::new(EndpointConfig::default(), server, socket, runtime)
    }

    /// Creates an endpoint like [`from_socket`](Self::from_socket), with other settings than the
    /// defaults.
    ///
    /// # Errors
    /// If the socket can't be used, or outside a tokio runtime.
    pub fn new(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: std::net::UdpSocket,
        _runtime: Arc<TokioRuntime>,
    ) -> io::Result<Self> {
        Self::begin(|| Socket::new(socket), server, config)
    }

    /// Creates an endpoint on a socket that your application provides, such as a relay, a tunnel or
    /// a simulated network. Otherwise this works like [`new`](Self::new).
    ///
    /// # Errors
    /// Outside a tokio runtime, or if the system provides no timer.
    pub fn new_with_abstract_socket(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn DatagramSocket>,
        _runtime: Arc<TokioRuntime>,
    ) -> io::Result<Self> {
        Self::begin(|| Ok(Socket::own(socket)), server, config)
    }

    fn begin(
        socket: impl FnOnce() -> io::Result<Socket>,
        server: Option<ServerConfig>,
        config: EndpointConfig,
    ) -> io::Result<Self> {
        let adjusted = config;
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let seed = draw()?;
        let now = clock::now();
        let epoch = clock::unix_time().saturating_sub(now.saturating_since(Instant::ZERO));
        let key = match server.as_ref().and_then(|server| server.key.clone()) {
            Some(key) => key,
            None => random_key()?,
        };
        let mut config = core::EndpointConfig::new(key, epoch);
        if let Some(server) = server {
            config.retry = server.retry.unwrap_or(config.retry);
            config.max_half_open = server.max_half_open.unwrap_or(config.max_half_open);
            config.max_connections = server.max_connections.unwrap_or(config.max_connections);
            let tokens = server.remembered_tokens;
            config.remembered_tokens = tokens.unwrap_or(config.remembered_tokens);
            config.server = Some(server.into_core());
        }
        adjusted.apply(&mut config);
        let socket = Arc::new(socket()?);
        let shared = Arc::new(EndpointShared {
            runtime,
            timers: Arc::new(Timers::new()?),
            state: Mutex::new(EndpointState {
                socket: Arc::clone(&socket),
                core: core::Endpoint::new(config, Random::from_seed(seed)),
                connections: Vec::new(),
                alive: 0,
                incoming: VecDeque::new(),
                accepting: WaitList::default(),
                idle: WaitList::default(),
                receiving: WaitList::default(),
                closed: false,
                client: None,
                tokens: FxHashMap::default(),
            }),
            interfaces: Interfaces::default(),
            spare: Mutex::new(Vec::new()),
            groups: Arc::default(),
            received: ReceivedCount::default(),
            users: AtomicUsize::new(1),
        });
        // Gather entropy in the background, so that the first handshake of a process doesn't have
        // to wait some 30 ms for it.
        ENTROPY.call_once(|| drop(tokio::task::spawn_blocking(gather_entropy)));
        tokio::spawn(ReceiveTask::new(Arc::clone(&shared), socket));
        tokio::spawn(TimerTask::new(Arc::clone(&shared.timers)));
        Ok(Self { shared })
    }

    /// Starts connecting to `address` like [`connect_with`](Self::connect_with), by using the
    /// [default configuration](Self::set_default_client_config).
    ///
    /// # Errors
    /// [`ConnectError::NoDefaultClientConfig`] if you haven't set one; otherwise as for
    /// [`connect_with`](Self::connect_with).
    pub fn connect(
        &self,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let config = self.shared.lock().client.clone();
        let config = config.ok_or(ConnectError::NoDefaultClientConfig)?;
        self.connect_with(config, address, server_name)
    }

    /// Sets the configuration that [`connect`](Self::connect) uses, for all clones of this
    /// endpoint. Connections that have already started keep theirs.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        self.shared.lock().client = Some(config);
    }

    /// Starts connecting to `address`. The server's certificate must match `server_name`.
    ///
    /// An endpoint bound to `[::]` can also connect to IPv4 addresses if the system's sockets
    /// support both versions, as on Linux.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection can't be started. If the handshake fails later,
    /// [`Connecting`] returns the reason.
    pub fn connect_with(
        &self,
        config: ClientConfig,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let socket = self.shared.socket();
        let local = socket.local_address();
        let remote = socket
            .reaches(address)
            .ok_or(ConnectError::Address(address))?;
        let interfaces = &self.shared.interfaces;
        let interface = interfaces.mtu(clock::now(), &socket, remote, bound(local));
        let mut state = self.shared.lock();
        if !Arc::ptr_eq(&socket, &state.socket) {
            // The socket was replaced in the meantime.
            drop(state);
            return self.connect_with(config, address, server_name);
        }
        if state.closed {
            return Err(ConnectError::Closed);
        }
        // [9000 8.1.3 own-server]
        let token = state.tokens.get(server_name).cloned().unwrap_or_default();
        let connect = core::Connect {
            config: config.transport.shared(),
            crypto: config.crypto,
            server_name: server_name.to_owned(),
            remote,
            local: bound(local),
            token: token.into(),
        };
        let prepared = state.core.client(clock::now(), connect)?;
        state.tokens.remove(server_name);
        drop(state);
        // The endpoint's lock is free here, so that no other task has to wait for the key exchange.
        let started = prepared.start(clock::now());
        let mut connection = started.map_err(core::ConnectError::from)?;
        if let Some(bytes) = interface {
            connection.set_interface_mtu(bytes);
        }
        let mut state = self.shared.lock();
        if state.closed {
            return Err(ConnectError::Closed);
        }
        let handle = state.core.add(clock::now(), &mut connection)?;
        let name = Some(server_name.to_owned());
        let begun = core::Accepted {
            handle,
            connection,
            datagrams: Vec::new(),
        };
        Ok(Connecting::begin(&self.shared, state, socket, begun, name))
    }

    /// Removes and returns the latest token that `server_name` issued for a later connection
    /// (NEW_TOKEN, RFC 9000 §8.1.3), unless a connection has already used it. You can store this
    /// token for a single connection of a later process from the same address.
    pub fn take_token(&self, server_name: &str) -> Option<Bytes> {
        self.shared.lock().tokens.remove(server_name)
    }

    /// Gives this endpoint a token that `server_name` issued to an [earlier](Self::take_token)
    /// endpoint. The next connection to this server uses it. Tokens longer than 512 bytes are
    /// dropped, and so are those for servers beyond the first 64.
    pub fn set_token(&self, server_name: &str, token: Bytes) {
        self.shared.remember(server_name, token);
    }

    /// Waits for the next client that wants to connect. Returns `None` once the endpoint is closed.
    pub fn accept(&self) -> Accept<'_> {
        Accept::new(&self.shared)
    }

    /// Replaces the configuration for accepting connections, for example to change the certificate,
    /// the protocols or transport settings.
    ///
    /// Connections that you have accepted keep their configuration, whereas clients that are still
    /// waiting get the new configuration. An endpoint that could only connect accepts connections
    /// from now on. With `None`, an endpoint ignores clients that aren't accepted yet. The key of
    /// its tokens and resets doesn't change, regardless of the configuration.
    ///
    /// # Errors
    /// [`ConnectError::Closed`] if the endpoint was closed.
    pub fn set_server_config(
        &self,
        config: impl Into<Option<ServerConfig>>,
    ) -> Result<(), ConnectError> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(ConnectError::Closed);
        }
        let Some(config) = config.into() else {
            state.core.set_server(None);
            return Ok(());
        };
        if let Some(policy) = config.retry {
            state.core.set_retry(policy);
        }
        let half_open = config.max_half_open;
        state.core.set_limits(half_open, config.max_connections);
        state.core.set_server(Some(config.into_core()));
        Ok(())
    }

    /// Returns [`local_address`](Self::local_address), so that programs for quinn compile.
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local_address())
    }

    /// Returns the address to which the socket is bound.
    pub fn local_address(&self) -> SocketAddr {
        self.shared.socket().local_address()
    }

    /// Returns the size of the socket's receive buffer. It grows with the round-trip times of paths
    /// and with the number of connections.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        self.shared.socket().receive_buffer()
    }

    /// Returns the endpoint's counters, such as datagrams for no connection, control messages that
    /// were cut off, and datagrams that connections' own tasks opened.
    pub fn stats(&self) -> EndpointStats {
        let state = self.shared.lock();
        let mut stats = state.core.stats();
        stats.cut_off = state.socket.cut_off();
        let received = &self.shared.received;
        stats.received = received.all.load(Ordering::Relaxed);
        stats.handed_over = received.handed_over.load(Ordering::Relaxed);
        stats
    }

    /// Sets the memory for data that peers can send before applications read it, in bytes for all
    /// connections together.
    ///
    /// The default of [`EndpointConfig::receive_memory`](core::EndpointConfig::receive_memory) is
    /// 512 MiB. Because a single connection can take at most half of this, you should set 8 GiB for
    /// one of 10 Gbit/s over 720 ms.
    pub fn set_receive_memory(&self, bytes: u64) {
        self.shared.lock().core.set_receive_memory(bytes);
    }

    /// Sets the part of [this memory](Self::set_receive_memory), in bytes, that is available beyond
    /// the credit which applications earn by reading. It is initially a quarter of the memory, and
    /// changing the memory resets it to a quarter. Once unread streams hold half of this part, they
    /// take credit from others.
    pub fn set_unread_memory(&self, bytes: u64) {
        self.shared.lock().core.set_unearned_memory(bytes);
    }

    /// Returns the number of connections, including those that have ended but still wait for late
    /// packets (RFC 9000 §10.2).
    pub fn open_connections(&self) -> usize {
        self.shared.lock().alive
    }

    /// Closes all connections with an application error code below 2^62 and a reason. Afterwards,
    /// no connections can be accepted or started.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let code = code.into_inner();
        let mut state = self.shared.lock();
        let accepting = state.stop_accepting();
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        accepting.for_each(Waker::wake);
        for connection in connections {
            connection.close(code, Bytes::copy_from_slice(reason));
        }
    }

    /// Waits until all connections are over and their peers have had time to receive the close.
    /// Await this after [`close`](Self::close), before exiting.
    pub async fn wait_idle(&self) {
        let mut waiting = Idle {
            shared: &self.shared,
            place: Place::default(),
        };
        poll_fn(|cx| waiting.poll(cx)).await;
    }
}

/// Returns random bytes for seeds and secrets.
fn draw() -> io::Result<[u8; 32]> {
    let mut out = [0; 32];
    getrandom::fill(&mut out).map_err(io::Error::other)?;
    Ok(out)
}

fn random_key() -> io::Result<SharedEndpointKey> {
    let key = EndpointSecret::new(&draw()?).map_err(io::Error::other)?;
    Ok(Arc::new(key))
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
            let accepting = state.stop_accepting();
            self.shared.end_if_over(&mut state);
            drop(state);
            accepting.for_each(Waker::wake);
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

/// Waits until no connection is left. Dropping this ends the wait.
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
        let replaced = state.idle.wait(&mut self.place, cx);
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        let _forgotten = self.shared.lock().idle.leave(&mut self.place);
    }
}
