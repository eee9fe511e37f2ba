//! Connections whose handshake is in progress.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

use super::clock;
use super::connection::Connection;
use super::receive_buffer;
#[cfg(target_os = "linux")]
use super::refusals;
use super::shared::{Awaited, EndpointShared, EndpointState, Shared};
use super::socket::Socket;
use super::task::ConnectionTask;
use super::waiters::Place;
use pathmark_transport::connection::{ConnectionError, EarlyData};
use pathmark_transport::endpoint as core;

/// A connection whose handshake is in progress. Await this to get the connection, or the reason why
/// the handshake failed.
///
/// Once the handshake is complete, you get the connection even if the peer has already closed it.
/// In this case its calls fail, and [`Connection::closed`] returns the reason.
#[derive(Debug)]
pub struct Connecting {
    connection: Option<Connection>,
    place: Place,
}

impl Connecting {
    fn new(connection: Connection) -> Self {
        Self {
            connection: Some(connection),
            place: Place::default(),
        }
    }

    /// Registers a new connection at `socket` and starts its task.
    pub(super) fn begin(
        endpoint: &Arc<EndpointShared>,
        mut state: MutexGuard<'_, EndpointState>,
        socket: Arc<Socket>,
        begun: core::Accepted,
        server_name: Option<String>,
    ) -> Self {
        let core::Accepted {
            handle,
            connection,
            datagrams,
        } = begun;
        let shared = Shared::new(
            connection,
            Arc::clone(endpoint),
            &socket,
            handle,
            server_name,
        );
        if !Arc::ptr_eq(&socket, &state.socket) {
            // The endpoint's socket was replaced while the connection was starting. Since no other
            // task knows the connection yet, its lock is free.
            shared.lock().next_socket = Some(Arc::clone(&state.socket));
        }
        if state.connections.len() <= handle.0 {
            state.connections.resize_with(handle.0 + 1, || None);
        }
        if let Some(slot) = state.connections.get_mut(handle.0) {
            *slot = Some(Arc::clone(&shared));
            state.alive += 1;
        }
        let mut refused = None;
        if !datagrams.is_empty() {
            // These datagrams are most of the work of a handshake, so they go to the connection's
            // own task, which can run on any core. They must be queued before other tasks can find
            // the connection, so that later datagrams are queued behind them.
            let mut group = endpoint.groups.take();
            for (received, datagram) in &datagrams {
                group.add(*received, datagram);
            }
            endpoint.received.count(group.len());
            refused = shared.inbox.push(group).err();
        }
        let alive = state.alive;
        drop(state);
        socket.grow_receive_buffer(receive_buffer::for_connections(alive));
        let connecting = Self::new(Connection::new(Arc::clone(&shared)));
        #[cfg(target_os = "linux")]
        if shared.server_name.is_some() {
            refusals::watch(Arc::clone(&shared), Arc::clone(&socket));
        }
        let task = ConnectionTask::new(Arc::clone(&shared), socket);
        if let Some(group) = refused {
            shared.receive_group(clock::now(), group);
        }
        endpoint.runtime().spawn(task);
        connecting
    }

    /// Returns the connection before its handshake is complete, so that you can use early data
    /// (0-RTT), together with a future for the outcome of this data.
    ///
    /// **As a client**, you can do this if the client resumes a session whose ticket allows early
    /// data, and if its configuration offers it (`TlsClientConfig::with_early_data`). Data that you
    /// write now is sent in the client's first packet. **An observer can replay this data to a
    /// server**: before [`ZeroRtt`] reports a complete handshake, you should only write requests
    /// that are safe to repeat. If the server refuses early data, the streams stay open, and all of
    /// their data will be sent again after the handshake, whereas early datagrams are lost.
    ///
    /// **As a server**, you can do this if your configuration accepts early data
    /// (`TlsServerConfig::with_early_data`). Although no session is resumed twice, data that you
    /// read before [`ZeroRtt`] reports a complete handshake could be a replay, so you should only
    /// act on requests that are safe to repeat. Answers are sent immediately. If you await the
    /// handshake instead, you will read early data after the client has proved its address.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRtt), Self> {
        let offered = self.connection.as_ref().is_some_and(|connection| {
            let shared = connection.shared();
            let is_undecided = shared.lock().core.handshake().may_take_early_data();
            if is_undecided {
                // The client's first packet shows whether there is early data, and may still be
                // waiting to be opened.
                shared.open_all(clock::now());
            }
            let state = shared.lock();
            let possible = matches!(
                state.core.handshake().early_data(),
                EarlyData::Offered | EarlyData::Accepted
            );
            possible && state.lost().is_none()
        });
        match self.connection.take_if(|_| offered) {
            Some(connection) => {
                let shared = Arc::clone(connection.shared());
                shared.lock().leave(Awaited::Progress, &mut self.place);
                let place = Place::default();
                Ok((connection, ZeroRtt { shared, place }))
            }
            None => Err(self),
        }
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        self.connection.as_ref().expect("not ready yet").shared()
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let mut state = connection.shared().lock();
            state.leave(Awaited::Progress, &mut self.place);
        }
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, place } = &mut *self;
        let Some(connected) = connection else {
            // This future was polled again after it was ready.
            return Poll::Pending;
        };
        let mut state = connected.shared().lock();
        // A connection that ends right after its handshake, perhaps by a packet of the same batch,
        // was still established. In this case the application learns the reason from the
        // connection.
        if !state.core.handshake().is_complete() {
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error));
            }
            // A failed handshake isn't over before the task has sent its close.
            state.wait(Awaited::Progress, place, cx);
            return Poll::Pending;
        }
        state.leave(Awaited::Progress, place);
        drop(state);
        match connection.take() {
            Some(connection) => Poll::Ready(Ok(connection)),
            None => Poll::Pending,
        }
    }
}

/// Future of the complete handshake: true if the server accepted early data.
///
/// At a server this is always true, and means that the client has proved its address and that the
/// early data is its own. You can drop this future without changing anything.
#[derive(Debug)]
#[must_use = "early data may be a replay before the handshake is complete"]
pub struct ZeroRtt {
    shared: Arc<Shared>,
    place: Place,
}

impl Drop for ZeroRtt {
    fn drop(&mut self) {
        self.shared.lock().leave(Awaited::Progress, &mut self.place);
    }
}

impl Future for ZeroRtt {
    type Output = Result<bool, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, place } = &mut *self;
        let mut state = shared.lock();
        let accepted = state.core.handshake().early_data() == EarlyData::Accepted;
        // The outcome of the handshake remains valid even if the connection is over.
        let settled = match (state.core.handshake().is_complete(), state.lost()) {
            (true, _) => Ok(accepted),
            (false, Some(error)) => Err(error),
            (false, None) => {
                state.wait(Awaited::Progress, place, cx);
                return Poll::Pending;
            }
        };
        state.leave(Awaited::Progress, place);
        Poll::Ready(settled)
    }
}
