//! Sockets of the application's own in place of the system's.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use pathmark_transport::Ecn;
use pathmark_transport::connection::Received;

/// A datagram to send by a [`DatagramSocket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Where it goes.
    pub to: SocketAddr,
    /// The address of this host that it leaves from; `None`: the socket chooses.
    pub from: Option<IpAddr>,
    /// IP ECN field (RFC 3168).
    pub ecn: Ecn,
    /// Differentiated services code point (RFC 2474), below 64.
    pub dscp: u8,
    /// UDP payload.
    pub bytes: &'a [u8],
}

/// A socket that an application provides: a relay, a tunnel, a simulated network.
/// [`Endpoint::with_socket`](super::Endpoint::with_socket) takes one.
///
/// Datagrams may be lost, reordered and repeated. A datagram is delivered whole or not at all.
pub trait DatagramSocket: Debug + Send + Sync + 'static {
    /// The address that this socket has at its start. Peers are reached by the same IP version.
    fn local_address(&self) -> SocketAddr;

    /// Sends one datagram without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room: the endpoint calls
    /// [`poll_writable`](Self::poll_writable) and tries again. With any other error the datagram
    /// counts as lost.
    fn try_send(&self, datagram: &Datagram<'_>) -> io::Result<()>;

    /// Ready once [`try_send`](Self::try_send) may have room. Only the waker of the last call is
    /// woken.
    ///
    /// # Errors
    /// If there will be no room any more: the connections at this socket end.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives one datagram into `buffer`, which holds the largest UDP payload: its length, and
    /// the fields of its IP header. A length beyond the buffer counts as the buffer's. Only the
    /// waker of the last call is woken.
    ///
    /// # Errors
    /// If nothing will arrive any more; each later call returns an error, too. The connections at
    /// this socket end.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Received)>>;
}
