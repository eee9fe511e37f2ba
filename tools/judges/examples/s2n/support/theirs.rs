//! The parts of s2n-quic that the cases need.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::stream::{BidirectionalStream, ReceiveStream, SendStream};
use tokio::sync::Mutex;

use super::fault::Fault;
use super::peers::{NAME, Options, Taken, loopback};

/// The time limit of a case, so that handshakes over bad paths don't end earlier.
const PATIENCE: Duration = Duration::from_secs(60);

fn limits(options: &Options) -> Limits {
    let limits = Limits::new().with_max_handshake_duration(PATIENCE).unwrap();
    match options.idle {
        Some(idle) => limits.with_max_idle_timeout(idle).unwrap(),
        None => limits,
    }
}

/// Decides which clients must prove their address first.
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

#[derive(Debug)]
pub(crate) struct Server {
    server: Mutex<s2n_quic::Server>,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start_at(options: &Options, at: SocketAddr) -> Self {
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
        Self {
            address: server.local_addr().unwrap(),
            server: Mutex::new(server),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn accept(&self) -> Result<Connection, Fault> {
        let connection = self.server.lock().await.accept().await;
        Ok(connection.ok_or("the server ended")?.into())
    }
}

fn client(at: SocketAddr, options: &Options) -> s2n_quic::Client {
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

async fn connect(
    client: &s2n_quic::Client,
    server: SocketAddr,
    name: &str,
) -> Result<Connection, Fault> {
    let connect = s2n_quic::client::Connect::new(server).with_server_name(name);
    Ok(client.connect(connect).await?.into())
}

/// The client is set up for each connection.
#[derive(Debug)]
pub(crate) struct Client(SocketAddr);

impl Client {
    pub(crate) fn start_at(at: SocketAddr) -> Self {
        Self(at)
    }

    pub(crate) fn rebind(&self, _: UdpSocket) {
        panic!("s2n-quic's clients keep their socket");
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, Fault> {
        connect(&client(self.0, options), server, options.name).await
    }
}

pub(crate) struct Returning(s2n_quic::Client);

impl Returning {
    pub(crate) fn new(options: &Options) -> Self {
        Self(client(loopback(), options))
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Result<Connection, Fault> {
        connect(&self.0, server, NAME).await
    }

    pub(crate) fn connect_early(&self, _: SocketAddr) -> (Connection, Taken) {
        panic!("s2n-quic sends no early data");
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    handle: Handle,
    /// Accept the streams that the other end opens: bidirectional, unidirectional.
    bi: Arc<Mutex<BidirectionalStreamAcceptor>>,
    uni: Arc<Mutex<ReceiveStreamAcceptor>>,
}

impl From<connection::Connection> for Connection {
    fn from(connection: connection::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (bi, uni) = acceptor.split();
        Self {
            handle,
            bi: Arc::new(Mutex::new(bi)),
            uni: Arc::new(Mutex::new(uni)),
        }
    }
}

impl Connection {
    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), Fault> {
        Ok(parts(
            self.handle.clone().open_bidirectional_stream().await?,
        ))
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), Fault> {
        let stream = self.bi.lock().await.accept_bidirectional_stream().await?;
        Ok(parts(stream.ok_or("the connection ended")?))
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, Fault> {
        Ok(Sender(self.handle.clone().open_send_stream().await?))
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, Fault> {
        let stream = self.uni.lock().await.accept_receive_stream().await?;
        Ok(Receiver(stream.ok_or("the connection ended")?))
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        self.handle.remote_addr().unwrap()
    }

    pub(crate) fn update_keys(&self) {
        panic!("s2n-quic updates keys when it sees fit");
    }
}

fn parts(stream: BidirectionalStream) -> (Sender, Receiver) {
    let (recv, send) = stream.split();
    (Sender(send), Receiver(recv))
}

#[derive(Debug)]
pub(crate) struct Sender(SendStream);

impl Sender {
    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        Ok(self.0.send(Bytes::copy_from_slice(data)).await?)
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        Ok(self.0.finish()?)
    }

    pub(crate) async fn stopped(&mut self) -> Result<(), Fault> {
        Ok(self.0.close().await?)
    }
}

#[derive(Debug)]
pub(crate) struct Receiver(ReceiveStream);

impl Receiver {
    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        Ok(self.0.receive().await?)
    }
}
