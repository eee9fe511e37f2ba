//! A proxy and its clients over real sockets.

pub(crate) mod marked;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_http3::wire::ALPN;
use pathmark_proxy::UNREAD;
use pathmark_proxy::policy::Policy;
use pathmark_proxy::server::{Access, Proxy, Times, User, UserKey};
use pathmark_proxy::target::Target;
use pathmark_proxy::token::Token;
use pathmark_proxy::tunnel::{Dialer, Tunnel, TunnelTimes};
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, TlsServerConfig, Trust};
use rustls::pki_types::PrivatePkcs8KeyDer;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;

/// Makes a test fail if it takes too long.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, test).await.expect("in time")
}

/// Runs a test within the time limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    Runtime::new().unwrap().block_on(bounded(test));
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub(crate) fn target(address: SocketAddr) -> Target {
    address.to_string().parse().unwrap()
}

/// Returns a listener, and the target to reach it.
pub(crate) async fn listener() -> (TcpListener, Target) {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let target = target(listener.local_addr().unwrap());
    (listener, target)
}

/// Runs `test` with a proxy, a tunnel of one of its users, and a target, within the time limit.
pub(crate) fn with_target(test: impl AsyncFnOnce(Served, Tunnel, TcpListener, Target)) {
    run(async {
        let served = Served::new(access(&["a"]));
        let tunnel = served.tunnel("a");
        let (listener, to) = listener().await;
        test(served, tunnel, listener, to).await;
    });
}

/// Returns how reading from a stream fails.
pub(crate) async fn failure(mut read: impl AsyncRead + Unpin) -> ErrorKind {
    bounded(read.read_u8()).await.unwrap_err().kind()
}

/// Makes dropping the stream send RST.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

/// Polls a condition that has no event.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    bounded(polling).await;
}

/// Echoes connections until they end.
pub(crate) async fn echo(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let (mut read, mut write) = stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        });
    }
}

/// Echoes datagrams.
pub(crate) async fn echo_datagrams(socket: UdpSocket) {
    let mut buffer = vec![0; 65_535];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let _ = socket.send_to(&buffer[..length], from).await;
    }
}

pub(crate) fn token(name: &str) -> Token {
    format!("{name}-0123456789abcdef").parse().unwrap()
}

pub(crate) fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        key: UserKey::Token(token(name).hash()),
    }
}

/// Returns access rights of these users to loopback addresses.
pub(crate) fn access(users: &[&str]) -> Access {
    Access {
        users: users.iter().map(|name| user(name)).collect(),
        policy: Policy {
            allow: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            deny: vec!["127.0.0.66/32".parse().unwrap()],
        },
        flows_per_user: 100,
        flows: 1000,
        ..Access::default()
    }
}

fn transport() -> Arc<TransportConfig> {
    let algorithm = Algorithm::parse("cubic").unwrap();
    Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
        algorithm.controller(now, mtu)
    })))
}

/// A running proxy.
pub(crate) struct Served {
    pub(crate) proxy: Proxy,
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    tls: Arc<TlsServerConfig>,
    pub(crate) pin: Pin,
}

impl Served {
    pub(crate) fn new(access: Access) -> Self {
        Self::with(access, Times::default())
    }

    pub(crate) fn with(access: Access, times: Times) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        let pin = Pin::of(&chain[0]);
        let tls = Arc::new(TlsServerConfig::new(chain, key.into(), &[ALPN]).unwrap());
        let proxy = Proxy::new(access, times);
        let endpoint = serve(&proxy, &tls, loopback());
        Self {
            address: endpoint.local_address(),
            proxy,
            endpoint: Some(endpoint),
            tls,
            pin,
        }
    }

    /// Ends all connections, and returns once the port is free.
    pub(crate) async fn stop(&mut self) {
        let endpoint = self.endpoint.take().unwrap();
        endpoint.close(0x100_u32.into(), b"");
        endpoint.wait_idle().await;
        drop(endpoint);
        while std::net::UdpSocket::bind(self.address).is_err() {
            tokio::task::yield_now().await;
        }
    }

    /// Starts again on the same port.
    pub(crate) fn again(&mut self) {
        self.endpoint = Some(serve(&self.proxy, &self.tls, self.address));
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let tls = TlsClientConfig::new(Trust::Pin(self.pin), &[ALPN]).unwrap();
        ClientConfig::with_transport(Arc::new(tls), transport())
    }

    #[allow(dead_code, reason = "the tests of `pathmark` use it")]
    pub(crate) async fn connect(&self) -> Connection {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connecting = endpoint.connect_with(self.config(), self.address, "localhost");
        connecting.unwrap().await.unwrap()
    }

    pub(crate) fn tunnel(&self, user: &str) -> Tunnel {
        self.tunnel_with(user, TunnelTimes::default())
    }

    pub(crate) fn tunnel_with(&self, user: &str, times: TunnelTimes) -> Tunnel {
        let dialer = Dialer::new(target(self.address), self.config());
        Tunnel::new(dialer, Some(&token(user)), times)
    }
}

fn serve(proxy: &Proxy, tls: &Arc<TlsServerConfig>, address: SocketAddr) -> Arc<Endpoint> {
    let config = ServerConfig::with_transport(tls.clone(), transport());
    let endpoint = Arc::new(Endpoint::server(config, address).unwrap());
    endpoint.set_unread_memory(UNREAD);
    let (proxy, accepting) = (proxy.clone(), Arc::clone(&endpoint));
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            let proxy = proxy.clone();
            tokio::spawn(async move {
                if let Ok(connection) = incoming.accept().unwrap().await {
                    let _ = proxy.serve(connection).await;
                }
            });
        }
    });
    endpoint
}
