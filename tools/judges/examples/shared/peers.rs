//! A common interface to clients, servers and connections of this library and of another stack.

#[path = "../../../../crates/driver/tests/it/interop/support/peers/identity.rs"]
mod identity;
#[path = "../../../../crates/driver/tests/it/interop/support/peers/options.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod options;
#[path = "../../../../crates/driver/tests/it/interop/support/peers/pair.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod pair;

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;

use pathmark_driver as driver;

pub(crate) use identity::Identity;
pub(crate) use options::Options;
pub(crate) use pair::Pair;

use super::streams::{Fault, Receiver, Sender};
use super::theirs;

/// The application protocol.
const ALPN: &[u8] = b"interop";
/// The name in the servers' certificates.
pub(crate) const NAME: &str = "server.test";

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    Theirs,
}

impl Stack {
    /// Returns true if its servers end connections whose first packet was damaged.
    pub(crate) fn ends_what_begins_damaged(self) -> bool {
        false
    }

    /// Returns true if its clients acknowledge packets without counting their ECN marks. A busy
    /// client of s2n-quic does so for up to a hundred of some thousands.
    pub(crate) fn misses_marks(self) -> bool {
        self == Self::Theirs
    }
}

pub(crate) fn loopback() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 0).into()
}

/// A listening endpoint.
#[derive(Debug)]
pub(crate) enum Server {
    Ours(driver::Endpoint),
    Theirs(theirs::Server),
}

impl Server {
    pub(crate) fn start(stack: Stack, options: &Options) -> Self {
        Self::start_at(stack, options, loopback())
    }

    pub(crate) fn start_at(stack: Stack, options: &Options, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::server(options.our_server(), at).unwrap()),
            Stack::Theirs => Self::Theirs(theirs::Server::start_at(options, at)),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(endpoint) => endpoint.local_address(),
            Self::Theirs(server) => server.address(),
        }
    }

    /// Returns the next connection after its handshake is complete.
    pub(crate) async fn accept(&self) -> Result<Connection, Fault> {
        match self {
            Self::Ours(endpoint) => {
                let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
                Ok(Connection::Ours(incoming.accept()?.await?))
            }
            Self::Theirs(server) => Ok(Connection::Theirs(server.accept().await?)),
        }
    }
}

/// A connecting endpoint.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(driver::Endpoint),
    Theirs(theirs::Client),
}

impl Client {
    pub(crate) fn start_at(stack: Stack, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::client(at).unwrap()),
            Stack::Theirs => Self::Theirs(theirs::Client::start_at(at)),
        }
    }

    /// Moves the endpoint to another socket.
    pub(crate) fn rebind(&self, socket: UdpSocket) {
        match self {
            Self::Ours(endpoint) => endpoint.rebind(socket).unwrap(),
            Self::Theirs(client) => client.rebind(socket),
        }
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, Fault> {
        match self {
            Self::Ours(endpoint) => {
                let connecting =
                    endpoint.connect_with(options.our_client(), server, options.name)?;
                Ok(Connection::Ours(connecting.await?))
            }
            Self::Theirs(client) => Ok(Connection::Theirs(client.connect(server, options).await?)),
        }
    }
}

/// Resolves to whether the server accepted early data.
pub(crate) type Taken = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A client that remembers sessions between connections.
pub(crate) enum Returning {
    Ours(driver::Endpoint, driver::ClientConfig),
    Theirs(theirs::Returning),
}

impl Returning {
    pub(crate) fn new(stack: Stack, options: &Options) -> Self {
        match stack {
            Stack::Ours => {
                let endpoint = driver::Endpoint::client(loopback()).unwrap();
                Self::Ours(endpoint, options.our_client())
            }
            Stack::Theirs => Self::Theirs(theirs::Returning::new(options)),
        }
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Connection {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::Theirs(client) => Connection::Theirs(client.connect(server).await.unwrap()),
        }
    }

    /// Connects to a server that this client has met before. Returns the connection before its
    /// handshake is complete, and whether the server accepts the data sent before then.
    pub(crate) fn connect_early(&self, server: SocketAddr) -> (Connection, Taken) {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                let (connection, taken) = connecting.into_0rtt().expect("a ticket");
                let taken = async { taken.await.unwrap() };
                (Connection::Ours(connection), Box::pin(taken))
            }
            Self::Theirs(client) => {
                let (connection, taken) = client.connect_early(server);
                (Connection::Theirs(connection), taken)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Ours(driver::Connection),
    Theirs(theirs::Connection),
}

impl Connection {
    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), Fault> {
        Ok(match self {
            Self::Ours(connection) => both(connection.open_bi().await?),
            Self::Theirs(connection) => both(connection.open_bi().await?),
        })
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), Fault> {
        Ok(match self {
            Self::Ours(connection) => both(connection.accept_bi().await?),
            Self::Theirs(connection) => both(connection.accept_bi().await?),
        })
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, Fault> {
        Ok(match self {
            Self::Ours(connection) => connection.open_uni().await?.into(),
            Self::Theirs(connection) => connection.open_uni().await?.into(),
        })
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, Fault> {
        Ok(match self {
            Self::Ours(connection) => connection.accept_uni().await?.into(),
            Self::Theirs(connection) => connection.accept_uni().await?.into(),
        })
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Ours(connection) => connection.remote_address(),
            Self::Theirs(connection) => connection.remote_address(),
        }
    }

    /// Starts a key update. This has no effect while the previous update is in progress.
    pub(crate) fn update_keys(&self) {
        match self {
            Self::Ours(connection) => {
                connection.force_key_update();
            }
            Self::Theirs(connection) => connection.update_keys(),
        }
    }

    /// Returns the connection if it is ours, for facts that only our implementation reports.
    pub(crate) fn ours(&self) -> Option<&driver::Connection> {
        match self {
            Self::Ours(connection) => Some(connection),
            Self::Theirs(_) => None,
        }
    }
}

fn both(parts: (impl Into<Sender>, impl Into<Receiver>)) -> (Sender, Receiver) {
    (parts.0.into(), parts.1.into())
}
