//! Servers and clients over real sockets, and files for them.

pub(crate) mod house;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_http3::client::{Client, ClientLimits};
use pathmark_http3::fields::PathName;
use pathmark_http3::origin::{Limits, Origin};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::Root;
use pathmark_http3::wire::{ALPN, ClientLink};
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name in the certificate.
pub(crate) const NAME: &str = "localhost";

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Makes a test fail if it takes too long.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, test).await.expect("in time")
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        Self {
            chain: vec![made.cert.der().clone()],
            key: made.signing_key.serialize_der(),
        }
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}

fn transport() -> Arc<TransportConfig> {
    let algorithm = Algorithm::parse("cubic").unwrap();
    Arc::new(TransportConfig::new(Arc::new(move |now, mtu| {
        algorithm.controller(now, mtu)
    })))
}

pub(crate) fn listen(identity: &Identity) -> Endpoint {
    let tls = TlsServerConfig::new(identity.chain.clone(), identity.key(), &[ALPN]).unwrap();
    let config = ServerConfig::new(Arc::new(tls), transport());
    Endpoint::server(config, loopback()).unwrap()
}

/// Connects this library to a server with this identity.
pub(crate) async fn connect(identity: &Identity, to: SocketAddr) -> Connection {
    connect_from(loopback(), identity, to).await
}

/// The same from another address.
pub(crate) async fn connect_from(
    from: SocketAddr,
    identity: &Identity,
    to: SocketAddr,
) -> Connection {
    let pin = pathmark_transport::crypto::tls::Pin::of(&identity.chain[0]);
    let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
    let config = ClientConfig::new(Arc::new(tls), transport());
    let endpoint = Endpoint::client(from).unwrap();
    let connecting = endpoint.connect_with(config, to, NAME).unwrap();
    connecting.await.unwrap()
}

/// Serves all clients, and returns the server's address.
pub(crate) fn serve(identity: &Identity, origin: Origin) -> SocketAddr {
    let endpoint = listen(identity);
    let address = endpoint.local_address();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let origin = origin.clone();
            tokio::spawn(async move {
                let connection = incoming.accept().unwrap().await.unwrap();
                let _ = origin.serve(connection).await;
            });
        }
    });
    address
}

pub(crate) async fn client(identity: &Identity, to: SocketAddr) -> Client {
    let connection = connect(identity, to).await;
    let client = Client::new(connection, NAME, ClientLimits::default());
    client.await.unwrap()
}

/// An origin of a new directory, and how to reach it.
pub(crate) struct Served {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) origin: Origin,
    pub(crate) identity: Identity,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn new(put: PutRights) -> Self {
        let rules = Rules {
            put,
            ..Rules::default()
        };
        Self::with(rules, Limits::default())
    }

    pub(crate) fn with(rules: Rules, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let origin = Origin::new(Root::open(directory.path()).unwrap(), rules, limits);
        let identity = Identity::new();
        let address = serve(&identity, origin.clone());
        Self {
            directory,
            origin,
            identity,
            address,
        }
    }

    /// Writes a file, and waits until a later change would get other time stamps.
    pub(crate) async fn write(&self, name: impl AsRef<Path>, content: &[u8]) {
        std::fs::write(self.directory.path().join(name), content).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    pub(crate) fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        std::fs::read(self.directory.path().join(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names(self.directory.path())
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.identity, self.address).await
    }

    pub(crate) async fn link(&self) -> ClientLink {
        let connection = connect(&self.identity, self.address).await;
        ClientLink::new(connection, 64 * 1024).await.unwrap()
    }
}

/// Returns the names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

pub(crate) fn path(path: &str) -> PathName {
    PathName::parse(path.as_bytes()).unwrap()
}

/// Returns bytes that depend on their position.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Returns a request to the origin's host.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://{NAME}{target}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.head.status()
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        let value = self.head.headers().get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) async fn ask(link: &ClientLink, request: Request<()>, content: &[u8]) -> Answer {
    let mut exchange = link.request(request).await.unwrap();
    let sent = exchange.send(content.to_vec().into()).await;
    if sent.is_ok() {
        let _ = exchange.finish(None).await;
    }
    let head = exchange.response().await.unwrap();
    let mut content = Vec::new();
    while let Some(data) = exchange.data().await.unwrap() {
        content.extend_from_slice(&data);
    }
    let trailers = exchange.trailers().await.unwrap();
    Answer {
        head,
        content,
        trailers,
    }
}
