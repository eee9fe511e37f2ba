//! Beginning and ending connections at an endpoint.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;

use super::incoming::{Incoming, Waiting};
use super::starting::{ClientToStart, FromEndpoint, ServerToStart};
use super::{ConnectionHandle, DatagramEvent, Endpoint, Slot};
use crate::Instant;
use crate::TransportConfig;

use crate::connection::{self, ClientStart, Connection, Received, Routing, ServerStart};
use crate::crypto::{ClientCrypto, token};
use crate::wire::{TransportError, TransportErrorCode};

/// A connection to be opened.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Transport configuration.
    pub config: Arc<TransportConfig>,
    /// Cryptographic configuration.
    pub crypto: Arc<dyn ClientCrypto>,
    /// Name of the server, as its certificate has it.
    pub server_name: String,
    /// Where the server is.
    pub remote: SocketAddr,
    /// From which of our addresses, if one is bound.
    pub local: Option<IpAddr>,
    /// A token from an earlier connection to the server; may be empty.
    pub token: Vec<u8>,
}

/// A connection could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint has as many connections as it may have.
    #[error(
        "the endpoint has all {0} connections that it may have; close some, or raise \
         max_connections"
    )]
    TooManyConnections(usize),
    /// The connection could not begin.
    #[error(transparent)]
    Connection(#[from] connection::ConnectError),
}

/// An incoming connection could not be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// It was accepted or refused too late.
    #[error("the client has waited too long to be accepted")]
    Expired,
    /// The endpoint accepts connections no longer.
    #[error("the endpoint accepts no connections")]
    NoServer,
    /// The connection could not begin.
    #[error(transparent)]
    Connection(#[from] connection::ConnectError),
}

/// A connection that was [begun](Endpoint::begin).
#[derive(Debug)]
pub struct Accepted {
    /// Its name at the endpoint.
    pub handle: ConnectionHandle,
    /// The connection.
    pub connection: Box<Connection>,
    /// What its client has sent so far.
    pub datagrams: Vec<(Received, Vec<u8>)>,
}

impl Endpoint {
    /// Opens a connection; its first datagram is ready at once.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Instant,
        connect: Connect,
    ) -> Result<(ConnectionHandle, Box<Connection>), ConnectError> {
        let mut connection = self.client(now, connect)?.start(now)?;
        let handle = self.add(now, &mut connection)?;
        Ok((handle, connection))
    }

    /// The first part of [`connect`](Self::connect): what a connection starts from.
    ///
    /// # Errors
    /// [`ConnectError::TooManyConnections`].
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

    /// The last part of [`connect`](Self::connect): finds datagrams for a connection that was
    /// started.
    ///
    /// # Errors
    /// [`ConnectError::TooManyConnections`]; drop the connection.
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
        match self.slots.len() < most {
            true => Ok(()),
            false => Err(ConnectError::TooManyConnections(most)),
        }
    }

    /// `config`, with no more promised at first than the endpoint can keep of one connection.
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

    /// Takes what was kept for an incoming connection. `None` if it has expired.
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

    /// Accepts a connection. It has taken the client's datagrams already and may have something to
    /// send.
    ///
    /// # Errors
    /// [`AcceptError`]; the client is forgotten.
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

    /// The first part of [`accept`](Self::accept): what a connection starts from. Until it has
    /// [begun](Self::begin) the client waits as before.
    ///
    /// # Errors
    /// [`AcceptError`]; the client is forgotten.
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

    /// The last part of [`accept`](Self::accept) that needs the endpoint, for a connection that was
    /// [started](ServerToStart::start): it is yet to take the client's datagrams, which costs most
    /// of a handshake, and then to be [routed](Self::route).
    ///
    /// # Errors
    /// [`AcceptError`]; the client is forgotten.
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

    /// Refuses a connection: CONNECTION_REFUSED goes to the client with what is put into `answer`,
    /// if the event is [`DatagramEvent::Respond`].
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

    /// Has the client prove its address, with the Retry that is put into `answer`, if the event is
    /// [`DatagramEvent::Respond`]. It then comes in again. A client that followed a Retry already
    /// is ignored.
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

    /// Forgets a client without a word.
    #[expect(clippy::needless_pass_by_value, reason = "it is decided upon once")]
    pub fn ignore(&mut self, incoming: Incoming) {
        if self.claim(&incoming).is_some() {
            self.remove(incoming.handle);
        }
    }

    /// The part of [`update`](Self::update) that cannot wait: takes from a connection the ids to
    /// find it by, and the end of its handshake. To be called before anything is sent that tells
    /// the peer of those ids; it may use them at once, and is reset if they are not known here.
    /// Also before the next datagram is handled, if the handshake is complete: it could have to
    /// make room for another.
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
            // A handshake that failed counts for as long as its connection lingers: else a flood of
            // first packets that fail at once would pass the bound.
            self.half_open.remove(serial);
            self.give_token(now, connection);
        }
    }

    /// Takes from a connection what the endpoint must know: ids to route, the end of its handshake,
    /// its end. To be called after each use of the connection. False: the connection is over and
    /// forgotten; drop it. That is also so once its peer has closed it: what still comes for it is
    /// dropped here.
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
        // A handshake that failed counts for as long as it lingers.
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

    /// Forgets what the paths to peers carried: packets leave through another interface from now
    /// on.
    pub fn forget_paths(&mut self) {
        self.known.clear();
    }

    /// Forgets a connection that its driver dropped.
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
