//! Listening and connecting endpoints of either implementation.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pathmark_driver as driver;

use super::{Connection, End, Options, Stack, loopback};

/// Accepts connection IDs from any server, so that one server responds to another's.
struct AnyIds;

impl quinn::ConnectionIdGenerator for AnyIds {
    fn generate_cid(&mut self) -> quinn::ConnectionId {
        let mut id = [0; 8];
        aws_lc_rs::rand::fill(&mut id).unwrap();
        quinn::ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A listening endpoint.
#[derive(Debug)]
pub(crate) enum Server {
    Ours(driver::Endpoint),
    Quinn {
        endpoint: quinn::Endpoint,
        retry: bool,
    },
}

/// A connecting endpoint.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(driver::Endpoint),
    Quinn(quinn::Endpoint),
}

impl Server {
    pub(crate) fn start(stack: Stack, options: &Options) -> Self {
        Self::start_at(stack, options, loopback())
    }

    pub(crate) fn start_at(stack: Stack, options: &Options, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::server(options.our_server(), at).unwrap()),
            Stack::Quinn => {
                let mut config = quinn::EndpointConfig::default();
                if let Some(keys) = &options.key {
                    config.reset_key(Arc::clone(&keys.quinn));
                    // By default, quinn silently drops packets with IDs that it didn't issue.
                    config.cid_generator(|| Box::new(AnyIds));
                }
                Self::quinn_at(config, options, at)
            }
        }
    }

    pub(crate) fn quinn(config: quinn::EndpointConfig, options: &Options) -> Self {
        Self::quinn_at(config, options, loopback())
    }

    fn quinn_at(config: quinn::EndpointConfig, options: &Options, at: SocketAddr) -> Self {
        let socket = std::net::UdpSocket::bind(at).unwrap();
        let runtime = Arc::new(quinn::TokioRuntime);
        let server = Some(options.quinn_server());
        Self::Quinn {
            endpoint: quinn::Endpoint::new(config, server, socket, runtime).unwrap(),
            retry: options.retry,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Ours(endpoint) => endpoint.local_address(),
            Self::Quinn { endpoint, .. } => endpoint.local_addr().unwrap(),
        }
    }

    /// Returns the next connection after its handshake is complete.
    pub(crate) async fn accept(&self) -> Result<Connection, End> {
        match self {
            Self::Ours(endpoint) => {
                let incoming = endpoint.accept().await.unwrap();
                let connecting = incoming.accept().unwrap();
                Ok(Connection::Ours(connecting.await?))
            }
            Self::Quinn { endpoint, retry } => loop {
                let incoming = endpoint.accept().await.unwrap();
                if *retry && !incoming.remote_address_validated() {
                    incoming.retry().unwrap();
                } else {
                    return Ok(Connection::Quinn(incoming.await?));
                }
            },
        }
    }
}

impl Client {
    pub(crate) fn start(stack: Stack) -> Self {
        Self::start_at(stack, loopback())
    }

    pub(crate) fn start_at(stack: Stack, at: SocketAddr) -> Self {
        match stack {
            Stack::Ours => Self::Ours(driver::Endpoint::client(at).unwrap()),
            Stack::Quinn => Self::Quinn(quinn::Endpoint::client(at).unwrap()),
        }
    }

    /// Moves the endpoint to another socket.
    pub(crate) fn rebind(&self, socket: std::net::UdpSocket) {
        match self {
            Self::Ours(endpoint) => endpoint.rebind(socket).unwrap(),
            Self::Quinn(endpoint) => endpoint.rebind(socket).unwrap(),
        }
    }

    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        options: &Options,
    ) -> Result<Connection, End> {
        match self {
            Self::Ours(endpoint) => {
                let connecting = endpoint.connect_with(options.our_client(), server, options.name);
                Ok(Connection::Ours(connecting.unwrap().await?))
            }
            Self::Quinn(endpoint) => {
                let connecting =
                    endpoint.connect_with(options.quinn_client(), server, options.name);
                Ok(Connection::Quinn(connecting.unwrap().await?))
            }
        }
    }
}
