//! Incoming connections that an application has not accepted yet.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::clock;
use super::connecting::Connecting;
use super::connection::Connection;
use super::shared::{EndpointShared, respond};
use super::socket::Socket;
use super::waiters::Place;
use pathmark_transport::Instant;
use pathmark_transport::connection::ConnectionError;
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
