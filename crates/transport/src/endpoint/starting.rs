//! Starting connections without access to their endpoint.

use std::sync::Arc;

use pathmark_cc::KnownPath;

use crate::Instant;
use crate::connection::{self, ClientStart, Connection, ServerStart};
use crate::crypto::Keys;
use crate::streams::ReceiveMemory;

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
