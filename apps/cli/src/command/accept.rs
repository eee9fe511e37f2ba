//! Accepts a server's connections, and limits those of each host.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pathmark::{Connection, Endpoint};
use pathmark_http3::origin::site;
use tokio::task::JoinSet;

use super::session::Codes;

/// Maximum number of connections of a host. An idle one takes about 50 kB.
const MOST_OF_A_HOST: usize = 1024;

/// The numbers of connections by host.
#[derive(Clone, Debug)]
struct Hosts {
    most: usize,
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// A connection's place among those of its host.
#[derive(Debug)]
struct Place {
    hosts: Hosts,
    host: IpAddr,
}

impl Hosts {
    fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection of this host, or none if it has too many. All hosts of a
    /// site count as one.
    fn place(&self, host: IpAddr) -> Option<Place> {
        let host = site(host);
        let mut open = self.open();
        let count = open.entry(host).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place {
            hosts: self.clone(),
            host,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.hosts.open();
        if let Some(count) = open.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.host);
            }
        }
    }
}

/// Serves connections until the endpoint closes, and returns when all have ended.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    endpoint: &Endpoint,
    codes: Codes,
    serve: impl Fn(Connection) -> F + Clone + Send + 'static,
) {
    let hosts = Hosts::new(MOST_OF_A_HOST);
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
            let Some(_place) = hosts.place(client.ip()) else {
                tracing::info!(%client, "refused: its host has too many connections");
                return connection.close(codes.excess.into(), b"too many connections of a host");
            };
            serve(connection).await;
        });
    }
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_limit_of_its_own_that_ended_connections_leave() {
        let hosts = Hosts::new(2);
        let place = |host: &str| hosts.place(host.parse().unwrap());
        let held = [place("192.0.2.1"), place("::ffff:192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(place("192.0.2.1").is_none() && place("192.0.2.2").is_some());
        let [one, other] = held;
        drop(one);
        assert!(place("192.0.2.1").is_some());
        drop(other);
        assert!(hosts.open().is_empty());
        // A customer of IPv6 has a network.
        let _held = [place("2001:db8:1::1"), place("2001:db8:1:2::1")];
        assert!(place("2001:db8:1:3::1").is_none() && place("2001:db8:2::1").is_some());
    }
}
