//! A connection of the library between two nodes, in this process.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use pathmark_testbed::Node;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const ALPN: &[u8] = b"test";
const NAME: &str = "sender";

/// A server on the sending node and a client on the receiving one.
pub(crate) struct Ends {
    server: Endpoint,
    client: Endpoint,
    config: ClientConfig,
    at: SocketAddr,
}

impl Ends {
    pub(crate) fn new(
        (sender, here): (&Node, IpAddr),
        (receiver, there): (&Node, IpAddr),
        transport: TransportConfig,
    ) -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
        let trust = Trust::Pin(tls.pin().unwrap());
        let transport = Arc::new(transport);
        let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
        let at = SocketAddr::new(here, 4433);
        let server = Endpoint::new(sender.udp(at).unwrap(), Some(config)).unwrap();
        let socket = receiver.udp(SocketAddr::new(there, 0)).unwrap();
        let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
        Self {
            server,
            client: Endpoint::new(socket, None).unwrap(),
            config: ClientConfig::new(Arc::new(tls), transport),
            at,
        }
    }

    /// Returns both ends of a connection: the receiver's, then the sender's.
    pub(crate) async fn connect(&self) -> (Connection, Connection) {
        let connecting = self
            .client
            .connect_with(self.config.clone(), self.at, NAME)
            .unwrap();
        let accepting = async { self.server.accept().await.unwrap().accept().unwrap().await };
        tokio::try_join!(connecting, accepting).unwrap()
    }

    /// Sends this many bytes over a connection, and returns the sender's end.
    pub(crate) async fn transfer(&self, bytes: usize) -> Connection {
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
        sender
    }
}

/// Runs a test with asynchronous parts again if the machine disturbs it.
pub(crate) fn undisturbed(test: impl AsyncFn()) {
    block_in_place(|| pathmark_testbed::undisturbed(|| Handle::current().block_on(test())));
}
