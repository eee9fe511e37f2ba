//! ICMP errors during a client's handshake.
//!
//! Linux reports these errors in the error queue of an unconnected socket if that is switched on
//! (`IP_RECVERR`, ip(7)), which this module does during handshakes of clients. If nothing has
//! arrived from the server, an attempt ends with the first report that the port is closed. Other
//! reports may only be temporary, for example while a route is missing, so they end an attempt if
//! they still arrive after some probe timeouts. This includes a router's report that a datagram
//! does not fit its next link.
//!
//! ICMP is not authenticated. Therefore a report only counts if it quotes the connection ID, which
//! nobody off the path knows. Once a packet from the server has been opened, and on established
//! connections, reports are ignored.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::shared::{Awaited, EndpointShared, Shared};
use super::socket::Socket;
use super::sys::{self, QueuedError};
use pathmark_transport::connection::ConnectionError;

/// A handshake's use of the error queue.
struct Listening(Arc<Socket>);

impl Listening {
    fn new(socket: Arc<Socket>) -> io::Result<Self> {
        let mut state = socket.errors().lock();
        if state.users == 0 {
            sys::queue_errors(socket.io()?, true)?;
        }
        state.users += 1;
        drop(state);
        Ok(Self(socket))
    }

    async fn next(&self) -> io::Result<QueuedError> {
        let io = self.0.io()?;
        loop {
            io.ready(Interest::ERROR).await?;
            self.0.errors().lock().has_reported = true;
            match io.try_io(Interest::ERROR, || sys::take_error(io)) {
                Ok(error) if error.by_icmp => return Ok(error),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let socket = &self.0;
        let Ok(io) = socket.io() else {
            return;
        };
        let mut state = socket.errors().lock();
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        // This only fails if the queue was never switched on.
        let _ = sys::queue_errors(io, false);
        if std::mem::take(&mut state.has_reported) {
            let again = io.as_fd().try_clone_to_owned();
            let fresh = again.and_then(|fd| UdpSocket::from_std(fd.into()));
            state.room = fresh.ok().map(Arc::new);
            drop(state);
            // Waiting tasks are still registered at the former place.
            socket.wake_senders();
        }
    }
}

/// Ends the handshake of `shared` when ICMP errors report that its server is unreachable.
pub(super) fn watch(shared: Arc<Shared>, socket: Arc<Socket>) {
    // The caller may be outside any runtime.
    let runtime = shared.endpoint.runtime();
    let _entered = runtime.enter();
    let Ok(listening) = Listening::new(socket) else {
        // Without a queue, for example at a socket that the application provides, a closed port is
        // only noticed by the handshake timeout.
        return;
    };
    runtime.spawn(async move {
        let mut settled = pin!(is_settled(&shared));
        loop {
            let mut next = pin!(listening.next());
            let error = poll_fn(|cx| match settled.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => next.as_mut().poll(cx).map(Some),
            });
            match error.await {
                None => return,
                Some(Ok(error)) => apply(&shared.endpoint, &listening.0, &error),
                Some(Err(error)) => return tracing::debug!(%error, "no error queue"),
            }
        }
    });
}

/// Waits until the handshake is complete, or has failed.
async fn is_settled(shared: &Shared) {
    let mut waiting = shared.waiting(Awaited::Progress);
    poll_fn(|cx| {
        let mut state = shared.lock();
        if !state.core.is_handshaking() || state.lost().is_some() {
            return Poll::Ready(());
        }
        waiting.wait(&mut state, cx);
        Poll::Pending
    })
    .await;
}

/// Ends the attempts that an ICMP error concerns.
fn apply(endpoint: &EndpointShared, socket: &Arc<Socket>, error: &QueuedError) {
    let Some(to) = error.to else {
        return;
    };
    let state = endpoint.lock();
    let all = state.connections.iter().flatten();
    let handshaking: Vec<_> = all.filter(|c| c.is_handshaking()).cloned().collect();
    drop(state);
    for connection in handshaking {
        // [9000 14.2.1 icmp-validated]
        if let Some(mtu) = connection.mtu_unanswered_by(to, &error.quote)
            && let Some(refusal) = refusal(error.number, mtu)
            && (error.number == libc::ECONNREFUSED || connection.is_long_out_of_reach())
        {
            connection.fail(socket, &refusal);
        }
    }
}

/// Converts the number that Linux derives from ICMP (net/ipv4/icmp.c, net/ipv6/icmp.c) into the
/// error of an attempt whose datagrams have `mtu` bytes; `None` if it only concerns a single
/// datagram.
fn refusal(number: i32, mtu: u16) -> Option<ConnectionError> {
    let kind = match number {
        libc::ECONNREFUSED | libc::ENOPROTOOPT => io::ErrorKind::ConnectionRefused,
        libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ENONET => io::ErrorKind::HostUnreachable,
        libc::ENETUNREACH => io::ErrorKind::NetworkUnreachable,
        libc::EACCES => io::ErrorKind::PermissionDenied,
        libc::EMSGSIZE => return Some(ConnectionError::PathTooNarrow(mtu)),
        _ => return None,
    };
    Some(ConnectionError::Unreachable(kind))
}

impl Shared {
    /// Returns the size of the datagrams of a client's handshake with the server at `to`, in bytes,
    /// if no packet from the server has been opened and `quote` belongs to a packet to it.
    fn mtu_unanswered_by(&self, to: SocketAddr, quote: &[u8]) -> Option<u16> {
        let same = |remote: SocketAddr| {
            let ip = remote.ip().to_canonical();
            (ip, remote.port()) == (to.ip().to_canonical(), to.port())
        };
        self.server_name.as_ref()?;
        let state = self.lock();
        let is_unanswered = state.core.is_handshaking()
            && state.core.stats().packets_received == 0
            && same(state.core.remote_address())
            && state.core.is_quoted_by(quote);
        is_unanswered.then(|| state.core.mtu())
    }
}
