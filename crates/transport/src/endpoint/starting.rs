//! Connections that start, apart from the endpoint that they are to belong to.

use std::sync::Arc;

use pathmark_cc::KnownPath;

use crate::Instant;
use crate::connection::{self, ClientStart, Connection, ServerStart};
use crate::crypto::Keys;
use crate::streams::ReceiveMemory;

/// A connection to a server that is to be [started](Self::start), which needs nothing of the
/// endpoint and takes the most time: a caller that guards the endpoint with a lock does not hold
/// that meanwhile.
#[derive(Debug)]
pub struct ClientToStart {
    pub(super) start: ClientStart,
    pub(super) given: FromEndpoint,
}

/// The same of a connection that a client asked for.
#[derive(Debug)]
pub struct ServerToStart {
    pub(super) start: ServerStart,
    pub(super) keys: Option<Keys>,
    pub(super) given: FromEndpoint,
}

/// What a connection gets from its endpoint.
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
    /// Makes the TLS session and its first message.
    ///
    /// # Errors
    /// Those of [`Connection::client`].
    pub fn start(self, now: Instant) -> Result<Box<Connection>, connection::ConnectError> {
        let mut connection = Connection::client(now, self.start)?;
        self.given.give(&mut connection);
        Ok(connection)
    }
}

impl ServerToStart {
    /// Makes the TLS session.
    ///
    /// # Errors
    /// Those of [`Connection::server`].
    pub fn start(self, now: Instant) -> Result<Box<Connection>, connection::ConnectError> {
        let mut connection = connection::server(now, self.start, self.keys)?;
        self.given.give(&mut connection);
        Ok(connection)
    }
}
