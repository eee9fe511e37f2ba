//! A connected client and server.

use std::net::SocketAddr;

use super::super::proxy::{Proxy, Weather};
use super::{Client, Connection, Options, Server, Stack, loopback};

/// Two connected ends, and the endpoints that keep them alive.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    pub(crate) client_endpoint: Client,
    pub(crate) server_endpoint: Server,
}

impl Pair {
    /// Connects the two stacks, (client, server), directly.
    pub(crate) async fn new(stacks: (Stack, Stack), options: &Options) -> Self {
        let server = Server::start(stacks.1, options);
        let address = server.address();
        Self::to(stacks.0, server, address, options).await
    }

    /// Connects the two stacks over a proxy, which has a seed.
    pub(crate) async fn over(
        stacks: (Stack, Stack),
        options: &Options,
        weather: Weather,
        seed: u64,
    ) -> (Proxy, Self) {
        let server = Server::start(stacks.1, options);
        let proxy = Proxy::start(server.address(), weather, seed).await;
        let pair = Self::to(stacks.0, server, proxy.address(), options).await;
        (proxy, pair)
    }

    /// Connects a client to `server` through `address`.
    pub(crate) async fn to(
        client: Stack,
        server_endpoint: Server,
        address: SocketAddr,
        options: &Options,
    ) -> Self {
        let client_endpoint = Client::start_at(client, loopback());
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
