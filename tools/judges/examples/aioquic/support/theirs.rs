//! The parts of aioquic that the cases need. Each of its streams is a TCP connection to its
//! process.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::Fault;
use super::peers::{Identity, Options, Taken, loopback};
use super::process::{ask, ask_now};

/// Streams per connection of aioquic that this process can open at a time, because each needs a
/// descriptor in both processes.
const STREAMS: usize = 100;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number of an endpoint of aioquic, which ends with the TCP connection.
#[derive(Debug)]
struct Endpoint {
    number: u64,
    _alive: TcpStream,
}

impl Endpoint {
    /// Starts an endpoint, and returns it with the answer.
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
        Connection::new(&ask(&request).await?.answer)
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    endpoint: Endpoint,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start_at(options: &Options, at: SocketAddr) -> Self {
        let identity = options.identity;
        let chain: Vec<_> = identity.chain.iter().map(|der| hex(der)).collect();
        let request = json!({
            "do": "serve",
            "host": at.ip(),
            "chain": chain,
            "key": hex(identity.key().secret_der()),
            "retry": options.retry,
        });
        let (endpoint, answer) = Endpoint::begin(options, request);
        let port: u16 = answer["port"].as_u64().unwrap().try_into().unwrap();
        Self {
            endpoint,
            address: (at.ip(), port).into(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn accept(&self) -> Result<Connection, Fault> {
        let request = json!({"do": "accept", "endpoint": self.endpoint.number});
        Connection::new(&ask(&request).await?.answer)
    }
}

/// The endpoint is created by the first connection.
#[derive(Debug)]
pub(crate) struct Client {
    at: SocketAddr,
    endpoint: OnceLock<Endpoint>,
}

impl Client {
    pub(crate) fn start_at(at: SocketAddr) -> Self {
        Self {
            at,
            endpoint: OnceLock::new(),
        }
    }

    /// Moves the endpoint to its own socket with the same address.
    pub(crate) fn rebind(&self, socket: UdpSocket) {
        let to = socket.local_addr().unwrap();
        drop(socket);
        let number = self.endpoint.get().unwrap().number;
        ask_now(&json!({"do": "rebind", "endpoint": number, "to": to})).unwrap();
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, Fault> {
        let begin = || Endpoint::client(options, self.at);
        self.endpoint.get_or_init(begin).connect(server).await
    }
}

pub(crate) struct Returning(Endpoint);

impl Returning {
    pub(crate) fn new(options: &Options) -> Self {
        Self(Endpoint::client(options, loopback()))
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Result<Connection, Fault> {
        self.0.connect(server).await
    }

    pub(crate) fn connect_early(&self, server: SocketAddr) -> (Connection, Taken) {
        let request = json!({"do": "connect_early", "endpoint": self.0.number, "to": server});
        let (answer, _) = ask_now(&request).unwrap();
        let connection = Connection::new(&answer).unwrap();
        let taken = async move {
            let request = json!({"do": "early", "connection": answer["connection"]});
            let answer = ask(&request).await.unwrap().answer;
            answer["accepted"].as_bool().unwrap()
        };
        (connection, Box::pin(taken))
    }
}

/// The connection's number, and the limit on its open streams.
#[derive(Clone, Debug)]
pub(crate) struct Connection(u64, Arc<Semaphore>);

impl Connection {
    fn new(answer: &Value) -> Result<Self, Fault> {
        let number = answer["connection"].as_u64().ok_or("no connection")?;
        Ok(Self(number, Arc::new(Semaphore::new(STREAMS))))
    }

    /// Opens or accepts a stream.
    async fn stream(&self, act: &str, unidirectional: bool) -> Result<(Sender, Receiver), Fault> {
        let place = match act {
            "open" => Some(Arc::clone(&self.1).acquire_owned().await?),
            _ => None,
        };
        let request = json!({"do": act, "connection": self.0, "unidirectional": unidirectional});
        let answered = ask(&request).await?;
        let receiver = Receiver {
            tcp: answered.from,
            _place: place,
        };
        Ok((Sender(Some(answered.to)), receiver))
    }

    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), Fault> {
        self.stream("open", false).await
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), Fault> {
        self.stream("take", false).await
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, Fault> {
        Ok(self.stream("open", true).await?.0)
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, Fault> {
        Ok(self.stream("take", true).await?.1)
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        let (answer, _) = ask_now(&json!({"do": "address", "connection": self.0})).unwrap();
        let host = answer["host"].as_str().unwrap().parse().unwrap();
        SocketAddr::new(host, answer["port"].as_u64().unwrap().try_into().unwrap())
    }

    pub(crate) fn update_keys(&self) {
        ask_now(&json!({"do": "update_keys", "connection": self.0})).unwrap();
    }
}

/// Dropping the inner value ends the stream.
#[derive(Debug)]
pub(crate) struct Sender(Option<OwnedWriteHalf>);

impl Sender {
    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        let tcp = self.0.as_mut().ok_or("it is finished")?;
        Ok(tcp.write_all(data).await?)
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        drop(self.0.take());
        Ok(())
    }

    /// Only the other end can tell.
    pub(crate) async fn stopped(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Receiver {
    tcp: BufReader<OwnedReadHalf>,
    /// A stream that this process opened counts as open until this is dropped.
    _place: Option<OwnedSemaphorePermit>,
}

impl Receiver {
    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let chunk = Bytes::copy_from_slice(self.tcp.fill_buf().await?);
        self.tcp.consume(chunk.len());
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}
