//! Sockets that an application provides instead of the system's sockets.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use pathmark_transport::Ecn;
use pathmark_transport::connection::Received;

/// A datagram that a [`DatagramSocket`] should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The destination.
    pub to: SocketAddr,
    /// The source address on this host. If this is `None`, the socket chooses.
    pub from: Option<IpAddr>,
    /// IP ECN field (RFC 3168).
    pub ecn: Ecn,
    /// Differentiated services code point (RFC 2474), below 64.
    pub dscp: u8,
    /// UDP payload.
    pub bytes: &'a [u8],
}

/// A socket that an application provides, for example a relay, a tunnel or a simulated network, for
/// [`Endpoint::new_with_abstract_socket`](super::Endpoint::new_with_abstract_socket). Datagrams can
/// be lost, reordered or duplicated, but each must be delivered either completely or not at all.
pub trait DatagramSocket: Debug + Send + Sync + 'static {
    /// Returns the address that this socket has initially. Peers must have the same IP version.
    fn local_address(&self) -> SocketAddr;

    /// Sends one datagram without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room: the endpoint will then call
    /// [`poll_writable`](Self::poll_writable) and try again. After any other error the datagram
    /// counts as lost.
    fn try_send(&self, datagram: &Datagram<'_>) -> io::Result<()>;

    /// Returns `Ready` once [`try_send`](Self::try_send) may have room. The socket must wake the
    /// waker of the most recent call.
    ///
    /// # Errors
    /// If there will never be room again. This ends the connections that use this socket.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives one datagram into `buffer`, which has room for the largest UDP payload, and returns
    /// its length and the fields of its IP header. A length greater than the buffer's is treated as
    /// the buffer's. The socket must wake the waker of the most recent call.
    ///
    /// # Errors
    /// If nothing will ever arrive again; in this case each later call must return an error, too.
    /// This ends the connections that use this socket.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Received)>>;
}
