//! Endpoints on loopback, and what tests do with both ends of a connection.

use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};

pub(crate) use super::interop::support::peers::loopback;
pub(crate) use super::interop::support::{bounded, in_time, until};

const ALPN: &[u8] = b"test";
/// The name in the certificates.
pub(crate) const NAME: &str = "localhost";
pub(crate) fn transport() -> TransportConfig {
    let algorithm = Algorithm::parse("cubic").unwrap();
    TransportConfig::new(Arc::new(move |now, mtu| algorithm.controller(now, mtu)))
}

/// Returns the configurations of a server with its own certificate, and of clients that pin it.
pub(crate) fn configs(transport: TransportConfig) -> (ServerConfig, ClientConfig) {
    let transport = Arc::new(transport);
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let client = TlsClientConfig::new(Trust::Pin(server.pin().unwrap()), &[ALPN]).unwrap();
    (
        ServerConfig::with_transport(Arc::new(server), Arc::clone(&transport)),
        ClientConfig::with_transport(Arc::new(client), transport),
    )
}

/// A server and its clients' configuration.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) client: ClientConfig,
}

impl Server {
    pub(crate) fn new(transport: TransportConfig) -> Self {
        let (config, client) = configs(transport);
        Self {
            endpoint: Endpoint::server(config, loopback()).unwrap(),
            client,
        }
    }

    /// Returns both ends of a connection from `client` after its handshake is confirmed.
    pub(crate) async fn connect(&self, client: &Endpoint) -> (Connection, Connection) {
        let address = self.endpoint.local_address();
        let connecting = client.connect_with(self.client.clone(), address, NAME);
        let ends = tokio::try_join!(connecting.unwrap(), self.accept()).unwrap();
        ends.0.confirmed().await.unwrap();
        ends
    }

    pub(crate) async fn accept(&self) -> Result<Connection, ConnectionError> {
        let incoming = self.endpoint.accept().await.unwrap();
        incoming.accept().unwrap().await
    }

    /// Accepts all clients, and sends back what their streams carry.
    pub(crate) fn echo(&self) {
        let endpoint = self.endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                let connecting = incoming.accept().unwrap();
                tokio::spawn(async move {
                    // The client may have dropped it.
                    let Ok(connection) = connecting.await else {
                        return;
                    };
                    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                        let all = recv.read_to_end(1 << 20).await.unwrap();
                        send.write_all(&all).await.unwrap();
                    }
                });
            }
        });
    }
}

/// Sends `length` bytes, which must be sent back.
pub(crate) async fn echoed(connection: &Connection, length: usize) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&vec![7; length]).await.unwrap();
    send.finish().unwrap();
    assert_eq!(recv.read_to_end(1 << 20).await.unwrap().len(), length);
}

/// Sends from `from` to `to`, and calls `at_quarter` once a quarter has arrived.
pub(crate) async fn transfer(
    from: &Connection,
    to: &Connection,
    length: usize,
    at_quarter: impl FnOnce(),
) {
    let byte = |at: usize| (at % (64 * 1024) / 7) as u8;
    let sending = async {
        let mut stream = from.open_uni().await.unwrap();
        let piece: Vec<u8> = (0..64 * 1024).map(byte).collect();
        for at in (0..length).step_by(piece.len()) {
            let part = piece.len().min(length - at);
            stream.write_all(&piece[..part]).await.unwrap();
        }
        stream.finish().unwrap();
        assert_eq!(stream.stopped().await, Ok(None));
    };
    let receiving = async {
        let mut stream = to.accept_uni().await.unwrap();
        let (mut at, mut at_quarter) = (0, Some(at_quarter));
        while let Some(chunk) = stream.read_chunk().await.unwrap() {
            for received in &chunk[..] {
                assert!(*received == byte(at), "at {at}");
                at += 1;
            }
            if at >= length / 4
                && let Some(at_quarter) = at_quarter.take()
            {
                at_quarter();
            }
        }
        assert_eq!(at, length);
    };
    tokio::join!(sending, receiving);
}
