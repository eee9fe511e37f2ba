//! Endpoints on an in-memory network whose sockets have little room, lose datagrams, and fail.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::testing::*;
use super::*;

use pathmark_transport::connection::{ConnectionError, Received};
use pathmark_transport::path::EcnState;

/// Datagrams of one sender that can be in flight.
const ROOM: usize = 20;
/// One datagram in `LOST` is lost, and one in `LIE` is reported as longer than any buffer.
const LOST: u64 = 50;
const LIE: u64 = 61;

#[derive(Debug, Default)]
struct Network(Mutex<HashMap<SocketAddr, Port>>);

#[derive(Debug, Default)]
struct Port {
    arrived: VecDeque<(Received, Vec<u8>)>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Datagrams from here that are in flight.
    sent: usize,
    /// Datagrams sent from here so far.
    count: u64,
    failed: bool,
}

/// A socket at one address of a network.
#[derive(Debug)]
struct Own(Arc<Network>, SocketAddr);

fn socket(network: &Arc<Network>, address: &str) -> Arc<Own> {
    let address = address.parse().unwrap();
    let ports = &network.0;
    ports.lock().unwrap().insert(address, Port::default());
    Arc::new(Own(Arc::clone(network), address))
}

impl Own {
    fn fail(&self) {
        let mut ports = self.0.0.lock().unwrap();
        let port = ports.get_mut(&self.1).unwrap();
        port.failed = true;
        port.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl DatagramSocket for Own {
    fn local_address(&self) -> SocketAddr {
        self.1
    }

    fn try_send(&self, datagram: &Datagram<'_>) -> io::Result<()> {
        let mut ports = self.0.0.lock().unwrap();
        let port = ports.get_mut(&self.1).unwrap();
        if port.sent == ROOM {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        port.count += 1;
        if port.count.is_multiple_of(LOST) {
            return Ok(());
        }
        if ports.contains_key(&datagram.to) {
            ports.get_mut(&self.1).unwrap().sent += 1;
        }
        let Some(far) = ports.get_mut(&datagram.to) else {
            return Err(io::ErrorKind::HostUnreachable.into());
        };
        let received = Received {
            local: Some(datagram.to.ip()),
            ecn: datagram.ecn,
            ..received_from(self.1)
        };
        far.arrived.push_back((received, datagram.bytes.to_vec()));
        far.reader.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ports = self.0.0.lock().unwrap();
        let port = ports.get_mut(&self.1).unwrap();
        if port.sent < ROOM {
            return Poll::Ready(Ok(()));
        }
        port.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Received)>> {
        let mut ports = self.0.0.lock().unwrap();
        let port = ports.get_mut(&self.1).unwrap();
        if port.failed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let Some((received, bytes)) = port.arrived.pop_front() else {
            port.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        let Some(from) = ports.get_mut(&received.remote) else {
            return Poll::Ready(Ok((bytes.len(), received)));
        };
        from.sent -= 1;
        from.writer.take().into_iter().for_each(Waker::wake);
        let lies = from.count.is_multiple_of(LIE);
        let length = if lies { usize::MAX } else { bytes.len() };
        Poll::Ready(Ok((length, received)))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut ports = self.0.0.lock().unwrap();
        ports.remove(&self.1);
    }
}

const SERVER: &str = "10.0.0.1:443";

fn on_own(own: Arc<Own>, server: Option<ServerConfig>) -> std::io::Result<Endpoint> {
    let runtime = default_runtime().unwrap();
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, own, runtime)
}

fn server(network: &Arc<Network>) -> (Endpoint, Arc<Own>) {
    let own = socket(network, SERVER);
    let endpoint = on_own(own.clone(), Some(server_config())).unwrap();
    (endpoint, own)
}

/// Connects a new endpoint at `own` to `server`.
async fn client_at(own: &Arc<Own>, server: &Endpoint) -> (Endpoint, (Connection, Connection)) {
    let endpoint = on_own(own.clone(), None).unwrap();
    let ends = soon("a handshake", both(connect(&endpoint, server), server)).await;
    (endpoint, ends)
}

/// Three clients upload and download at once over sockets with room for 20 datagrams that lose data
/// and report wrong lengths. One client is dropped midway, and one moves to another socket; the
/// data of the others is complete.
#[tokio::test]
async fn connections_share_a_network_in_memory() {
    let network = Arc::new(Network::default());
    let (server, _own) = server(&network);
    let mut ends = Vec::new();
    for n in 2..5 {
        let own = socket(&network, &format!("10.0.0.{n}:5000"));
        let (endpoint, (near, far)) = client_at(&own, &server).await;
        assert_eq!(far.remote_address(), endpoint.local_address());
        assert_eq!(endpoint.receive_buffer().advice(), None);
        ends.push((endpoint, near, far));
    }
    let (killed, near, far) = ends.pop().unwrap();
    let mut all = ends.iter().map(|(_, near, far)| async {
        upload(&(near.clone(), far.clone()), 400_000).await;
        upload(&(far.clone(), near.clone()), 400_000).await;
    });
    let (first, second) = (all.next().unwrap(), all.next().unwrap());
    let midway = async move {
        let mut stream = near.open_uni().await.unwrap();
        stream.write_all(&[7; 200_000]).await.unwrap();
        let mut reading = far.accept_uni().await.unwrap();
        reading.read_exact(&mut [0; 50_000]).await.unwrap();
        drop((killed, near, stream));
        let error = far.closed().await;
        let is_closed = matches!(error, ConnectionError::ApplicationClosed(_));
        assert!(is_closed, "{error}");
    };
    let moved = socket(&network, "10.0.1.2:6000");
    soon("both", async { tokio::join!(first, second, midway) }).await;

    let (endpoint, near, far) = &ends[0];
    soon("the confirmation", near.confirmed()).await.unwrap();
    endpoint.rebind_to(moved.clone());
    soon("a move", upload(&(near.clone(), far.clone()), 400_000)).await;
    assert_eq!(far.remote_address(), moved.local_address());
    assert!(near.path_report().validated);
}

/// Connections use the ECN fields that the socket reports.
#[tokio::test]
async fn an_own_socket_carries_ecn() {
    let network = Arc::new(Network::default());
    let (server, _own) = server(&network);
    let own = socket(&network, "10.0.0.2:5000");
    let (_endpoint, ends) = client_at(&own, &server).await;
    soon("an upload", upload(&ends, 200_000)).await;
    assert_eq!(ends.0.path_report().ecn, EcnState::Capable);
}

/// A failing socket ends its connections with the reason, but no others.
#[tokio::test]
async fn an_own_socket_that_fails_ends_its_connections() {
    let network = Arc::new(Network::default());
    let (server, _own) = server(&network);
    let own = socket(&network, "10.0.0.2:5000");
    let (_endpoint, (near, _far)) = client_at(&own, &server).await;
    let other = socket(&network, "10.0.0.3:5000");
    let (_other, lasting) = client_at(&other, &server).await;
    own.fail();
    let error = soon("the end", near.closed()).await;
    assert_eq!(error, ConnectionError::Socket(io::ErrorKind::BrokenPipe));
    soon("an upload", upload(&lasting, 100_000)).await;
}

/// If the network doesn't know the address, the handshake times out and the error names the reason.
#[tokio::test]
async fn a_network_that_reaches_no_server_is_the_reason() {
    let network = Arc::new(Network::default());
    let own = socket(&network, "10.0.0.2:5000");
    let endpoint = on_own(own, None).unwrap();
    let mut transport = transport();
    transport.handshake_timeout = pathmark_transport::Duration::from_millis(200);
    let connecting = endpoint.connect_with(client(transport), SERVER.parse().unwrap(), NAME);
    let connecting = connecting.unwrap();
    let error = soon("the end", connecting).await.unwrap_err();
    let reason = ConnectionError::Socket(io::ErrorKind::HostUnreachable);
    assert_eq!(error, reason);
}

/// A socket for IPv4 reaches no IPv6 address.
#[tokio::test]
async fn an_own_socket_reaches_its_own_ip_version() {
    let network = Arc::new(Network::default());
    let own = socket(&network, "10.0.0.2:5000");
    let endpoint = on_own(own, None).unwrap();
    let far: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    let refused = endpoint.connect_with(client(transport()), far, NAME);
    assert_eq!(refused.unwrap_err(), ConnectError::Address(far));
}
