//! Clients that come back.

use std::net::SocketAddr;

use pathmark_transport::driver;

use super::{Connection, NAME, Options, Stack, loopback};

/// A client that remembers sessions from one connection to the next.
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
                let connecting = endpoint.connect(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::Quinn(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                Connection::Quinn(connecting.await.unwrap())
            }
        }
    }
}
