//! Beginning and ending connections at an endpoint. They are started without access to it.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use pathmark_cc::KnownPath;

use super::half_open::{Incoming, Waiting};
use super::{ConnectionHandle, DatagramEvent, Endpoint, Slot};
use crate::connection::{self, ClientStart, Connection, Received, Routing, ServerStart};
use crate::crypto::{ClientCrypto, Keys, token};
use crate::streams::ReceiveMemory;
use crate::wire::{TransportError, TransportErrorCode};
use crate::{Instant, TransportConfig};

/// Parameters for opening a connection to a server.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Transport configuration.
    pub config: Arc<TransportConfig>,
    /// Cryptographic configuration.
    pub crypto: Arc<dyn ClientCrypto>,
    /// Name of the server, which must match its certificate.
    pub server_name: String,
    /// Address of the server.
    pub remote: SocketAddr,
    /// Local address to connect from, if one is bound.
    pub local: Option<IpAddr>,
    /// Token from an earlier connection to the server. May be empty.
    pub token: Vec<u8>,
}

/// Error returned when a connection can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint already has the maximum number of connections.
    #[error(
        "the endpoint has all {0} connections that it may have; close some, or raise \
         max_connections"
    )]
    TooManyConnections(usize),
    /// The connection couldn't be started.
    #[error(transparent)]
    Connection(#[from] connection::ConnectError),
}

/// Error returned when an incoming connection can't be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The client waited too long, or its handshake had to make room for another.
    #[error("the client has waited too long to be accepted")]
    Expired,
    /// The endpoint no longer accepts connections.
    #[error("the endpoint accepts no connections")]
    NoServer,
    /// The connection couldn't be started.
    #[error(transparent)]
    Connection(#[from] connection::ConnectError),
}

/// A connection after [`Endpoint::begin`].
#[derive(Debug)]
pub struct Accepted {
    /// Identifies the connection at the endpoint.
    pub handle: ConnectionHandle,
    /// The connection.
    pub connection: Box<Connection>,
    /// Datagrams received from the client so far. Pass them to the connection.
    pub datagrams: Vec<(Received, Vec<u8>)>,
}

impl Endpoint {
    /// Opens a connection. Its first datagram is immediately ready for sending.
    ///
    /// # Errors
    /// Returns [`ConnectError`] if the endpoint is full, or the server's name or a configuration is
    /// unusable.
    pub fn connect(
        &mut self,
        now: Instant,
        connect: Connect,
    ) -> Result<(ConnectionHandle, Box<Connection>), ConnectError> {
        let mut connection = self.client(now, connect)?.start(now)?;
        let handle = self.add(now, &mut connection)?;
        Ok((handle, connection))
    }

    /// Performs the first part of [`connect`](Self::connect) by collecting the state that a
    /// connection starts from.
    ///
    /// # Errors
    /// Returns [`ConnectError::TooManyConnections`].
    pub fn client(
        &mut self,
        now: Instant,
        connect: Connect,
    ) -> Result<ClientToStart, ConnectError> {
        self.has_room()?;
        Ok(ClientToStart {
            given: self.given(now, connect.remote.ip()),
            start: ClientStart {
                config: self.within_memory(connect.config),
                crypto: connect.crypto,
                server_name: connect.server_name,
                remote: connect.remote,
                local: connect.local,
                token: connect.token,
                endpoint_key: Arc::clone(&self.config.key),
                random: self.random.fork(),
            },
        })
    }

    /// Performs the last part of [`connect`](Self::connect) by routing datagrams to a connection
    /// that was started.
    ///
    /// # Errors
    /// Returns [`ConnectError::TooManyConnections`]. You should then drop the connection.
    pub fn add(
        &mut self,
        now: Instant,
        connection: &mut Connection,
    ) -> Result<ConnectionHandle, ConnectError> {
        self.has_room()?;
        let slot = Slot::Connection { half_open: None };
        let handle = ConnectionHandle(self.slots.insert(slot));
        self.update(now, handle, connection);
        Ok(handle)
    }

    fn has_room(&self) -> Result<(), ConnectError> {
        let most = self.config.max_connections;
        if self.slots.len() < most {
            Ok(())
        } else {
            Err(ConnectError::TooManyConnections(most))
        }
    }

    /// Returns `config` with initial promises reduced to the memory available for a new
    /// connection.
    fn within_memory(&self, mut config: Arc<TransportConfig>) -> Arc<TransportConfig> {
        let streams = config.streams.within(&self.memory);
        if streams != config.streams {
            Arc::make_mut(&mut config).streams = streams;
        }
        config
    }

    fn given(&mut self, now: Instant, peer: IpAddr) -> FromEndpoint {
        FromEndpoint {
            memory: Arc::clone(&self.memory),
            known: self.known.get(now, peer),
        }
    }

    /// Takes the state kept for an incoming connection, or returns `None` if it has expired.
    fn claim(&mut self, incoming: &Incoming) -> Option<Waiting> {
        let slot = self.slots.get_mut(incoming.handle.0)?;
        match slot {
            Slot::Waiting(waiting) if waiting.serial == incoming.serial => {
                let half_open = Some(waiting.serial);
                match core::mem::replace(slot, Slot::Connection { half_open }) {
                    Slot::Waiting(waiting) => Some(waiting),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Accepts a connection. It has already processed the client's datagrams and may have something
    /// to send.
    ///
    /// # Errors
    /// Returns [`AcceptError`]. The client is then forgotten.
    pub fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
    ) -> Result<(ConnectionHandle, Box<Connection>), AcceptError> {
        let started = self.server(now, &incoming)?.start(now);
        let Accepted {
            handle,
            mut connection,
            datagrams,
        } = self.begin(now, incoming, started)?;
        for (received, mut datagram) in datagrams {
            connection.handle_datagram(now, received, &mut datagram);
        }
        self.update(now, handle, &mut connection);
        Ok((handle, connection))
    }

    /// Performs the first part of [`accept`](Self::accept) by collecting the state that a
    /// connection starts from. The client keeps waiting until the connection has
    /// [begun](Self::begin).
    ///
    /// # Errors
    /// Returns [`AcceptError`]. The client is then forgotten.
    pub fn server(
        &mut self,
        now: Instant,
        incoming: &Incoming,
    ) -> Result<ServerToStart, AcceptError> {
        let given = self.given(now, incoming.received.remote.ip());
        let Some(Slot::Waiting(waiting)) = self.slots.get_mut(incoming.handle.0) else {
            return Err(AcceptError::Expired);
        };
        if waiting.serial != incoming.serial {
            return Err(AcceptError::Expired);
        }
        let Some(server) = &self.config.server else {
            self.remove(incoming.handle);
            return Err(AcceptError::NoServer);
        };
        Ok(ServerToStart {
            keys: waiting.keys.take(),
            given,
            start: ServerStart {
                config: self.within_memory(Arc::clone(&server.transport)),
                crypto: Arc::clone(&server.crypto),
                remote: incoming.received.remote,
                local: incoming.received.local,
                destination: incoming.dcid,
                source: incoming.scid,
                original_destination: incoming.origin.original_dcid,
                retry_source: incoming.origin.retry_scid,
                validated: incoming.origin.validated,
                endpoint_key: Arc::clone(&self.config.key),
                random: self.random.fork(),
            },
        })
    }

    /// Performs the last part of [`accept`](Self::accept) that needs the endpoint, for a connection
    /// that was [started](ServerToStart::start). You must then pass it the client's datagrams,
    /// which costs most of a handshake, and finally [route](Self::route) it.
    ///
    /// # Errors
    /// Returns [`AcceptError`]. The client is then forgotten.
    #[expect(clippy::needless_pass_by_value, reason = "it is decided upon once")]
    pub fn begin(
        &mut self,
        now: Instant,
        incoming: Incoming,
        started: Result<Box<Connection>, connection::ConnectError>,
    ) -> Result<Accepted, AcceptError> {
        let waiting = self.claim(&incoming).ok_or(AcceptError::Expired)?;
        let handle = incoming.handle;
        let mut connection = started.inspect_err(|_| self.remove(handle))?;
        self.route(now, handle, &mut connection);
        Ok(Accepted {
            handle,
            connection,
            datagrams: waiting.datagrams,
        })
    }

    /// Refuses a connection. If this returns [`DatagramEvent::Respond`], send `answer`, which tells
    /// the client CONNECTION_REFUSED.
    #[expect(clippy::needless_pass_by_value, reason = "it is decided upon once")]
    pub fn refuse(
        &mut self,
        now: Instant,
        incoming: Incoming,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        if self.claim(&incoming).is_none() {
            return DatagramEvent::Nothing;
        }
        self.remove(incoming.handle);
        let error = TransportError::new(
            TransportErrorCode::CONNECTION_REFUSED,
            "the server takes no connection now",
        );
        self.send_close(now, &incoming.dcid, &incoming.scid, &error, answer)
    }

    /// Makes the client prove its address first. If this returns [`DatagramEvent::Respond`], send
    /// the Retry in `answer`; the client will then return as a new [`Incoming`]. A client that has
    /// already followed a Retry is ignored instead.
    #[expect(clippy::needless_pass_by_value, reason = "it is decided upon once")]
    pub fn retry(
        &mut self,
        now: Instant,
        incoming: Incoming,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        if self.claim(&incoming).is_none() {
            return DatagramEvent::Nothing;
        }
        self.remove(incoming.handle);
        if !incoming.may_retry() {
            return DatagramEvent::Nothing;
        }
        let (dcid, scid) = (incoming.dcid, incoming.scid);
        self.send_retry(now, &incoming.received, &dcid, &scid, answer)
    }

    /// Forgets a client without answering.
    #[expect(clippy::needless_pass_by_value, reason = "it is decided upon once")]
    pub fn ignore(&mut self, incoming: Incoming) {
        if self.claim(&incoming).is_some() {
            self.remove(incoming.handle);
        }
    }

    /// Performs the urgent part of [`update`](Self::update) by taking a connection's new ids and
    /// the end of its handshake.
    ///
    /// You must call it before sending anything that tells the peer about these ids, because the
    /// peer may use them immediately and would be reset. Once the handshake is complete, also call
    /// it before handling the next datagram, which could otherwise evict this connection to make
    /// room for another.
    pub fn route(&mut self, now: Instant, handle: ConnectionHandle, connection: &mut Connection) {
        let is_evicted = matches!(self.slots.get(handle.0), Some(Slot::Evicted));
        while let Some(routing) = connection.poll_routing() {
            match routing {
                _ if is_evicted => {}
                Routing::Add(id) => self.demux.add_id(handle, &id),
                Routing::Remove(id) => self.demux.remove_id(handle, &id),
                Routing::ResetTokens => {
                    let tokens = connection.reset_tokens();
                    self.demux.set_tokens(&*self.config.key, handle, tokens);
                }
            }
        }
        if connection.is_established()
            && let Some(Slot::Connection { half_open }) = self.slots.get_mut(handle.0)
            && let Some(serial) = half_open.take()
        {
            // A handshake that failed counts until its connection is removed. Otherwise, a
            // flood of first packets that fail immediately would bypass the limit.
            self.half_open.remove(serial);
            self.give_token(now, connection);
        }
    }

    /// Takes everything from a connection that the endpoint must know: ids to route, the end of its
    /// handshake, its end.
    ///
    /// You must call it after each use of the connection. If it returns false, the connection is
    /// over and forgotten, so you should drop it. This includes connections closed by their peer:
    /// late datagrams for these are dropped by the endpoint.
    pub fn update(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        connection: &mut Connection,
    ) -> bool {
        self.route(now, handle, connection);
        if let Some(shown) = connection.poll_shown_path() {
            let peer = connection.remote_address().ip();
            self.known.learn(now, peer, shown.path, shown.asked);
        }
        self.drained.forget_old(now, &mut self.demux);
        let slot = self.slots.get(handle.0);
        if connection.is_drained() || matches!(slot, Some(Slot::Evicted)) {
            self.remove(handle);
            return false;
        }
        // A handshake that failed counts until its connection is removed.
        if let Some(until) = connection.drains_until()
            && matches!(slot, Some(Slot::Connection { half_open: None }))
        {
            self.slots.try_remove(handle.0);
            let known = self.demux.leave(handle);
            self.drained.add(until, known, &mut self.demux);
            return false;
        }
        true
    }

    fn give_token(&mut self, now: Instant, connection: &mut Connection) {
        let lifetime = self.config.new_token_lifetime;
        if lifetime.is_zero() {
            return;
        }
        let expires = self.wall(now).saturating_add(lifetime);
        let client = connection.remote_address().ip();
        let token = token::new_token(&*self.config.key, &mut self.random, client, expires);
        connection.send_token(Bytes::from(token));
    }

    /// Forgets the rates of paths to peers. Call it when packets leave through another interface
    /// from now on.
    pub fn forget_paths(&mut self) {
        self.known.clear();
    }

    /// Forgets a connection that its driver has dropped.
    pub fn remove(&mut self, handle: ConnectionHandle) {
        match self.slots.try_remove(handle.0) {
            Some(
                Slot::Waiting(Waiting { serial, .. })
                | Slot::Connection {
                    half_open: Some(serial),
                },
            ) => self.half_open.remove(serial),
            Some(Slot::Connection { half_open: None } | Slot::Evicted) => {}
            None => return,
        }
        self.demux.remove(handle);
    }
}

/// A connection to a server, ready to be [started](Self::start). Starting takes the most time but
/// doesn't need the endpoint, so if you guard the endpoint with a lock, you can release it
/// meanwhile.
#[derive(Debug)]
pub struct ClientToStart {
    pub(super) start: ClientStart,
    pub(super) given: FromEndpoint,
}

/// A connection requested by a client, ready to be [started](Self::start) in the same way.
#[derive(Debug)]
pub struct ServerToStart {
    pub(super) start: ServerStart,
    pub(super) keys: Option<Keys>,
    pub(super) given: FromEndpoint,
}

/// State that a connection gets from its endpoint.
#[derive(Debug)]
pub(super) struct FromEndpoint {
    pub(super) memory: Arc<ReceiveMemory>,
    pub(super) known: Option<KnownPath>,
}

impl FromEndpoint {
    fn give(self, connection: &mut Connection) {
        connection.streams().share_memory(self.memory);
        connection.set_known_path(self.known);
    }
}

impl ClientToStart {
    /// Creates the connection with its TLS session and first message.
    ///
    /// # Errors
    /// Returns the same errors as [`Connection::client`].
    pub fn start(self, now: Instant) -> Result<Box<Connection>, connection::ConnectError> {
        let mut connection = Connection::client(now, self.start)?;
        self.given.give(&mut connection);
        Ok(connection)
    }
}

impl ServerToStart {
    /// Creates the connection with its TLS session.
    ///
    /// # Errors
    /// Returns the same errors as [`Connection::server`].
    pub fn start(self, now: Instant) -> Result<Box<Connection>, connection::ConnectError> {
        let mut connection = connection::server(now, self.start, self.keys)?;
        self.given.give(&mut connection);
        Ok(connection)
    }
}
