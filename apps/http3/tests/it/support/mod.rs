//! Servers and clients over real sockets, and files for them.

pub(crate) mod house;

use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_http3::client::{Client, ClientLimits, Ended, GetError, GetTree, Outcome, TreeLimits};
use pathmark_http3::fields::PathName;
use pathmark_http3::origin::{Idle, Limits, Origin};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::{Existing, Root};
use pathmark_http3::wire::{ALPN, ALPN_TCP, ClientLink, ServerLink, TcpConnection, TcpServer};
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::runtime::Builder;

/// The name in the certificate.
pub(crate) const NAME: &str = "localhost";

/// The version of resumable uploads.
pub(crate) const VERSION: (&str, &str) = ("upload-draft-interop-version", "8");

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Makes a test fail if it takes too long.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, test).await.expect("in time")
}

/// Runs a test within the time limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(bounded(test));
}

thread_local! {
    /// Whether clients of this thread's test connect over TCP.
    static OVER_TCP: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test whose clients connect over TCP.
pub(crate) fn over_tcp(test: fn()) {
    OVER_TCP.set(true);
    test();
    OVER_TCP.set(false);
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
    let config = ServerConfig::with_transport(Arc::new(tls), transport());
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
    let config = ClientConfig::with_transport(Arc::new(tls), transport());
    let endpoint = Endpoint::client(from).unwrap();
    let connecting = endpoint.connect_with(config, to, NAME).unwrap();
    connecting.await.unwrap()
}

/// Rules that allow clients to replace files.
pub(crate) fn replacing() -> Rules {
    Rules {
        put: PutRights::Replace,
        ..Rules::default()
    }
}

/// A server, and how to reach it.
pub(crate) struct Site {
    pub(crate) identity: Identity,
    pub(crate) address: SocketAddr,
    /// Its address of TCP, if it has one.
    pub(crate) tcp: Option<SocketAddr>,
}

impl Site {
    pub(crate) async fn client(&self) -> Client {
        if !OVER_TCP.get() {
            return client(&self.identity, self.address).await;
        }
        let connection = self.connect_tcp().await;
        let client = Client::over_tcp(connection, NAME, ClientLimits::default());
        client.await.unwrap()
    }

    pub(crate) async fn connect(&self) -> Connection {
        connect(&self.identity, self.address).await
    }

    pub(crate) async fn link(&self) -> ClientLink {
        if OVER_TCP.get() {
            self.link_tcp().await
        } else {
            link(self.connect().await).await
        }
    }

    async fn connect_tcp(&self) -> TcpConnection {
        let pin = pathmark_transport::crypto::tls::Pin::of(&self.identity.chain[0]);
        let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
        let tls = Arc::new(tls.over_tcp(&[ALPN_TCP]));
        let connecting = TcpConnection::connect(self.tcp.unwrap(), NAME, tls);
        connecting.await.unwrap()
    }

    pub(crate) async fn link_tcp(&self) -> ClientLink {
        let link = ClientLink::over_tcp(self.connect_tcp().await, 64 * 1024);
        link.await.unwrap()
    }

    /// Returns a link from another host.
    pub(crate) async fn link_from(&self, host: &str) -> ClientLink {
        let from = format!("{host}:0").parse().unwrap();
        link(connect_from(from, &self.identity, self.address).await).await
    }
}

/// Serves all clients, over TCP too.
pub(crate) fn serve(origin: Origin) -> Site {
    let own = origin.clone();
    let mut site = serve_with(move |connection| {
        let origin = own.clone();
        async move { drop(origin.serve(connection).await) }
    });
    let (chain, key) = (site.identity.chain.clone(), site.identity.key());
    let tls = TlsServerConfig::new(chain, key, &[ALPN]).unwrap();
    let server = TcpServer::bind(loopback(), tls.over_tcp(&[ALPN_TCP])).unwrap();
    site.tcp = server.local_address().ok();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let origin = origin.clone();
            tokio::spawn(async move {
                if let Ok(connection) = incoming.handshake().await {
                    let _ = origin.serve_tcp(connection, Arc::new(Idle)).await;
                }
            });
        }
    });
    site
}

/// Passes each connection to `handle`.
pub(crate) fn serve_with<F>(handle: impl Fn(Connection) -> F + Clone + Send + 'static) -> Site
where
    F: Future<Output = ()> + Send + 'static,
{
    let identity = Identity::new();
    let endpoint = listen(&identity);
    let address = endpoint.local_address();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let handle = handle.clone();
            tokio::spawn(async move {
                let connection = incoming.accept().unwrap().await.unwrap();
                handle(connection).await;
            });
        }
    });
    let tcp = None;
    Site {
        identity,
        address,
        tcp,
    }
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
    site: Site,
}

impl Deref for Served {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Served {
    pub(crate) fn new(put: PutRights) -> Self {
        Self::limited(put, |_| ())
    }

    /// Changes the default limits.
    pub(crate) fn limited(put: PutRights, change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let mut rules = replacing();
        rules.put = put;
        Self::with(rules, limits)
    }

    /// Allows clients to replace files, and changes the other default rules.
    pub(crate) fn ruled(change: impl FnOnce(&mut Rules)) -> Self {
        let mut rules = replacing();
        change(&mut rules);
        Self::with(rules, Limits::default())
    }

    fn with(rules: Rules, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let origin = Origin::new(Root::open(directory.path()).unwrap(), rules, limits);
        let site = serve(origin.clone());
        Self {
            directory,
            origin,
            site,
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
}

pub(crate) async fn link(connection: Connection) -> ClientLink {
    ClientLink::new(connection, 64 * 1024).await.unwrap()
}

/// Returns a client of a server that calls `serve` for its only connection.
pub(crate) async fn against<F>(
    limits: ClientLimits,
    serve: impl FnOnce(ServerLink) -> F + Send + 'static,
) -> Client
where
    F: Future<Output = ()> + Send,
{
    let identity = Identity::new();
    let endpoint = listen(&identity);
    let address = endpoint.local_address();
    tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().accept().unwrap().await;
        let link = ServerLink::new(connection.unwrap(), 64 * 1024).await;
        serve(link.unwrap()).await;
    });
    let connection = connect(&identity, address).await;
    Client::new(connection, NAME, limits).await.unwrap()
}

/// The result for each entry of a tree, by its name.
pub(crate) type Fetched = Vec<(String, Result<&'static str, String>)>;

/// Fetches a tree of at most 10,000 entries. The results are sorted.
pub(crate) async fn fetch_tree(
    client: &Client,
    from: &str,
    target: &Path,
    checksum: bool,
) -> (Result<(), GetError>, Fetched) {
    let how = GetTree {
        headers: HeaderMap::new(),
        existing: Existing::Replace,
        checksum,
        limits: TreeLimits {
            entries: 10_000,
            ..TreeLimits::default()
        },
        arrived: Arc::default(),
        found: Arc::default(),
    };
    let (mut all, from) = (Vec::new(), path(from));
    let fetching = client.get_tree(&from, target, how, |Ended { path, outcome }| {
        let outcome = match outcome {
            Ok(Outcome::Moved(_)) => Ok("fetched"),
            Ok(Outcome::Unchanged(_)) => return,
            Ok(Outcome::Skipped(_)) => Ok("skipped"),
            Err(error) => Err(error.to_string()),
        };
        all.push((path.encode(), outcome));
    });
    let ended = bounded(fetching).await;
    all.sort();
    (ended, all)
}

/// Polls a condition that has no event.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    bounded(polling).await;
}

/// Returns the size of the largest unfinished file in a directory.
pub(crate) fn unfinished(directory: &Path) -> u64 {
    let parts = names(directory).into_iter();
    let parts = parts.filter(|name| name.starts_with(".pathmark-"));
    let sizes = parts.filter_map(|part| directory.join(part).metadata().ok());
    sizes.map(|part| part.len()).max().unwrap_or(0)
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

/// Sends a request and returns the response, which must come in time.
pub(crate) async fn ask(link: &ClientLink, request: Request<()>, content: &[u8]) -> Answer {
    bounded(ask_patiently(link, request, content)).await
}

/// Sends a GET.
pub(crate) async fn get(link: &ClientLink, target: &str, fields: &[(&str, &str)]) -> Answer {
    ask(link, request("GET", target, fields), b"").await
}

/// Asserts that a file is served to a client.
pub(crate) async fn serves(link: &ClientLink, target: &str, content: &[u8]) {
    assert_eq!(get(link, target, &[]).await.content, content, "{target}");
}

/// Sends a request, and returns the status of the response.
pub(crate) async fn status(
    link: &ClientLink,
    (method, target): (&str, &str),
    fields: &[(&str, &str)],
    content: &[u8],
) -> u16 {
    let answer = ask(link, request(method, target, fields), content).await;
    answer.status().as_u16()
}

async fn ask_patiently(link: &ClientLink, request: Request<()>, content: &[u8]) -> Answer {
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
