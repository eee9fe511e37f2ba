//! Clients, servers and connections of either implementation behind one face.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::SharedEndpointKey;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::driver;
use pathmark_transport::endpoint::RetryPolicy;
use quinn::VarInt;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::streams::{Receiver, Sender};

/// The protocol that tests speak.
pub(crate) const ALPN: &[u8] = b"interop";
/// What the servers' certificates name.
pub(crate) const NAME: &str = "server.test";

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    Quinn,
}

/// Client and server of different making: (client, server).
pub(crate) const STRANGERS: [(Stack, Stack); 2] =
    [(Stack::Ours, Stack::Quinn), (Stack::Quinn, Stack::Ours)];

/// The same, and ours with itself.
pub(crate) const PAIRINGS: [(Stack, Stack); 3] = [
    (Stack::Ours, Stack::Quinn),
    (Stack::Quinn, Stack::Ours),
    (Stack::Ours, Stack::Ours),
];

/// A certificate authority and the server that it certifies.
pub(crate) struct Identity {
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Identity {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self {
            authority: authority.der().clone(),
            chain: vec![certificate.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// The one that clients trust.
    pub(crate) fn trusted() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| Self::new("a trusted authority"))
    }

    /// The same with certificates besides that nobody needs: more than three first datagrams hold.
    pub(crate) fn long() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| {
            let trusted = Self::trusted();
            let unneeded = std::iter::repeat_n(&Self::foreign().authority, 12);
            Self {
                authority: trusted.authority.clone(),
                chain: trusted.chain.iter().chain(unneeded).cloned().collect(),
                key: trusted.key.clone(),
            }
        })
    }

    /// One that they do not know.
    pub(crate) fn foreign() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| Self::new("a foreign authority"))
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        Arc::new(roots)
    }
}

/// How an endpoint is set up. Everything else is at its default.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) identity: &'static Identity,
    pub(crate) alpn: &'static [u8],
    /// The name that a client expects in the certificate.
    pub(crate) name: &'static str,
    /// Server: every client proves its address first.
    pub(crate) retry: bool,
    pub(crate) idle: Option<Duration>,
    pub(crate) keep_alive: Option<Duration>,
    /// Packets are sealed with ChaCha20-Poly1305.
    pub(crate) chacha20: bool,
    /// Unreliable datagrams are taken.
    pub(crate) datagrams: bool,
    /// Server: the key of tokens and resets, for one that is to know another's.
    pub(crate) key: Option<EndpointKeys>,
}

/// The key of tokens and resets in both implementations' form.
#[derive(Clone)]
pub(crate) struct EndpointKeys {
    pub(crate) ours: SharedEndpointKey,
    pub(crate) quinn: Arc<dyn quinn::crypto::HmacKey>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            identity: Identity::trusted(),
            alpn: ALPN,
            name: NAME,
            retry: false,
            idle: Some(Duration::from_secs(30)),
            keep_alive: None,
            chacha20: false,
            datagrams: false,
            key: None,
        }
    }
}

impl Options {
    pub(crate) fn transport(&self) -> Arc<TransportConfig> {
        let algorithm = Algorithm::parse("cubic").unwrap();
        let mut config =
            TransportConfig::new(Arc::new(move |now, mtu| algorithm.controller(now, mtu)));
        config.max_idle_timeout = self.idle;
        config.keep_alive = self.keep_alive;
        config.datagrams.receive_bytes = if self.datagrams { 1 << 20 } else { 0 };
        // As far as the other stack goes, whatever a loopback interface carries.
        config.max_mtu = Some(1472);
        Arc::new(config)
    }

    fn quinn_transport(&self) -> Arc<quinn::TransportConfig> {
        let mut config = quinn::TransportConfig::default();
        config.max_idle_timeout(self.idle.map(|idle| idle.try_into().unwrap()));
        config.keep_alive_interval(self.keep_alive);
        config.datagram_receive_buffer_size(self.datagrams.then_some(1 << 20));
        Arc::new(config)
    }

    pub(crate) fn our_server(&self) -> driver::ServerConfig {
        let tls = TlsServerConfig::new(
            self.identity.chain.clone(),
            self.identity.key(),
            &[self.alpn],
        );
        let mut config = driver::ServerConfig::new(Arc::new(tls.unwrap()), self.transport());
        if self.retry {
            config.retry(RetryPolicy::Always);
        }
        if let Some(keys) = &self.key {
            config.key(Arc::clone(&keys.ours));
        }
        config
    }

    pub(crate) fn our_client(&self) -> driver::ClientConfig {
        let tls = if self.chacha20 {
            TlsClientConfig::from_rustls(self.rustls_client()).unwrap()
        } else {
            let trust = Trust::Roots(Identity::trusted().roots());
            TlsClientConfig::new(trust, &[self.alpn]).unwrap()
        };
        driver::ClientConfig::new(Arc::new(tls), self.transport())
    }

    pub(crate) fn quinn_server(&self) -> quinn::ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.identity.chain.clone(), self.identity.key())
            .unwrap();
        tls.alpn_protocols = vec![self.alpn.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(self.quinn_transport());
        config
    }

    /// What rustls makes of the options for a client.
    fn rustls_client(&self) -> rustls::ClientConfig {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if self.chacha20 {
            let only = rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
            provider.cipher_suites.retain(|suite| suite.suite() == only);
        }
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(Identity::trusted().roots())
            .with_no_client_auth();
        tls.alpn_protocols = vec![self.alpn.to_vec()];
        tls
    }

    pub(crate) fn quinn_client(&self) -> quinn::ClientConfig {
        // Initial packets are sealed with AES-128 in any case.
        let initial = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let initial = initial
            .tls13()
            .and_then(|suite| suite.quic_suite())
            .unwrap();
        let tls = Arc::new(self.rustls_client());
        let crypto = QuicClientConfig::with_initial(tls, initial).unwrap();
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(self.quinn_transport());
        config
    }
}

/// Connection ids that any server may have given, so that one answers for another.
struct AnyIds;

impl quinn::ConnectionIdGenerator for AnyIds {
    fn generate_cid(&mut self) -> quinn::ConnectionId {
        let mut id = [0; 8];
        aws_lc_rs::rand::fill(&mut id).unwrap();
        quinn::ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A listening endpoint.
#[derive(Debug)]
pub(crate) enum Server {
    Ours(driver::Endpoint),
    Quinn {
        endpoint: quinn::Endpoint,
        retry: bool,
    },
}

/// A connecting endpoint.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(driver::Endpoint),
    Quinn(quinn::Endpoint),
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    Ours(driver::Connection),
    Quinn(quinn::Connection),
}

/// Why a connection ended, in words of neither implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer's application closed it.
    Application {
        code: u64,
        reason: Vec<u8>,
    },
    /// The peer's transport closed it, with this code.
    PeerTransport(u64),
    /// This side's transport closed it, with this code.
    Transport(u64),
    /// This side's application closed it.
    Local,
    Reset,
    TimedOut,
    VersionMismatch,
}

impl From<ConnectionError> for End {
    fn from(error: ConnectionError) -> Self {
        // Tests compare codes; who looks into a failure wants the words.
        eprintln!("our side: {error}");
        match error {
            ConnectionError::Transport(error) => Self::Transport(error.code.0),
            ConnectionError::PeerTransport(error) => Self::PeerTransport(error.code.0),
            ConnectionError::PeerApplication { code, reason } => Self::Application {
                code,
                reason: reason.to_vec(),
            },
            ConnectionError::Closed => Self::Local,
            ConnectionError::Reset => Self::Reset,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::VersionMismatch => Self::VersionMismatch,
            other => panic!("an end that these tests do not know: {other}"),
        }
    }
}

impl From<quinn::ConnectionError> for End {
    fn from(error: quinn::ConnectionError) -> Self {
        eprintln!("quinn: {error}");
        match error {
            quinn::ConnectionError::TransportError(error) => Self::Transport(error.code.into()),
            quinn::ConnectionError::ConnectionClosed(close) => {
                Self::PeerTransport(close.error_code.into())
            }
            quinn::ConnectionError::ApplicationClosed(close) => Self::Application {
                code: close.error_code.into_inner(),
                reason: close.reason.to_vec(),
            },
            quinn::ConnectionError::LocallyClosed => Self::Local,
            quinn::ConnectionError::Reset => Self::Reset,
            quinn::ConnectionError::TimedOut => Self::TimedOut,
            quinn::ConnectionError::VersionMismatch => Self::VersionMismatch,
            quinn::ConnectionError::CidsExhausted => panic!("quinn ran out of connection ids"),
        }
    }
}

impl Server {
    pub(crate) fn start(stack: Stack, options: &Options) -> Self {
        Self::start_at(stack, options, loopback())
    }

    pub(crate) fn start_at(stack: Stack, options: &Options, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::server(options.our_server(), at).unwrap()),
            Stack::Quinn => {
                let mut config = quinn::EndpointConfig::default();
                if let Some(keys) = &options.key {
                    config.reset_key(Arc::clone(&keys.quinn));
                    // By default it drops ids that are none of its own without a word.
                    config.cid_generator(|| Box::new(AnyIds));
                }
                Self::quinn_at(config, options, at)
            }
        }
    }

    pub(crate) fn quinn(config: quinn::EndpointConfig, options: &Options) -> Self {
        Self::quinn_at(config, options, loopback())
    }

    fn quinn_at(config: quinn::EndpointConfig, options: &Options, at: SocketAddr) -> Self {
        let socket = std::net::UdpSocket::bind(at).unwrap();
        let runtime = Arc::new(quinn::TokioRuntime);
        let server = Some(options.quinn_server());
        Self::Quinn {
            endpoint: quinn::Endpoint::new(config, server, socket, runtime).unwrap(),
            retry: options.retry,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(endpoint) => endpoint.local_address(),
            Self::Quinn { endpoint, .. } => endpoint.local_addr().unwrap(),
        }
    }

    /// The next connection, its handshake complete.
    pub(crate) async fn accept(&self) -> Result<Connection, End> {
        match self {
            Self::Ours(endpoint) => {
                let incoming = endpoint.accept().await.unwrap();
                let connecting = incoming.accept().unwrap();
                Ok(Connection::Ours(connecting.await?))
            }
            Self::Quinn { endpoint, retry } => loop {
                let incoming = endpoint.accept().await.unwrap();
                if *retry && !incoming.remote_address_validated() {
                    incoming.retry().unwrap();
                } else {
                    return Ok(Connection::Quinn(incoming.await?));
                }
            },
        }
    }
}

impl Client {
    pub(crate) fn start(stack: Stack) -> Self {
        Self::start_at(stack, loopback())
    }

    pub(crate) fn start_at(stack: Stack, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::client(at).unwrap()),
            Stack::Quinn => Self::Quinn(quinn::Endpoint::client(at).unwrap()),
        }
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, End> {
        match self {
            Self::Ours(endpoint) => {
                let connecting = endpoint.connect(options.our_client(), server, options.name);
                Ok(Connection::Ours(connecting.unwrap().await?))
            }
            Self::Quinn(endpoint) => {
                let connecting =
                    endpoint.connect_with(options.quinn_client(), server, options.name);
                Ok(Connection::Quinn(connecting.unwrap().await?))
            }
        }
    }
}

/// Two connected ends, and the endpoints that keep them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    pub(crate) client_endpoint: Client,
    pub(crate) server_endpoint: Server,
}

impl Pair {
    /// Connects the two stacks, (client, server), with nothing in between.
    pub(crate) async fn new(stacks: (Stack, Stack), options: &Options) -> Self {
        let server = Server::start(stacks.1, options);
        let address = server.address();
        Self::to(stacks.0, server, address, options).await
    }

    /// Connects a client to `server` by `address`.
    pub(crate) async fn to(
        client: Stack,
        server_endpoint: Server,
        address: SocketAddr,
        options: &Options,
    ) -> Self {
        let client_endpoint = Client::start(client);
        let (client, server) = tokio::try_join!(
            client_endpoint.connect(address, options),
            server_endpoint.accept()
        )
        .unwrap();
        Self {
            client,
            server,
            client_endpoint,
            server_endpoint,
        }
    }
}

impl Connection {
    pub(crate) async fn open_bi(&self) -> Result<(Sender, Receiver), End> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.open_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::Quinn(connection) => {
                let (send, recv) = connection.open_bi().await?;
                (Sender::Quinn(send), Receiver::Quinn(recv))
            }
        })
    }

    pub(crate) async fn accept_bi(&self) -> Result<(Sender, Receiver), End> {
        Ok(match self {
            Self::Ours(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                (Sender::Ours(send), Receiver::Ours(recv))
            }
            Self::Quinn(connection) => {
                let (send, recv) = connection.accept_bi().await?;
                (Sender::Quinn(send), Receiver::Quinn(recv))
            }
        })
    }

    pub(crate) async fn open_uni(&self) -> Result<Sender, End> {
        Ok(match self {
            Self::Ours(connection) => Sender::Ours(connection.open_uni().await?),
            Self::Quinn(connection) => Sender::Quinn(connection.open_uni().await?),
        })
    }

    pub(crate) async fn accept_uni(&self) -> Result<Receiver, End> {
        Ok(match self {
            Self::Ours(connection) => Receiver::Ours(connection.accept_uni().await?),
            Self::Quinn(connection) => Receiver::Quinn(connection.accept_uni().await?),
        })
    }

    pub(crate) fn close(&self, code: u32, reason: &[u8]) {
        match self {
            Self::Ours(connection) => connection.close(code, reason),
            Self::Quinn(connection) => connection.close(VarInt::from_u32(code), reason),
        }
    }

    pub(crate) async fn closed(&self) -> End {
        match self {
            Self::Ours(connection) => connection.closed().await.into(),
            Self::Quinn(connection) => connection.closed().await.into(),
        }
    }

    pub(crate) fn close_reason(&self) -> Option<End> {
        match self {
            Self::Ours(connection) => connection.close_reason().map(Into::into),
            Self::Quinn(connection) => connection.close_reason().map(Into::into),
        }
    }

    pub(crate) fn remote_address(&self) -> SocketAddr {
        match self {
            Self::Ours(connection) => connection.remote_address(),
            Self::Quinn(connection) => connection.remote_address(),
        }
    }

    /// The protocol that was agreed, and at a server the name that the client asked for.
    pub(crate) fn agreed(&self) -> (Option<Vec<u8>>, Option<String>) {
        match self {
            Self::Ours(connection) => {
                let data = connection.handshake_data();
                (data.protocol, data.server_name)
            }
            Self::Quinn(connection) => {
                let data = connection.handshake_data().unwrap();
                let data = data.downcast::<HandshakeData>().unwrap();
                (data.protocol, data.server_name)
            }
        }
    }

    /// The peer's certificates in DER.
    pub(crate) fn certificates(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Ours(connection) => connection.peer_certificates(),
            Self::Quinn(connection) => {
                let identity = connection.peer_identity().unwrap();
                let chain = identity.downcast::<Vec<CertificateDer<'static>>>().unwrap();
                chain.iter().map(|c| c.to_vec()).collect()
            }
        }
    }

    /// Asks for new keys; nothing happens if the last update is not over.
    pub(crate) fn update_keys(&self) {
        match self {
            Self::Ours(connection) => {
                connection.update_keys();
            }
            Self::Quinn(connection) => connection.force_key_update(),
        }
    }

    /// Largest datagram that this side sends, bytes of UDP payload.
    pub(crate) fn mtu(&self) -> u16 {
        match self {
            Self::Ours(connection) => connection.path_report().mtu,
            Self::Quinn(connection) => connection.stats().path.current_mtu,
        }
    }

    /// Ours, for what only ours tells.
    pub(crate) fn ours(&self) -> Option<&driver::Connection> {
        match self {
            Self::Ours(connection) => Some(connection),
            Self::Quinn(_) => None,
        }
    }
}
