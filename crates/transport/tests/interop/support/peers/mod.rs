//! Clients, servers and connections of either implementation behind one face.

mod connection;
mod endpoints;
mod identity;
pub(crate) mod options;
mod returning;

use std::net::SocketAddr;

pub(crate) use connection::{Connection, End};
pub(crate) use endpoints::{Client, Server};
pub(crate) use identity::Identity;
pub(crate) use options::Options;
pub(crate) use returning::Returning;

/// The protocol that tests speak.
pub(crate) const ALPN: &[u8] = b"interop";
/// What the servers' certificates name.
pub(crate) const NAME: &str = "server.test";

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    Quinn,
}

impl Stack {
    /// Its servers end connections whose first packet was damaged (PROTOCOL_VIOLATION).
    pub(crate) fn ends_what_begins_damaged(self) -> bool {
        self == Self::Quinn
    }
}

/// Client and server of different making: (client, server).
pub(crate) const STRANGERS: [(Stack, Stack); 2] =
    [(Stack::Ours, Stack::Quinn), (Stack::Quinn, Stack::Ours)];

/// The same, and ours with itself.
pub(crate) const PAIRINGS: [(Stack, Stack); 3] = [
    (Stack::Ours, Stack::Quinn),
    (Stack::Quinn, Stack::Ours),
    (Stack::Ours, Stack::Ours),
];

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Two connected ends, and the endpoints that keep them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    pub(crate) client_endpoint: Client,
    pub(crate) server_endpoint: Server,
}

impl Pair {
    /// Connects the two stacks, (client, server), with nothing in between.
    pub(crate) async fn new(stacks: (Stack, Stack), options: &Options) -> Self {
        let server = Server::start(stacks.1, options);
        let address = server.address();
        Self::to(stacks.0, server, address, options).await
    }

    /// Connects a client to `server` by `address`.
    pub(crate) async fn to(
        client: Stack,
        server_endpoint: Server,
        address: SocketAddr,
        options: &Options,
    ) -> Self {
        let client_endpoint = Client::start(client);
        let (client, server) = tokio::try_join!(
            client_endpoint.connect(address, options),
            server_endpoint.accept()
        )
        .unwrap();
        Self {
            client,
            server,
            client_endpoint,
            server_endpoint,
        }
    }
}
