//! Fixtures of the driver's own tests: endpoints on loopback and between two hosts, TLS with a
//! generated certificate or with test code in between, controllers, and frames that no connection
//! sends.

mod controllers;
mod forge;
mod tampered;

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use pathmark_cc::{Controller, NewReno};
#[cfg(target_os = "linux")]
use pathmark_testbed::{Node, Testbed};
use pathmark_transport::crypto::ServerCrypto;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::{Instant, TransportConfig};
use rcgen::{CertifiedKey, KeyPair};

use super::{ClientConfig, Connecting, Connection, Endpoint, ServerConfig};

pub(crate) use controllers::{Defect, boundless, boundless_but};
pub(crate) use forge::{forge, forging, frames, outgoing, packets, received_from, send_by};
pub(crate) use tampered::{Hooks, Tampered};

const ALPN: &[u8] = b"test";
/// The name in the certificate of servers.
pub(crate) const NAME: &str = "server.test";
#[cfg(target_os = "linux")]
const FORBIDDEN: &str = "this test needs user namespaces; allow them, or run as root";

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns a client's TLS that trusts every server.
pub(crate) fn client_tls() -> TlsClientConfig {
    TlsClientConfig::new(Trust::Anyone, &[ALPN]).unwrap()
}

pub(crate) fn server_tls() -> TlsServerConfig {
    static IDENTITY: OnceLock<CertifiedKey<KeyPair>> = OnceLock::new();
    let made =
        IDENTITY.get_or_init(|| rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap());
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    TlsServerConfig::from_pem(chain.as_bytes(), key.as_bytes(), &[ALPN]).unwrap()
}

pub(crate) fn transport() -> TransportConfig {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    TransportConfig::new(Arc::new(factory))
}

pub(crate) fn client(transport: TransportConfig) -> ClientConfig {
    ClientConfig::with_transport(Arc::new(client_tls()), Arc::new(transport))
}

pub(crate) fn server_config() -> ServerConfig {
    ServerConfig::with_transport(Arc::new(server_tls()), Arc::new(transport()))
}

/// Returns an endpoint without a server on loopback.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint::client(loopback()).unwrap()
}

/// Returns a server on loopback.
pub(crate) fn server() -> Endpoint {
    Endpoint::server(server_config(), loopback()).unwrap()
}

pub(crate) fn connect(endpoint: &Endpoint, server: &Endpoint) -> Connecting {
    connect_with(endpoint, server, client(transport()))
}

pub(crate) fn connect_with(
    endpoint: &Endpoint,
    server: &Endpoint,
    config: ClientConfig,
) -> Connecting {
    let connecting = endpoint.connect_with(config, server.local_address(), NAME);
    connecting.unwrap()
}

/// Returns the connections of `connecting` and of the next client of `server`.
pub(crate) async fn both(connecting: Connecting, server: &Endpoint) -> (Connection, Connection) {
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    tokio::try_join!(connecting, accepting).unwrap()
}

/// Returns both ends of a connection from `endpoint` to a new server.
pub(crate) async fn connected_from(
    endpoint: &Endpoint,
    transport: TransportConfig,
) -> (Connection, Connection) {
    connected_with(endpoint, transport, Arc::new(server_tls())).await
}

/// The same with `crypto` at the server.
pub(crate) async fn connected_with(
    endpoint: &Endpoint,
    transport: TransportConfig,
    crypto: Arc<dyn ServerCrypto>,
) -> (Connection, Connection) {
    let config = ServerConfig::with_transport(crypto, Arc::new(transport.clone()));
    let any = SocketAddr::new(endpoint.local_address().ip(), 0);
    let server = Endpoint::server(config, any).unwrap();
    both(connect_with(endpoint, &server, client(transport)), &server).await
}

/// Accepts all clients of `server`, keeps their connections, and reads all their streams.
pub(crate) fn serve(server: &Endpoint) {
    let server = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let connecting = incoming.accept().unwrap();
            tokio::spawn(async move {
                let Ok(connection) = connecting.await else {
                    return;
                };
                while let Ok(mut stream) = connection.accept_uni().await {
                    let _ = stream.read_to_end(usize::MAX).await;
                }
            });
        }
    });
}

/// Sends `bytes` on a new stream until they have arrived.
pub(crate) async fn send(from: &Connection, bytes: usize) {
    let mut stream = from.open_uni().await.unwrap();
    for at in (0..bytes).step_by(100_000) {
        let piece = &[7; 100_000][..(bytes - at).min(100_000)];
        stream.write_all(piece).await.unwrap();
    }
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await, Ok(None));
}

/// Sends `bytes` from the first end to the second, and checks that they arrive.
pub(crate) async fn upload((from, to): &(Connection, Connection), bytes: usize) {
    let receiving = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(bytes).await.unwrap().len(), bytes);
    };
    tokio::join!(send(from, bytes), receiving);
}

/// Waits for `future`, which takes much less time even on a busy machine.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(30), future).await;
    done.unwrap_or_else(|_| panic!("{what} does not resolve"))
}

/// Gives other tasks turns until the condition, which has no event, holds.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let all = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    soon(what, all).await;
}

pub(crate) fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).enable_all().build();
    runtime.unwrap()
}

/// Returns the number of tasks of the current runtime that have not ended.
pub(crate) fn tasks() -> usize {
    let metrics = tokio::runtime::Handle::current().metrics();
    metrics.num_alive_tasks()
}

/// Polls a future once, which must not be ready.
pub(crate) async fn is_pending<F: Future + Unpin>(future: &mut F) {
    let mut future = Pin::new(future);
    let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
    assert!(polled.await.is_pending());
}

/// Moves an endpoint to another socket on loopback.
pub(crate) fn rebind(endpoint: &Endpoint) {
    let socket = UdpSocket::bind(loopback()).unwrap();
    endpoint.rebind(socket).unwrap();
}

/// Returns an endpoint of a host, with or without a server.
#[cfg(target_os = "linux")]
pub(crate) fn endpoint_on(host: &Node, at: &str, server: Option<ServerConfig>) -> Endpoint {
    let socket = host.udp(at.parse().unwrap()).unwrap();
    Endpoint::from_socket(socket, server).unwrap()
}

/// Returns a test bed for namespaces without root.
#[cfg(target_os = "linux")]
pub(crate) fn bed() -> Testbed {
    Testbed::new().expect(FORBIDDEN)
}

/// Smallest MTU of interfaces with IPv6 (RFC 8200 section 5).
#[cfg(target_os = "linux")]
const LEAST_MTU_OF_IPV6: u32 = 1280;

/// Creates two hosts, joined by a veth pair of this MTU, whose addresses are `10.0.0.1` and
/// `fd00::1`, and `10.0.0.2` and `fd00::2`.
#[cfg(target_os = "linux")]
pub(crate) fn hosts(mtu: u32) -> (Node, Node) {
    let bed = bed();
    let [a, b] = ["a", "b"].map(|name| bed.node(name).unwrap());
    bed.veth((&a, "eth0"), (&b, "eth0"), mtu).unwrap();
    for (node, host) in [(&a, 1), (&b, 2)] {
        let add = |address: String| node.add_address("eth0", address.parse().unwrap()).unwrap();
        add(format!("10.0.0.{host}/24"));
        if mtu >= LEAST_MTU_OF_IPV6 {
            add(format!("fd00::{host}/64"));
        }
    }
    (a, b)
}
