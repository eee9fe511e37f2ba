//! Incoming connections that an application has not accepted yet, and connections whose handshake
//! is in progress.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, Weak};
use std::task::{Context, Poll};

use super::connection::Connection;
use super::connection_task::ConnectionTask;
#[cfg(target_os = "linux")]
use super::refusals;
use super::shared::{Awaited, EndpointShared, EndpointState, Shared, respond};
use super::socket::Socket;
use super::waiters::Place;
use super::{clock, receive_buffer};
use pathmark_transport::Instant;
use pathmark_transport::connection::{ConnectionError, EarlyData};
use pathmark_transport::endpoint::{self as core, AcceptError, DatagramEvent};
use pathmark_transport::wire::{TransportError, TransportErrorCode};

/// An incoming connection that you can accept, refuse, retry or ignore. Dropping it refuses the
/// client.
#[derive(Debug)]
pub struct Incoming {
    remote: SocketAddr,
    /// `None` once the application has decided.
    inner: Option<core::Incoming>,
    /// The socket at which the client's packet arrived. The client knows this side by this socket's
    /// address, even if the endpoint has another socket by now.
    socket: Weak<Socket>,
    shared: Arc<EndpointShared>,
}

/// Future of the next [`Incoming`], or of `None` once the endpoint is closed.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Accept<'a> {
    shared: &'a Arc<EndpointShared>,
    place: Place,
}

impl<'a> Accept<'a> {
    pub(super) fn new(shared: &'a Arc<EndpointShared>) -> Self {
        Self {
            shared,
            place: Place::default(),
        }
    }
}

impl Drop for Accept<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let forgotten = state.accepting.leave(&mut self.place);
        drop(state);
        drop(forgotten);
    }
}

impl Future for Accept<'_> {
    type Output = Option<Incoming>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, place } = &mut *self;
        let mut state = shared.lock();
        while let Some((incoming, socket)) = state.incoming.pop_front() {
            if !state.core.is_waiting(&incoming) {
                continue;
            }
            return Poll::Ready(Some(Incoming {
                remote: incoming.remote_address(),
                inner: Some(incoming),
                socket,
                shared: Arc::clone(shared),
            }));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        let replaced = state.accepting.wait(place, cx);
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Incoming {
    /// Returns the source address of the client's packet.
    pub fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    /// Returns true if [`retry`](Self::retry) is possible, because the client hasn't followed a
    /// Retry yet.
    pub fn may_retry(&self) -> bool {
        self.inner.as_ref().is_some_and(core::Incoming::may_retry)
    }

    /// Returns true if the client has proved its address with a token.
    pub fn remote_address_validated(&self) -> bool {
        self.inner
            .as_ref()
            .is_some_and(core::Incoming::is_validated)
    }

    /// Accepts the connection and continues with its handshake.
    ///
    /// # Errors
    /// [`AcceptError`] if the client has waited too long or had to make room for another, if the
    /// endpoint was closed, or if the connection couldn't be started.
    pub fn accept(mut self) -> Result<Connecting, AcceptError> {
        // A socket that was replaced is still read for a few seconds.
        let socket = self.socket.upgrade().ok_or(AcceptError::Expired)?;
        let incoming = self.inner.take().ok_or(AcceptError::Expired)?;
        let (remote, local) = (incoming.remote_address(), incoming.local_address());
        let interface = self
            .shared
            .interfaces
            .mtu(clock::now(), &socket, remote, local);
        let now = clock::now();
        let prepared = self.shared.lock().core.server(now, &incoming)?;
        // The endpoint's lock is free here, so that other clients don't wait for this TLS session.
        let mut started = prepared.start(now);
        if let (Ok(connection), Some(bytes)) = (&mut started, interface) {
            connection.set_interface_mtu(bytes);
        }
        let mut state = self.shared.lock();
        if state.closed {
            // The endpoint was closed in the meantime, so no task would receive for the connection
            // or end it.
            state.core.ignore(incoming);
            return Err(AcceptError::NoServer);
        }
        let begun = state.core.begin(clock::now(), incoming, started)?;
        Ok(Connecting::begin(&self.shared, state, socket, begun, None))
    }

    /// Refuses the connection and informs the client.
    pub fn refuse(self) {
        drop(self);
    }

    /// Sends a Retry packet, so that the client must prove its address before it can connect.
    ///
    /// # Errors
    /// [`RetryError`] if the client has already followed a Retry. It contains this value.
    #[expect(clippy::result_large_err, reason = "the attempt can still be accepted")]
    pub fn retry(mut self) -> Result<(), RetryError> {
        if !self.may_retry() {
            return Err(RetryError(self));
        }
        self.answer(core::Endpoint::retry);
        Ok(())
    }

    /// Drops the attempt without sending a response.
    pub fn ignore(mut self) {
        if let Some(incoming) = self.inner.take() {
            self.shared.lock().core.ignore(incoming);
        }
    }

    fn answer<F>(&mut self, decide: F)
    where
        F: FnOnce(&mut core::Endpoint, Instant, core::Incoming, &mut Vec<u8>) -> DatagramEvent,
    {
        let Some(incoming) = self.inner.take() else {
            return;
        };
        let (to, from) = (incoming.remote_address(), incoming.local_address());
        let mut answer = Vec::new();
        let mut state = self.shared.lock();
        let event = decide(&mut state.core, clock::now(), incoming, &mut answer);
        drop(state);
        if let (DatagramEvent::Respond, Some(socket)) = (event, self.socket.upgrade()) {
            respond(&socket, to, from, &answer);
        }
    }
}

/// The client has already followed a Retry.
#[derive(Debug, thiserror::Error)]
#[error("the client has already followed a Retry")]
pub struct RetryError(Incoming);

impl RetryError {
    /// Returns the attempt, so that you can accept it.
    pub fn into_incoming(self) -> Incoming {
        self.0
    }
}

/// Accepts and waits for the handshake, so that you can write `incoming.await` instead of calling
/// [`accept`](Incoming::accept) and awaiting its [`Connecting`].
impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept().map_err(|error| match error {
            AcceptError::Expired => ConnectionError::HandshakeTimedOut,
            AcceptError::NoServer => ConnectionError::LocallyClosed,
            error => {
                let code = TransportErrorCode::INTERNAL_ERROR;
                ConnectionError::TransportError(TransportError::new(code, error.to_string()))
            }
        }))
    }
}

/// Future of a connection from a client, created by awaiting an [`Incoming`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.answer(core::Endpoint::refuse);
    }
}

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
