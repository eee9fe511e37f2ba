//! How an endpoint's tasks use its state.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::{BATCH_BYTES, EndpointShared, EndpointState, ReceivedCount, Shared};
use crate::receive_buffer::for_connections;
use crate::socket::{Outgoing, Socket};
use crate::waiters::Wakers;
use pathmark_transport::connection::{self as core_connection, Received};
use pathmark_transport::endpoint::{self as core, ConnectionHandle, DatagramEvent};
use pathmark_transport::{Ecn, Instant};

/// Send buffers kept for reuse; further buffers are freed.
const SPARE_BUFFERS: usize = 4;
/// Number of servers whose address validation token is remembered.
const REMEMBERED_SERVERS: usize = 64;
/// Tokens with more bytes are dropped, because every Initial packet must hold the token together
/// with the ClientHello.
const LONGEST_TOKEN: usize = 512;

impl ReceivedCount {
    pub(crate) fn count(&self, datagrams: usize) {
        self.all.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    /// Counts `datagrams` that a connection's own task has opened.
    pub(crate) fn count_handed_over(&self, datagrams: usize) {
        self.handed_over
            .fetch_add(datagrams as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for EndpointShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointShared")
            .field("socket", &self.socket())
            .finish_non_exhaustive()
    }
}

impl EndpointState {
    /// Queues a client for the next task that accepts. The caller must wake the returned tasks once
    /// the state is unlocked, because a woken task may end and drop handles of this endpoint.
    fn push_incoming(&mut self, incoming: core::Incoming, socket: &Arc<Socket>) -> Wakers {
        if self.incoming.len() >= self.incoming.capacity() {
            // Before the queue grows further, remove clients that expired or had to make room.
            let core = &self.core;
            self.incoming
                .retain(|(incoming, _)| core.is_waiting(incoming));
        }
        self.incoming.push_back((incoming, Arc::downgrade(socket)));
        self.accepting.wakers()
    }

    /// Returns the connections that had to make room.
    fn evicted(&mut self) -> Vec<Arc<Shared>> {
        let Self {
            core, connections, ..
        } = self;
        std::iter::from_fn(|| core.poll_evicted())
            .filter_map(|handle| connections.get(handle.0)?.clone())
            .collect()
    }

    /// Stops accepting clients. The caller must wake the returned tasks once the state is unlocked.
    pub(crate) fn stop_accepting(&mut self) -> Wakers {
        self.closed = true;
        self.core.set_server(None);
        for (incoming, _) in self.incoming.drain(..) {
            self.core.ignore(incoming);
        }
        self.accepting.wakers()
    }
}

impl EndpointShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        // A panic elsewhere doesn't damage the endpoint's own state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the caller's runtime, or the endpoint's if the caller is outside any.
    pub(crate) fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.runtime.clone())
    }

    /// Returns the socket for new connections.
    pub(crate) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.lock().socket)
    }

    /// Returns a buffer for one send batch.
    pub(crate) fn take_buffer(&self) -> Box<[u8]> {
        let spare = self.spare().pop();
        spare.unwrap_or_else(|| vec![0; BATCH_BYTES].into_boxed_slice())
    }

    /// Gives a buffer back.
    pub(crate) fn give_buffer(&self, buffer: Box<[u8]>) {
        let mut spare = self.spare();
        if spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true once there is neither a connection left nor a handle that could start one.
    pub(crate) fn is_over(&self, state: &EndpointState) -> bool {
        // `closed` must be checked as well, because the last handle takes the lock after
        // decrementing `users`.
        state.closed && state.alive == 0 && self.users.load(Ordering::Acquire) == 0
    }

    /// Ends the endpoint's own tasks once no handle or connection needs them.
    pub(crate) fn end_if_over(&self, state: &mut EndpointState) {
        if self.is_over(state) {
            state.receiving.wake();
            self.timers.end();
        }
    }

    /// Updates the IDs by which datagrams of a connection are found.
    pub(crate) fn route(
        &self,
        now: Instant,
        handle: ConnectionHandle,
        connection: &mut core_connection::Connection,
    ) {
        self.lock().core.route(now, handle, connection);
    }

    /// Updates the endpoint from the state of a connection. Returns `Some` if the connection is
    /// over: its task must end, and wake these tasks once no lock is held.
    pub(crate) fn update(
        &self,
        now: Instant,
        handle: ConnectionHandle,
        connection: &mut core_connection::Connection,
    ) -> Option<Wakers> {
        let mut state = self.lock();
        if state.core.update(now, handle, connection) {
            return None;
        }
        Some(self.remove(state, handle))
    }

    /// Removes a connection whose task has panicked or ended with its runtime.
    pub(crate) fn abandon(&self, handle: ConnectionHandle) {
        let mut state = self.lock();
        state.core.remove(handle);
        let idle = self.remove(state, handle);
        idle.for_each(Waker::wake);
    }

    /// Removes a connection. If this was the last connection, the caller must wake the returned
    /// tasks, which wait for this.
    fn remove(&self, mut state: MutexGuard<'_, EndpointState>, handle: ConnectionHandle) -> Wakers {
        if let Some(slot) = state.connections.get_mut(handle.0)
            && slot.take().is_some()
        {
            state.alive -= 1;
        }
        if state.alive > 0 {
            return Wakers::default();
        }
        self.end_if_over(&mut state);
        state.idle.wakers()
    }

    /// Shrinks the socket's receive buffer after a connection has ended, if the others need less.
    pub(crate) fn fit_receive_buffer(&self, socket: &Socket, ended: &Shared) {
        let wish = |connection: &Shared| connection.receive_buffer.load(Ordering::Relaxed);
        let size = socket.requested_receive_buffer();
        let state = self.lock();
        let before = wish(ended).max(for_connections(state.alive + 1));
        let mut largest = for_connections(state.alive);
        if before < size || largest >= size {
            return;
        }
        for other in state.connections.iter().flatten() {
            largest = largest.max(wish(other));
            if largest >= size {
                return;
            }
        }
        drop(state);
        socket.shrink_receive_buffer(largest);
    }

    /// Stores a token for the next connection to the same server.
    pub(crate) fn remember(&self, server_name: &str, token: Bytes) {
        if token.len() > LONGEST_TOKEN {
            return;
        }
        let mut state = self.lock();
        if state.tokens.len() < REMEMBERED_SERVERS || state.tokens.contains_key(server_name) {
            state.tokens.insert(server_name.to_owned(), token);
        }
    }

    /// Finds the connection of a datagram that arrived at `socket`. If there is none, this may send
    /// an answer, using the buffer `answer`. A client's first packet must be
    /// [admitted](Self::admit) by the caller.
    pub(crate) fn sort(
        &self,
        now: Instant,
        socket: &Arc<Socket>,
        received: &Received,
        bytes: &[u8],
        answer: &mut Vec<u8>,
    ) -> Found {
        let mut state = self.lock();
        let event = match state.core.sort(now, received, bytes, answer) {
            core::Sorted::First(first) => return Found::First(first),
            core::Sorted::Known(event) => event,
        };
        self.act_on(state, event, socket, received, answer)
    }

    /// Opens a client's first packet and admits the client, unless the socket was replaced.
    pub(crate) fn admit(
        &self,
        now: Instant,
        socket: &Arc<Socket>,
        received: &Received,
        bytes: &[u8],
        first: core::FirstPacket,
        answer: &mut Vec<u8>,
    ) -> Found {
        let opened = first.open(received, bytes);
        let mut state = self.lock();
        let EndpointState {
            core, connections, ..
        } = &mut *state;
        let unread = |handle: ConnectionHandle| {
            let connection = connections.get(handle.0).and_then(Option::as_ref);
            connection.is_some_and(|connection| connection.inbox.has_unread())
        };
        let event = core.admit(now, received, bytes, opened, unread, answer);
        self.act_on(state, event, socket, received, answer)
    }

    /// Carries out the core's decision about a datagram.
    fn act_on(
        &self,
        mut state: MutexGuard<'_, EndpointState>,
        event: DatagramEvent,
        socket: &Arc<Socket>,
        received: &Received,
        answer: &[u8],
    ) -> Found {
        let is_current = Arc::ptr_eq(socket, &state.socket);
        match event {
            DatagramEvent::Connection(handle) => {
                let connection = state.connections.get(handle.0);
                return match connection.cloned().flatten() {
                    Some(connection) => Found::Connection(connection),
                    None => Found::NoConnection,
                };
            }
            DatagramEvent::Incoming(incoming) => {
                let mut accepting = Wakers::default();
                if is_current {
                    accepting = state.push_incoming(incoming, socket);
                } else {
                    state.core.ignore(incoming);
                }
                let evicted = state.evicted();
                drop(state);
                accepting.for_each(Waker::wake);
                evicted.iter().for_each(|connection| connection.refuse());
            }
            DatagramEvent::Respond => {
                drop(state);
                respond(socket, received.remote, received.local, answer);
            }
            DatagramEvent::Nothing => {}
        }
        Found::NoConnection
    }
}

/// The destination of a datagram.
pub(crate) enum Found {
    Connection(Arc<Shared>),
    /// A client's first packet, which is not opened yet.
    First(core::FirstPacket),
    /// The datagram belongs to no connection, or is already handled.
    NoConnection,
}

impl Found {
    pub(crate) fn connection(self) -> Option<Arc<Shared>> {
        match self {
            Self::Connection(connection) => Some(connection),
            Self::First(_) | Self::NoConnection => None,
        }
    }
}

/// Sends an answer to a datagram of no connection. If the kernel has no room, the answer is lost,
/// and the peer will try again.
pub(crate) fn respond(socket: &Socket, to: SocketAddr, from: Option<IpAddr>, bytes: &[u8]) {
    socket.send(&Outgoing {
        to,
        from,
        ecn: Ecn::NotEct,
        dscp: 0,
        bytes,
        segment: bytes.len(),
    });
}
