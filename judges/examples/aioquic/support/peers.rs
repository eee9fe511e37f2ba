//! Clients, servers and connections of either implementation behind one face.

#[path = "../../../../crates/transport/tests/interop/support/peers/identity.rs"]
mod identity;
#[path = "../../../../crates/transport/tests/interop/support/peers/options.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod options;
#[path = "../../../../crates/transport/tests/interop/support/peers/pair.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod pair;

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use pathmark_transport::driver;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

pub(crate) use identity::Identity;
pub(crate) use options::Options;
pub(crate) use pair::Pair;

use super::process::{ask, ask_now};
use super::streams::{Fault, Receiver, Sender};

/// The protocol that is spoken.
const ALPN: &[u8] = b"interop";
/// What the servers' certificates name.
pub(crate) const NAME: &str = "server.test";
/// Streams of a connection that this process may open at aioquic's at a time: each takes a
/// descriptor in either process.
const STREAMS: usize = 100;

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    Aioquic,
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An endpoint of aioquic's: its number. It ends with the TCP connection.
#[derive(Debug)]
pub(crate) struct Theirs {
    number: u64,
    _alive: TcpStream,
}

impl Theirs {
    /// Begins an endpoint; what the answer says besides its number.
    fn begin(options: &Options, mut request: Value) -> (Self, Value) {
        request["alpn"] = std::str::from_utf8(options.alpn).unwrap().into();
        request["idle"] = options.idle.map_or(60.0, |idle| idle.as_secs_f64()).into();
        let (answer, alive) = ask_now(&request).unwrap();
        let endpoint = Self {
            number: answer["endpoint"].as_u64().unwrap(),
            _alive: alive,
        };
        (endpoint, answer)
    }

    fn server(options: &Options, at: SocketAddr) -> (Self, SocketAddr) {
        let identity = options.identity;
        let chain: Vec<_> = identity.chain.iter().map(|der| hex(der)).collect();
        let request = json!({
            "do": "serve",
            "host": at.ip(),
            "chain": chain,
            "key": hex(identity.key().secret_der()),
            "retry": options.retry,
        });
        let (server, answer) = Self::begin(options, request);
        let port = answer["port"].as_u64().unwrap().try_into().unwrap();
        (server, (at.ip(), port).into())
    }

    fn client(options: &Options, at: SocketAddr) -> Self {
        let request = json!({
            "do": "client",
            "host": at.ip(),
            "authority": hex(&Identity::trusted().authority),
            "name": options.name,
            "chacha20": options.chacha20,
        });
        Self::begin(options, request).0
    }

    async fn connect(&self, server: SocketAddr) -> Result<Connection, Fault> {
        let request = json!({"do": "connect", "endpoint": self.number, "to": server});
        Connection::theirs(&ask(&request).await?.answer)
    }
}

/// A listening endpoint.
#[derive(Debug)]
pub(crate) enum Server {
    Ours(driver::Endpoint),
    Theirs(Theirs, SocketAddr),
}

impl Server {
    pub(crate) fn start(stack: Stack, options: &Options) -> Self {
        Self::start_at(stack, options, loopback())
    }

    pub(crate) fn start_at(stack: Stack, options: &Options, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::server(options.our_server(), at).unwrap()),
            Stack::Aioquic => {
                let (server, address) = Theirs::server(options, at);
                Self::Theirs(server, address)
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(endpoint) => endpoint.local_address(),
            Self::Theirs(_, address) => *address,
        }
    }

    /// The next connection, its handshake complete.
    pub(crate) async fn accept(&self) -> Result<Connection, Fault> {
        match self {
            Self::Ours(endpoint) => {
                let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
                Ok(Connection::Ours(incoming.accept()?.await?))
            }
            Self::Theirs(server, _) => {
                let request = json!({"do": "accept", "endpoint": server.number});
                Connection::theirs(&ask(&request).await?.answer)
            }
        }
    }
}

/// A connecting endpoint. Aioquic's is set up by the first that connects.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(driver::Endpoint),
    Theirs(SocketAddr, std::sync::OnceLock<Theirs>),
}

impl Client {
    pub(crate) fn start_at(stack: Stack, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::client(at).unwrap()),
            Stack::Aioquic => Self::Theirs(at, std::sync::OnceLock::new()),
        }
    }

    /// Goes on at another socket; aioquic at one of its own with the same address.
    pub(crate) fn rebind(&self, socket: UdpSocket) {
        match self {
            Self::Ours(endpoint) => endpoint.rebind(socket).unwrap(),
            Self::Theirs(_, client) => {
                let to = socket.local_addr().unwrap();
                drop(socket);
                let number = client.get().unwrap().number;
                ask_now(&json!({"do": "rebind", "endpoint": number, "to": to})).unwrap();
            }
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
            Self::Theirs(at, client) => {
                let client = client.get_or_init(|| Theirs::client(options, *at));
                client.connect(server).await
            }
        }
    }
}

/// A client that remembers sessions from one connection to the next.
pub(crate) enum Returning {
    Ours(driver::Endpoint, driver::ClientConfig),
    Theirs(Theirs),
}

impl Returning {
    pub(crate) fn new(stack: Stack, options: &Options) -> Self {
        match stack {
            Stack::Ours => {
                let endpoint = driver::Endpoint::client(loopback()).unwrap();
                Self::Ours(endpoint, options.our_client())
            }
            Stack::Aioquic => Self::Theirs(Theirs::client(options, loopback())),
        }
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Connection {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::Theirs(client) => client.connect(server).await.unwrap(),
        }
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Ours(driver::Connection),
    /// Its number, and what bounds the streams that are open.
    Theirs(u64, Arc<Semaphore>),
}

impl Connection {
    fn theirs(answer: &Value) -> Result<Self, Fault> {
        let number = answer["connection"].as_u64().ok_or("no connection")?;
        Ok(Self::Theirs(number, Arc::new(Semaphore::new(STREAMS))))
    }

    /// A stream of aioquic's connection, opened or taken.
    async fn stream(&self, act: &str, unidirectional: bool) -> Result<(Sender, Receiver), Fault> {
        let Self::Theirs(number, open) = self else {
            return Err("a stream of ours is none of aioquic's".into());
        };
        let place = match act {
            "open" => Some(Arc::clone(open).acquire_owned().await?),
            _ => None,
        };
        let request = json!({"do": act, "connection": number, "unidirectional": unidirectional});
        let answered = ask(&request).await?;
        let sender = Sender::Theirs(Some(answered.to));
        let receiver = Receiver::Theirs {
            tcp: answered.from,
            _place: place,
        };
        Ok((sender, receiver))
    }

    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), Fault> {
        match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.open_bi().await?;
                Ok((Sender::Ours(send), Receiver::Ours(recv)))
            }
            Self::Theirs(..) => self.stream("open", false).await,
        }
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), Fault> {
        match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                Ok((Sender::Ours(send), Receiver::Ours(recv)))
            }
            Self::Theirs(..) => self.stream("take", false).await,
        }
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, Fault> {
        match self {
            Self::Ours(connection) => Ok(Sender::Ours(connection.open_uni().await?)),
            Self::Theirs(..) => Ok(self.stream("open", true).await?.0),
        }
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, Fault> {
        match self {
            Self::Ours(connection) => Ok(Receiver::Ours(connection.accept_uni().await?)),
            Self::Theirs(..) => Ok(self.stream("take", true).await?.1),
        }
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Ours(connection) => connection.remote_address(),
            Self::Theirs(number, _) => {
                let request = json!({"do": "address", "connection": number});
                let (answer, _) = ask_now(&request).unwrap();
                let host = answer["host"].as_str().unwrap().parse().unwrap();
                SocketAddr::new(host, answer["port"].as_u64().unwrap().try_into().unwrap())
            }
        }
    }

    /// Asks for new keys; nothing happens if the last update is not over.
    pub(crate) fn update_keys(&self) {
        match self {
            Self::Ours(connection) => {
                connection.update_keys();
            }
            Self::Theirs(number, _) => {
                ask_now(&json!({"do": "update_keys", "connection": number})).unwrap();
            }
        }
    }

    /// Ours, for what only ours tells.
    pub(crate) fn ours(&self) -> Option<&driver::Connection> {
        match self {
            Self::Ours(connection) => Some(connection),
            Self::Theirs(..) => None,
        }
    }
}
