//! Connections that go on at another socket, or from another address of this host (RFC 9000 §9).

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use super::clock;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::interfaces::bound;
use super::own_socket::DatagramSocket;
use super::receive::ReceiveTask;
use super::shared::State;
use super::socket::Socket;

impl Endpoint {
    /// From now on connections begin at `socket`, and connections to servers move there, each as
    /// soon as its handshake is confirmed (RFC 9000 §9). What is under way arrives: the former
    /// socket is read until no connection has used it for some seconds.
    ///
    /// A connection stays at its socket if it was accepted here (servers do not move), if its
    /// server forbids to move, or if `socket` cannot reach its server by the form of address that
    /// it has: a socket for IPv4 reaches no IPv6 address, and one for both versions has a form of
    /// its own.
    ///
    /// # Errors
    /// If the socket cannot be used; then nothing has changed.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        // The socket's events come by the endpoint's runtime.
        let runtime = self.shared.runtime();
        let _entered = runtime.enter();
        self.rebind_by(Socket::new(socket)?);
        Ok(())
    }

    /// As [`rebind`](Self::rebind), to a socket of the application's own.
    pub fn rebind_to(&self, socket: Arc<dyn DatagramSocket>) {
        self.rebind_by(Socket::own(socket));
    }

    fn rebind_by(&self, mut socket: Socket) {
        // They may be others now.
        self.shared.interfaces.forget();
        let mut state = self.shared.lock();
        socket.succeed(&state.socket);
        let socket = Arc::new(socket);
        state.socket = Arc::clone(&socket);
        state.core.forget_paths();
        // The task of the former socket is to look how long it is still needed.
        state.receiving.wake();
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        let runtime = self.shared.runtime();
        runtime.spawn(ReceiveTask::new(Arc::clone(&self.shared), socket));
        for connection in connections {
            let mut state = connection.lock();
            // Which may have been replaced meanwhile by another call, and the connection be there.
            let current = self.shared.socket();
            if !std::ptr::eq(state.socket.as_ptr(), Arc::as_ptr(&current)) {
                state.next_socket = Some(current);
                state.wake_driver();
            }
        }
    }
}

impl Connection {
    /// Client: from now on this connection's datagrams leave from `local`, an address of this host
    /// that the endpoint's socket can send from, or from whichever the system chooses. The new path
    /// is validated and begins with a congestion controller of its own; if no answer arrives there,
    /// the connection is back on the last that worked after some seconds. An IPv4 address may be
    /// IPv4-mapped (RFC 4291, section 2.5.5.2) or not. False, and nothing changed, if that is not
    /// possible: the handshake is not confirmed, the server forbids it, has given no connection id
    /// for another path yet, or has an address of the other IP version than `local`.
    pub fn migrate(&self, local: Option<IpAddr>) -> bool {
        let mut state = self.shared.lock();
        // Any address is the system's choice.
        let local = match local.filter(|ip| !ip.to_canonical().is_unspecified()) {
            None => None,
            Some(local) => match source_for(state.core.remote_address(), local) {
                None => return false,
                known => known,
            },
        };
        let moves = state.core.is_established() && state.core.try_address(clock::now(), local);
        state.wake_driver();
        moves
    }
}

/// `local` in the form that `remote` has, in which the kernel tells it of what arrives. `None`:
/// nothing leaves from there for `remote`.
fn source_for(remote: SocketAddr, local: IpAddr) -> Option<IpAddr> {
    match (remote.ip().to_canonical(), local.to_canonical()) {
        (IpAddr::V4(_), IpAddr::V4(local)) if remote.is_ipv6() => {
            Some(local.to_ipv6_mapped().into())
        }
        (IpAddr::V4(_), IpAddr::V4(local)) => Some(local.into()),
        (IpAddr::V6(_), IpAddr::V6(local)) => Some(local.into()),
        _ => None,
    }
}

impl State {
    /// Moves to the next socket if there is one and the connection may: returns it. The caller then
    /// sets what the interface there carries.
    pub(super) fn take_next_socket(&mut self) -> Option<Arc<Socket>> {
        let next = self.next_socket.take()?;
        let remote = self.core.remote_address();
        let may_ever = !self.core.handshake().is_migration_forbidden()
            && self.core.error().is_none()
            && next.reaches(remote) == Some(remote);
        if !may_ever {
            return None;
        }
        if !self.core.handshake().is_confirmed() {
            self.next_socket = Some(next);
            return None;
        }
        let local = bound(next.local_address());
        if !self.core.migrate(clock::now(), local) {
            // The peer has yet to give an id for another path.
            self.next_socket = Some(next);
            return None;
        }
        self.socket = Arc::downgrade(&next);
        Some(next)
    }
}
