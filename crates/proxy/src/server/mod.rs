//! The proxy: CONNECT requests of clients in, connections and datagrams to targets out.
//!
//! ```text
//!   request ─► user ─► place ─► target ─► addresses ─► policy ─► socket ─► 200 ─► relay
//!              401, 407 503      400       502           502       502, 504
//! ```

pub mod config;
mod counters;
mod reach;
mod relay;
mod request;
mod udp;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pathmark_driver::{self as driver, Connection};
use pathmark_http3::http::Request;
use pathmark_http3::wire::{LinkError, ServerExchange, ServerLink};
use pathmark_transport::crypto::tls::Pin;
use tokio::task::JoinSet;

use crate::flows::{Flows, Side};
use crate::target::Target;
pub use counters::Counts;
use counters::{Counters, count};
use users::Gate;
pub use users::{Access, User, UserKey};

/// Bytes of a header section.
const HEAD_BYTES: u64 = 16 * 1024;
/// Streams of a connection beyond the flows of a user: requests above the limit get a response.
const SPARE_STREAMS: usize = 16;

/// Times of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// For the head of a request to arrive.
    pub head: Duration,
    /// For a target to be found and connected.
    pub connect: Duration,
    /// A UDP flow without a datagram in either direction ends after this time, of at least two
    /// minutes (RFC 4787 section 4.3).
    pub udp_idle: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            udp_idle: Duration::from_secs(300),
        }
    }
}

/// A proxy. Clones are one proxy.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gate: Gate,
    times: Times,
    counters: Counters,
    flows: Flows,
    connections: Mutex<BTreeMap<usize, Connection>>,
    denied: Denied,
}

/// Targets that were denied, of which the log tells once.
#[derive(Debug, Default)]
struct Denied(Mutex<BTreeSet<String>>);

impl Denied {
    /// Targets that are kept: a client that tries more has them in no log.
    const MOST: usize = 1000;

    fn is_new(&self, target: &Target) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < Self::MOST && known.insert(target.to_string())
    }
}

/// A proxy's part of one connection, which is listed as long as this exists.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    id: usize,
    connection: Connection,
    client: SocketAddr,
    /// The certificate that the client has shown.
    shown: Option<Pin>,
}

impl Session {
    /// Streams of the client for its flows, and for requests above their limit, which get a
    /// response.
    #[must_use]
    pub fn streams(&self) -> usize {
        2 * self.shared.gate.rules().flows_per_user() + SPARE_STREAMS
    }

    fn limit_streams(&self, connection: &driver::Connection) {
        let most = u32::try_from(self.streams()).unwrap_or(u32::MAX);
        connection.set_max_concurrent_bi_streams(most);
    }

    /// Responds to a request, and relays the flow that it opens until its end.
    pub async fn respond(&self, request: &Request<()>, exchange: ServerExchange) {
        request::respond(self, request, exchange).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.connections().remove(&self.id);
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<usize, Connection>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxy {
    /// A proxy for those who have access.
    #[must_use]
    pub fn new(access: Access, times: Times) -> Self {
        Self(Arc::new(Shared {
            gate: Gate::new(access),
            times,
            counters: Counters::default(),
            flows: Flows::new(Side::Proxy),
            connections: Mutex::default(),
            denied: Denied::default(),
        }))
    }

    /// Changes who has access. Flows go on but those of users who are no longer there.
    pub fn change(&self, access: Access) {
        self.0.gate.change(access);
    }

    /// Totals so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.counters.counts()
    }

    /// Flows at this time.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.0.gate.flows()
    }

    /// The flows that are open.
    #[must_use]
    pub fn open_flows(&self) -> &Flows {
        &self.0.flows
    }

    /// The connections of clients.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        self.0.connections().values().cloned().collect()
    }

    /// Begins to serve flows of a connection whose handshake is complete.
    #[must_use]
    pub fn session(&self, connection: &Connection) -> Session {
        let shared = Arc::clone(&self.0);
        count(&shared.counters.connections);
        let id = connection.stable_id();
        shared.connections().insert(id, connection.clone());
        let chain = connection.peer_certificates();
        Session {
            shared,
            id,
            connection: connection.clone(),
            client: connection.remote_address(),
            shown: chain.first().map(|certificate| Pin::of(certificate)),
        }
    }

    /// Serves the flows of a connection whose handshake is complete, until the client closes it and
    /// targets have what it had sent completely. Dropped, the future ends all flows. The caller
    /// bounds the number of connections.
    ///
    /// # Errors
    /// [`LinkError`] for a connection that ends with an error.
    pub async fn serve(&self, connection: driver::Connection) -> Result<(), LinkError> {
        let shared = &self.0;
        let session = Arc::new(self.session(&connection));
        session.limit_streams(&connection);
        let begun = ServerLink::with_tunnels(connection.clone(), HEAD_BYTES);
        // The settings need a stream that the client grants.
        let begun = tokio::time::timeout(shared.times.head, begun).await;
        let mut link = begun.unwrap_or(Err(LinkError::TimedOut))?;
        let served = requests(&session, &connection, &mut link).await;
        let dropped = link.dropped_datagrams();
        let counter = &shared.counters.datagrams_dropped;
        counter.fetch_add(dropped, Ordering::Relaxed);
        served
    }
}

async fn requests(
    session: &Arc<Session>,
    connection: &driver::Connection,
    link: &mut ServerLink,
) -> Result<(), LinkError> {
    let mut changes = session.shared.gate.changes();
    let mut flows = JoinSet::new();
    loop {
        // A client that resets a flow opens the next one before this side has ended it.
        let is_full = flows.len() >= session.streams();
        let incoming = tokio::select! {
            incoming = link.next(), if !is_full => incoming,
            Some(_) = flows.join_next() => continue,
            Ok(()) = changes.changed() => {
                session.limit_streams(connection);
                continue;
            }
        };
        let incoming = match incoming {
            Ok(Some(incoming)) => incoming,
            ended => {
                // Most end with the connection.
                while flows.join_next().await.is_some() {}
                return ended.map(drop);
            }
        };
        let session = Arc::clone(session);
        flows.spawn(async move {
            match incoming.head(session.shared.times.head).await {
                Ok((request, exchange)) => session.respond(&request, exchange).await,
                Err(error) => {
                    tracing::debug!(client = %session.client, %error, "no request arrived");
                }
            }
        });
    }
}
