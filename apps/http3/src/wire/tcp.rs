//! TLS over TCP, for networks without UDP: the listener of a server, and its connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pathmark_transport::crypto::{HandshakeError, tls::name_of};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::ALPN_TCP;
use crate::places::{Held, Places};

/// Connections of a server over TCP, each of which takes a descriptor and up to 256 KiB of content
/// that has not been read.
const MOST: usize = 256;
/// Time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time after which a peer that acknowledges nothing is gone. It is also the idle time after which
/// the kernel probes the peer.
const SILENCE: Duration = Duration::from_secs(30);
/// Pause after the system has refused a connection, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts TCP connections. If there are too many, the oldest one of the host with the most ends.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpListener,
    tls: RwLock<Arc<ServerConfig>>,
    places: Places,
    closing: watch::Sender<bool>,
}

/// A connection whose TLS handshake has not begun.
#[derive(Debug)]
pub struct TcpIncoming {
    stream: TcpStream,
    peer: SocketAddr,
    tls: Arc<ServerConfig>,
    end: End,
}

/// A connection whose TLS handshake is complete, for HTTP/2.
#[derive(Debug)]
pub struct TcpConnection {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) end: End,
    peer: SocketAddr,
}

/// Tells when a server's connection has to end.
#[derive(Debug, Default)]
pub(super) struct End {
    closing: Option<watch::Receiver<bool>>,
    place: Option<Held>,
}

impl End {
    /// Completes when the server closes or gives the connection's place to another host.
    pub(super) fn wanted(&self) -> impl Future<Output = ()> + Send + use<> {
        let closing = self.closing.clone();
        let displaced = self.place.as_ref().map(Held::displaced);
        async move {
            let (Some(mut closing), Some(displaced)) = (closing, displaced) else {
                return std::future::pending().await;
            };
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => {}
                () = displaced => {}
            }
        }
    }
}

impl TcpServer {
    /// Listens on an address. `tls` must accept [`ALPN_TCP`].
    ///
    /// # Errors
    /// Fails if the address can't be bound.
    pub fn bind(address: SocketAddr, tls: ServerConfig) -> io::Result<Self> {
        // As for UDP, the system decides whether all addresses of IPv6 include those of IPv4.
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
            tls: RwLock::new(Arc::new(tls)),
            places: Places::displacing(MOST),
            closing: watch::Sender::new(false),
        })
    }

    /// Returns the address.
    ///
    /// # Errors
    /// Fails if the system doesn't know it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Changes the configuration for new connections.
    pub fn set_config(&self, tls: ServerConfig) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
    }

    /// Ends all connections and [`accept`](Self::accept).
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits for the next connection. Returns `None` once the server is closed.
    pub async fn accept(&self) -> Option<TcpIncoming> {
        let mut closing = self.closing.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = closing.wait_for(|closing| *closing) => return None,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    let Some(place) = self.places.of(peer.ip()).take_now() else {
                        continue;
                    };
                    let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner);
                    let (tls, place) = (Arc::clone(&tls), Some(place));
                    let closing = Some(closing);
                    let end = End { closing, place };
                    return Some(TcpIncoming {
                        stream,
                        peer,
                        tls,
                        end,
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "no TCP connection was accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl TcpIncoming {
    /// Returns the client's address.
    pub const fn remote_address(&self) -> SocketAddr {
        self.peer
    }

    /// Performs the TLS handshake.
    ///
    /// # Errors
    /// Fails if the handshake fails or takes more than 10 s, or if the server needs the place.
    pub async fn handshake(self) -> io::Result<TcpConnection> {
        let Self {
            stream,
            peer,
            tls,
            end,
        } = self;
        prepare(&stream)?;
        let accepting = TlsAcceptor::from(tls).accept(stream);
        let stream = tokio::select! {
            accepted = limited(accepting) => accepted?,
            () = end.wanted() => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        TcpConnection::of(stream.into(), peer, end)
    }
}

impl TcpConnection {
    /// Connects to the server `host` at an address. `tls` must offer [`ALPN_TCP`].
    ///
    /// # Errors
    /// Fails if there is no connection. The error is [`io::ErrorKind::InvalidData`] if a server
    /// answered, but isn't trusted or speaks another protocol.
    pub async fn connect(
        address: SocketAddr,
        host: &str,
        tls: Arc<ClientConfig>,
    ) -> io::Result<Self> {
        let name = name_of(host).map_err(io::Error::other)?;
        let stream = TcpStream::connect(address).await?;
        prepare(&stream)?;
        let connecting = TlsConnector::from(tls).connect(name, stream);
        let stream = limited(connecting).await.map_err(explained)?;
        Self::of(stream.into(), address, End::default())
    }

    fn of(stream: TlsStream<TcpStream>, peer: SocketAddr, end: End) -> io::Result<Self> {
        if stream.get_ref().1.alpn_protocol() != Some(ALPN_TCP) {
            let why = "the peer speaks no HTTP/2 at its TCP port";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self { stream, end, peer })
    }

    /// Returns the peer's address.
    pub const fn remote_address(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the peer's certificate chain in DER, beginning with its own certificate.
    pub fn peer_certificates(&self) -> Vec<Vec<u8>> {
        let chain = self.stream.get_ref().1.peer_certificates();
        let chain = chain.unwrap_or_default().iter();
        chain.map(|certificate| certificate.to_vec()).collect()
    }
}

/// Explains an error of TLS.
fn explained(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|tls| tls.downcast_ref());
    match tls.map(HandshakeError::from) {
        Some(tls) => io::Error::new(io::ErrorKind::InvalidData, tls),
        None => error,
    }
}

/// Runs a handshake with its time limit.
async fn limited<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(HANDSHAKE, handshake).await;
    done.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Sends small messages at once, and lets the kernel detect a peer that is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(SILENCE / 2);
    socket.set_tcp_keepalive(&probes.with_interval(SILENCE / 6))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    Ok(())
}
