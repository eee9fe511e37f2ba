//! Clients that connect again.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use pathmark_driver as driver;

use super::{Connection, NAME, Options, Stack, loopback};

/// Resolves to whether the server accepted early data.
pub(crate) type Taken = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A client that remembers sessions between connections.
pub(crate) enum Returning {
    Ours(driver::Endpoint, driver::ClientConfig),
    Quinn(quinn::Endpoint, quinn::ClientConfig),
}

impl Returning {
    pub(crate) fn new(stack: Stack, options: &Options) -> Self {
        match stack {
            Stack::Ours => {
                let endpoint = driver::Endpoint::client(loopback()).unwrap();
                Self::Ours(endpoint, options.our_client())
            }
            Stack::Quinn => {
                let endpoint = quinn::Endpoint::client(loopback()).unwrap();
                Self::Quinn(endpoint, options.quinn_client())
            }
        }
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Connection {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::Quinn(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                Connection::Quinn(connecting.await.unwrap())
            }
        }
    }

    /// Connects to a server that this client has met before. Returns the connection before its
    /// handshake is complete, and whether the server accepts the data sent before then.
    pub(crate) fn connect_early(&self, server: SocketAddr) -> (Connection, Taken) {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                let (connection, taken) = connecting.into_0rtt().expect("a ticket");
                let taken = async { taken.await.unwrap() };
                (Connection::Ours(connection), Box::pin(taken))
            }
            Self::Quinn(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                let Ok((connection, taken)) = connecting.into_0rtt() else {
                    panic!("no ticket");
                };
                (Connection::Quinn(connection), Box::pin(taken))
            }
        }
    }
}
