//! A server and a client of this process, with sockets of nodes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_testbed::chain::Chain;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const ALPN: &[u8] = b"test";

/// A server on the sending side of a chain, and a client on the other.
pub(crate) struct Endpoints {
    server: Endpoint,
    client: Endpoint,
    config: ClientConfig,
    at: SocketAddr,
}

impl Endpoints {
    pub(crate) fn new(chain: &Chain, ends: [IpAddr; 2], algorithm: &str, dscp: u8) -> Self {
        let made = rcgen::generate_simple_self_signed(["sender".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
        let trust = Trust::Pin(tls.pin().unwrap());
        let mut transport = pathmark::transport_config(&Algorithm::parse(algorithm).unwrap());
        transport.dscp = dscp;
        let transport = Arc::new(transport);
        let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
        let at = SocketAddr::new(ends[0], 4433);
        let server = Endpoint::from_socket(chain.sender.udp(at).unwrap(), Some(config)).unwrap();
        let socket = chain.receiver.udp(SocketAddr::new(ends[1], 0)).unwrap();
        let client = Endpoint::from_socket(socket, None).unwrap();
        let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
        Self {
            server,
            client,
            config: ClientConfig::with_transport(Arc::new(tls), transport),
            at,
        }
    }

    /// Returns both ends of a new connection, the client's first.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let config = self.config.clone();
        let connecting = self.client.connect_with(config, self.at, "sender").unwrap();
        let accepting = async { self.server.accept().await.unwrap().accept().unwrap().await };
        tokio::try_join!(connecting, accepting).unwrap()
    }

    /// Sends a file to the client, and returns both ends of its connection.
    pub(crate) async fn send(&self, bytes: usize) -> (Connection, Connection) {
        let (receiver, sender) = self.connect().await;
        let sending = async {
            let mut stream = sender.open_uni().await.unwrap();
            stream.write_all(&vec![7; bytes]).await.unwrap();
            stream.finish().unwrap();
            assert_eq!(stream.stopped().await, Ok(None));
        };
        let receiving = async {
            let mut stream = receiver.accept_uni().await.unwrap();
            assert_eq!(stream.read_to_end(bytes).await.unwrap().len(), bytes);
        };
        tokio::join!(sending, receiving);
        (receiver, sender)
    }
}

/// Runs a test in real time undisturbed, within a runtime of several threads.
pub(crate) fn undisturbed(test: impl AsyncFn()) {
    let test = || Handle::current().block_on(test());
    block_in_place(|| pathmark_testbed::undisturbed(test));
}
