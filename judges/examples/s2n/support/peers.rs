//! Clients, servers and connections of either implementation behind one face.

#[path = "../../../../crates/transport/tests/interop/support/peers/identity.rs"]
mod identity;
#[path = "../../../../crates/transport/tests/interop/support/peers/options.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod options;
#[path = "../../../../crates/transport/tests/interop/support/peers/pair.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod pair;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pathmark_transport::driver;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use tokio::sync::Mutex;

pub(crate) use identity::Identity;
pub(crate) use options::Options;
pub(crate) use pair::Pair;

use super::streams::{Fault, Receiver, Sender};

/// The protocol that is spoken.
const ALPN: &[u8] = b"interop";
/// What the servers' certificates name.
pub(crate) const NAME: &str = "server.test";
/// As long as a case may take: handshakes over bad paths do not end earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    S2n,
}

impl Stack {
    /// Its servers end connections whose first packet was damaged.
    pub(crate) fn ends_what_begins_damaged(self) -> bool {
        false
    }
}

fn loopback() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 0).into()
}

fn limits(options: &Options) -> Limits {
    let limits = Limits::new().with_max_handshake_duration(PATIENCE).unwrap();
    match options.idle {
        Some(idle) => limits.with_max_idle_timeout(idle).unwrap(),
        None => limits,
    }
}

/// Which clients are to prove their address first.
struct Admission {
    retry: bool,
}

impl Limiter for Admission {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.retry {
            Outcome::retry()
        } else {
            Outcome::allow()
        }
    }
}

/// A listening endpoint.
#[derive(Debug)]
pub(crate) enum Server {
    Ours(driver::Endpoint),
    S2n {
        server: Mutex<s2n_quic::Server>,
        address: SocketAddr,
    },
}

impl Server {
    pub(crate) fn start(stack: Stack, options: &Options) -> Self {
        Self::start_at(stack, options, loopback())
    }

    pub(crate) fn start_at(stack: Stack, options: &Options, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::server(options.our_server(), at).unwrap()),
            Stack::S2n => {
                let server = s2n_quic::Server::builder()
                    .with_tls(tls::Server::from(options.rustls_server()))
                    .unwrap()
                    .with_io(at)
                    .unwrap()
                    .with_limits(limits(options))
                    .unwrap()
                    .with_endpoint_limits(Admission {
                        retry: options.retry,
                    })
                    .unwrap()
                    .start()
                    .unwrap();
                Self::S2n {
                    address: server.local_addr().unwrap(),
                    server: Mutex::new(server),
                }
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(endpoint) => endpoint.local_address(),
            Self::S2n { address, .. } => *address,
        }
    }

    /// The next connection, its handshake complete.
    pub(crate) async fn accept(&self) -> Result<Connection, Fault> {
        match self {
            Self::Ours(endpoint) => {
                let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
                Ok(Connection::Ours(incoming.accept()?.await?))
            }
            Self::S2n { server, .. } => {
                let connection = server.lock().await.accept().await;
                Ok(Connection::theirs(connection.ok_or("the server ended")?))
            }
        }
    }
}

/// A connecting endpoint.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(driver::Endpoint),
    S2n(SocketAddr),
}

impl Client {
    pub(crate) fn start_at(stack: Stack, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::client(at).unwrap()),
            Stack::S2n => Self::S2n(at),
        }
    }

    /// Goes on at another socket.
    pub(crate) fn rebind(&self, socket: UdpSocket) {
        match self {
            Self::Ours(endpoint) => endpoint.rebind(socket).unwrap(),
            Self::S2n(_) => panic!("s2n-quic's clients keep their socket"),
        }
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, Fault> {
        match self {
            Self::Ours(endpoint) => {
                let connecting = endpoint.connect(options.our_client(), server, options.name)?;
                Ok(Connection::Ours(connecting.await?))
            }
            Self::S2n(at) => Connection::to(&s2n_client(*at, options), server, options.name).await,
        }
    }
}

fn s2n_client(at: SocketAddr, options: &Options) -> s2n_quic::Client {
    s2n_quic::Client::builder()
        .with_tls(tls::Client::from(options.rustls_client()))
        .unwrap()
        .with_io(at)
        .unwrap()
        .with_limits(limits(options))
        .unwrap()
        .start()
        .unwrap()
}

/// A client that remembers sessions from one connection to the next.
pub(crate) enum Returning {
    Ours(driver::Endpoint, driver::ClientConfig),
    S2n(s2n_quic::Client),
}

impl Returning {
    pub(crate) fn new(stack: Stack, options: &Options) -> Self {
        match stack {
            Stack::Ours => {
                let endpoint = driver::Endpoint::client(loopback()).unwrap();
                Self::Ours(endpoint, options.our_client())
            }
            Stack::S2n => Self::S2n(s2n_client(loopback(), options)),
        }
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Connection {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::S2n(client) => Connection::to(client, server, NAME).await.unwrap(),
        }
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Ours(driver::Connection),
    S2n(Theirs),
}

#[derive(Clone, Debug)]
pub(crate) struct Theirs {
    handle: Handle,
    /// Streams that the other end opens: bidirectional, unidirectional.
    bi: Arc<Mutex<BidirectionalStreamAcceptor>>,
    uni: Arc<Mutex<ReceiveStreamAcceptor>>,
}

impl Connection {
    fn theirs(connection: connection::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (bi, uni) = acceptor.split();
        Self::S2n(Theirs {
            handle,
            bi: Arc::new(Mutex::new(bi)),
            uni: Arc::new(Mutex::new(uni)),
        })
    }

    async fn to(client: &s2n_quic::Client, server: SocketAddr, name: &str) -> Result<Self, Fault> {
        let connect = s2n_quic::client::Connect::new(server).with_server_name(name);
        Ok(Self::theirs(client.connect(connect).await?))
    }

    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), Fault> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.open_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::S2n(theirs) => {
                let stream = theirs.handle.clone().open_bidirectional_stream().await?;
                let (recv, send) = stream.split();
                (Sender::S2n(send), Receiver::S2n(recv))
            }
        })
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), Fault> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::S2n(theirs) => {
                let stream = theirs.bi.lock().await.accept_bidirectional_stream().await?;
                let (recv, send) = stream.ok_or("the connection ended")?.split();
                (Sender::S2n(send), Receiver::S2n(recv))
            }
        })
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, Fault> {
        Ok(match self {
            Self::Ours(connection) => Sender::Ours(connection.open_uni().await?),
            Self::S2n(theirs) => Sender::S2n(theirs.handle.clone().open_send_stream().await?),
        })
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, Fault> {
        Ok(match self {
            Self::Ours(connection) => Receiver::Ours(connection.accept_uni().await?),
            Self::S2n(theirs) => {
                let stream = theirs.uni.lock().await.accept_receive_stream().await?;
                Receiver::S2n(stream.ok_or("the connection ended")?)
            }
        })
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Ours(connection) => connection.remote_address(),
            Self::S2n(theirs) => theirs.handle.remote_addr().unwrap(),
        }
    }

    /// Asks for new keys; nothing happens if the last update is not over.
    pub(crate) fn update_keys(&self) {
        match self {
            Self::Ours(connection) => {
                connection.update_keys();
            }
            Self::S2n(_) => panic!("s2n-quic updates keys when it sees fit"),
        }
    }

    /// Ours, for what only ours tells.
    pub(crate) fn ours(&self) -> Option<&driver::Connection> {
        match self {
            Self::Ours(connection) => Some(connection),
            Self::S2n(_) => None,
        }
    }
}
