//! Accepts a server's connections over UDP and TCP, and limits those of each host.

use std::future::Future;
use std::net::SocketAddr;

use pathmark::{Connection, Endpoint};
use pathmark_http3::places::Places;
use pathmark_http3::wire::{TcpConnection, TcpServer};
use tokio::task::JoinSet;

use super::output;
use super::session::Codes;

/// Maximum number of connections of a host. An idle one takes about 50 kB.
const MOST_OF_A_HOST: usize = 1024;

/// Whether a server also listens on TCP.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct TcpArgs {
    /// Do not listen on the TCP port of the same number, where clients whose network blocks UDP
    /// are served over HTTP/2
    #[arg(long)]
    no_tcp: bool,
}

impl TcpArgs {
    /// Listens at the address of the endpoint. If another process has the port, that is said, and
    /// the server goes on without TCP.
    pub(super) fn listen(
        self,
        address: SocketAddr,
        tls: rustls::ServerConfig,
    ) -> Option<TcpServer> {
        if self.no_tcp {
            return None;
        }
        let bound = TcpServer::bind(address, tls);
        if let Err(error) = &bound {
            output::note!(
                "pathmark: cannot listen on TCP {address}: {error}; clients whose network blocks \
                 UDP are not served (--no-tcp)"
            );
        }
        bound.ok()
    }
}

/// Serves connections until the endpoint closes, and returns when all have ended. Those over TCP
/// close with the endpoint.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    endpoint: &Endpoint,
    tcp: Option<&TcpServer>,
    codes: Codes,
    serve: impl Fn(Connection) -> F + Clone + Send + 'static,
) {
    let hosts = Places::new(usize::MAX, MOST_OF_A_HOST);
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else {
            break;
        };
        let (hosts, serve) = (hosts.clone(), serve.clone());
        connections.spawn(async move {
            let connection = match incoming.accept() {
                Ok(connecting) => connecting.await,
                Err(error) => return tracing::debug!(%error, "connection not accepted"),
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) => return tracing::debug!(%error, "handshake failed"),
            };
            let client = connection.remote_address();
            // The handshake has proved that the client is at its address.
            let Some(_place) = hosts.of(client.ip()).take_now() else {
                tracing::info!(%client, "refused: its host has too many connections");
                return connection.close(codes.excess.into(), b"too many connections of a host");
            };
            serve(connection).await;
        });
    }
    if let Some(tcp) = tcp {
        tcp.close();
    }
    while connections.join_next().await.is_some() {}
}

/// Does the same for connections over TCP, until [`accept`] closes their server.
pub(super) async fn accept_tcp<F: Future<Output = ()> + Send + 'static>(
    server: Option<&TcpServer>,
    serve: impl Fn(TcpConnection) -> F + Clone + Send + 'static,
) {
    let Some(server) = server else {
        return;
    };
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = server.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else {
            break;
        };
        let serve = serve.clone();
        connections.spawn(async move {
            let client = incoming.remote_address();
            match incoming.handshake().await {
                Ok(connection) => serve(connection).await,
                Err(error) => tracing::debug!(%client, %error, "handshake failed"),
            }
        });
    }
    while connections.join_next().await.is_some() {}
}
