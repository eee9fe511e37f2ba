//! Moving connections to another socket, or to another address of this host (RFC 9000 §9).

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use super::clock;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::interfaces::bound;
use super::own_socket::DatagramSocket;
use super::receive_buffer;
use super::receive_task::ReceiveTask;
use super::shared::State;
use super::socket::Socket;

impl Endpoint {
    /// Moves this endpoint to another socket.
    ///
    /// New connections will use `socket`, and connections to servers move there as soon as their
    /// handshake is confirmed (RFC 9000 §9). So that packets in flight still arrive, the former
    /// socket is read until no connection has used it for a few seconds.
    ///
    /// A connection stays at its socket if it was accepted here (because servers do not migrate),
    /// if its server forbids migration, or if `socket` cannot reach its server. This is the case
    /// for an IPv4 socket and an IPv6 address, for example, and between a socket for both versions
    /// and a socket for a single version.
    ///
    /// # Errors
    /// If the socket cannot be used. In this case nothing has changed.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        // The endpoint's runtime must deliver the events of the socket.
        let runtime = self.shared.runtime();
        let _entered = runtime.enter();
        self.rebind_by(Socket::new(socket)?);
        Ok(())
    }

    /// Moves this endpoint like [`rebind`](Self::rebind), but to a socket that the application
    /// provides.
    pub fn rebind_to(&self, socket: Arc<dyn DatagramSocket>) {
        self.rebind_by(Socket::own(socket));
    }

    fn rebind_by(&self, mut socket: Socket) {
        // The interfaces may have changed.
        self.shared.interfaces.forget();
        let mut state = self.shared.lock();
        socket.succeed(&state.socket);
        socket.grow_receive_buffer(receive_buffer::for_connections(state.alive));
        let socket = Arc::new(socket);
        state.socket = Arc::clone(&socket);
        state.core.forget_paths();
        // The task of the former socket must check how long this socket is still needed.
        state.receiving.wake();
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        let runtime = self.shared.runtime();
        runtime.spawn(ReceiveTask::new(Arc::clone(&self.shared), socket));
        for connection in connections {
            let mut state = connection.lock();
            // Another call may have replaced the socket in the meantime and moved the connection
            // there.
            let current = self.shared.socket();
            if !std::ptr::eq(state.socket.as_ptr(), Arc::as_ptr(&current)) {
                state.next_socket = Some(current);
                state.wake_driver();
            }
        }
    }
}

impl Connection {
    /// Changes the source address of a client's connection.
    ///
    /// Its datagrams will be sent from `local`, an address of this host from which the endpoint's
    /// socket can send, or from the address that the system chooses if this is `None`. The new path
    /// is validated and starts with a new congestion controller. If no answer arrives there, the
    /// connection returns to the last working path after a few seconds. An IPv4 address can be
    /// IPv4-mapped (RFC 4291, section 2.5.5.2) or not.
    ///
    /// Returns false, without changing anything, if migration is not possible: because the
    /// handshake is not confirmed, because the server forbids migration or has not yet issued a
    /// connection ID for another path, or because the server's address has another IP version than
    /// `local`.
    pub fn migrate(&self, local: Option<IpAddr>) -> bool {
        let mut state = self.shared.lock();
        // The unspecified address leaves the choice to the system.
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

/// Returns `local` in the form of `remote`, as the kernel reports it for arriving datagrams.
/// Returns `None` if nothing can be sent from `local` to `remote`.
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
    /// Moves to the next socket if there is one and the connection may migrate, and returns it. The
    /// caller must then set the MTU of the interface there.
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
            // The peer hasn't issued a connection ID for another path yet.
            self.next_socket = Some(next);
            return None;
        }
        self.socket = Arc::downgrade(&next);
        Some(next)
    }
}
