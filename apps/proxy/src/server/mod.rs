//! The proxy, which accepts CONNECT requests from clients and forwards connections and datagrams
//! to targets.
//!
//! ```text
//!   request ─► user ─► place ─► target ─► addresses ─► policy ─► socket ─► 200 ─► relay
//!              401, 407 503      400       502           502       502, 504
//! ```

pub mod config;
mod reach;
mod request;
mod usage;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pathmark_driver::{self as driver, Connection};
use pathmark_http3::http::Request;
use pathmark_http3::wire::{LinkError, ServerExchange, ServerLink};
use pathmark_transport::crypto::tls::Pin;
use tokio::task::JoinSet;
use tokio::time::Instant;
use users::Gate;

use crate::flows::idle::OnceAMinute;
use crate::flows::{Flows, Side};
use crate::outbound::Refusal;
use crate::target::Target;
use crate::{count, lock};

pub use usage::{Counts as UserCounts, Record, UsageLimits, UserView};
pub use users::{Access, User, UserKey};

/// Maximum size of a header section in bytes.
const HEAD_BYTES: u64 = 16 * 1024;
/// Streams of a connection beyond its user's limit on flows, so that requests above the limit
/// still get a response.
const SPARE_STREAMS: usize = 16;

/// Timeouts of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time for a request's header section to arrive.
    pub head: Duration,
    /// Time for resolving and connecting to a target.
    pub connect: Duration,
    /// Time without a datagram in either direction after which a UDP flow ends. It must be at
    /// least two minutes (RFC 4787 section 4.3).
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

/// A proxy. Clones refer to the same proxy.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

struct Shared {
    gate: Gate,
    times: Times,
    counters: Counters,
    flows: Flows,
    connections: Mutex<BTreeMap<usize, Connection>>,
    denied: Denied,
    /// Limits how often requests without a user are logged.
    unknown: OnceAMinute,
    record: OnceLock<Box<Recorder>>,
}

/// Takes records of requests that are over. It must not block.
type Recorder = dyn Fn(&Record) + Send + Sync;

/// Denied targets, each of which is logged only once.
#[derive(Debug, Default)]
struct Denied(Mutex<BTreeSet<String>>);

impl Denied {
    /// Maximum number of targets to keep. Further targets aren't logged.
    const MOST: usize = 1000;

    fn is_new(&self, target: &Target) -> bool {
        let mut known = lock(&self.0);
        known.len() < Self::MOST && known.insert(target.to_string())
    }
}

/// A proxy's state for one connection, which is listed until this is dropped.
pub struct Session {
    shared: Arc<Shared>,
    id: usize,
    connection: Connection,
    client: SocketAddr,
    /// The certificate that the client presented.
    shown: Option<Pin>,
    /// The user of the first request, and when it came.
    user: OnceLock<(String, Instant)>,
}

impl Session {
    /// Returns how many streams the client can open, both for its flows and for requests above
    /// the limit, which still get a response.
    pub fn streams(&self) -> usize {
        2 * self.shared.gate.rules().access.flows_per_user + SPARE_STREAMS
    }

    fn limit_streams(&self, connection: &driver::Connection) {
        let most = u32::try_from(self.streams()).unwrap_or(u32::MAX);
        connection.set_max_concurrent_bi_streams(most.into());
    }

    /// Responds to a request, and relays the flow that it opens until it ends.
    pub async fn respond(&self, request: &Request<()>, exchange: ServerExchange) {
        request::respond(self, request, exchange).await;
    }

    /// Logs the user of the first request.
    fn is_of(&self, user: &str) {
        self.user.get_or_init(|| {
            tracing::info!(client = %self.client, user, "connected");
            (user.to_owned(), Instant::now())
        });
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some((user, since)) = self.user.get() {
            let seconds = since.elapsed().as_secs();
            tracing::info!(client = %self.client, user, seconds, "gone");
        }
        lock(&self.shared.connections).remove(&self.id);
    }
}

impl Proxy {
    /// Creates a proxy for users with `access`.
    pub fn new(access: Access, times: Times) -> Self {
        Self(Arc::new(Shared {
            gate: Gate::new(access),
            times,
            counters: Counters::default(),
            flows: Flows::new(Side::Proxy),
            connections: Mutex::default(),
            denied: Denied::default(),
            unknown: OnceAMinute::default(),
            record: OnceLock::new(),
        }))
    }

    /// Passes a record of each request that is over to `take`, which must not block. Only the first
    /// call has an effect.
    pub fn record(&self, take: impl Fn(&Record) + Send + Sync + 'static) {
        let _ = self.0.record.set(Box::new(take));
    }

    /// Returns what each user has used.
    pub fn users(&self) -> Vec<UserView> {
        self.0.gate.rules().usage()
    }

    /// Changes the users who have access. Flows continue unless their user has been removed.
    pub fn change(&self, access: Access) {
        self.0.gate.change(access);
    }

    /// Returns totals so far.
    pub fn counts(&self) -> Counts {
        self.0.counters.counts()
    }

    /// Returns the number of active flows.
    pub fn flows(&self) -> usize {
        self.0.gate.flows()
    }

    /// Returns the active flows.
    pub fn open_flows(&self) -> &Flows {
        &self.0.flows
    }

    /// Returns the connections of clients.
    pub fn connections(&self) -> Vec<Connection> {
        lock(&self.0.connections).values().cloned().collect()
    }

    /// Begins serving flows on a connection whose handshake is complete.
    pub fn session(&self, connection: &Connection) -> Session {
        let shared = Arc::clone(&self.0);
        count(&shared.counters.connections);
        let id = connection.stable_id();
        lock(&shared.connections).insert(id, connection.clone());
        let chain = connection.peer_certificates();
        Session {
            shared,
            id,
            connection: connection.clone(),
            client: connection.remote_address(),
            shown: chain.first().map(|certificate| Pin::of(certificate)),
            user: OnceLock::new(),
        }
    }

    /// Serves the flows of a connection whose handshake is complete, until the client closes it
    /// and targets have received all data that it sent completely. Dropping the future ends all
    /// flows. The caller should limit the number of connections.
    ///
    /// # Errors
    /// [`LinkError`], if the connection ends with an error.
    pub async fn serve(&self, connection: driver::Connection) -> Result<(), LinkError> {
        let shared = &self.0;
        let session = Arc::new(self.session(&connection));
        session.limit_streams(&connection);
        let begun = ServerLink::with_tunnels(connection.clone(), HEAD_BYTES);
        // Sending the settings requires a stream that the client must allow.
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
        // A client that resets a flow can open the next flow before this side has ended the first.
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
                // Most flows end with the connection.
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

counters! {
    /// Totals since a proxy started.
    #[non_exhaustive]
    Counts {
        /// Connections from clients.
        connections,
        /// Requests whose header section arrived.
        requests,
        /// Requests that aren't a valid CONNECT.
        malformed,
        /// Requests without a user's token or certificate.
        unauthorized,
        /// Requests that exceeded a limit on flows.
        busy,
        /// Requests for targets that aren't allowed.
        denied,
        /// Requests whose target's name could not be resolved.
        unresolved,
        /// Requests whose target refused, was unreachable or didn't respond.
        unreached,
        /// TCP flows.
        tcp_flows,
        /// TCP flows ended by a reset.
        tcp_resets,
        /// UDP flows.
        udp_flows,
        /// UDP flows ended by the idle timeout.
        udp_idle,
        /// UDP flows ended in favor of others because a limit was reached.
        udp_evicted,
        /// Flows ended because their user was revoked.
        revoked,
        /// Bytes from clients to targets.
        bytes_up,
        /// Bytes from targets to clients.
        bytes_down,
        /// Datagrams from clients to targets.
        datagrams_up,
        /// Datagrams from targets to clients.
        datagrams_down,
        /// Datagrams from targets that were sent as a capsule.
        capsules_down,
        /// Datagrams from clients that were dropped because of an unknown context, a missing flow,
        /// a full queue, or an error of the socket.
        datagrams_dropped,
        /// Marks of the path from clients that were lost because the datagram had no ECN.
        marks_refused,
    }
}

impl Counters {
    fn refused(&self, refusal: &Refusal) {
        count(match refusal {
            Refusal::Busy => &self.busy,
            Refusal::Denied => &self.denied,
            Refusal::Name => &self.unresolved,
            _ => &self.unreached,
        });
    }
}
