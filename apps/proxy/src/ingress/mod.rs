//! Accepts the flows of applications.
//!
//! An [`Ingress`] joins connections and datagrams of local listeners to flows of its
//! [`Outbound`]. Dropping a listener's future ends the listener, but not its existing flows.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::classes::Classes;
use crate::count;
use crate::flows::idle::{OnceAMinute, UdpFlow, UdpFlows};
use crate::flows::{Carried, Flows, Kind, Listed, Side};
use crate::outbound::{Abort, Outbound, Refusal};
use crate::target::Target;

pub mod connect;
pub mod listen;
pub mod socks;
pub mod splice;
pub mod transparent;
mod udp;

pub use listen as spec;

/// Maximum time to wait for a client to receive the last answer.
const FAREWELL: Duration = Duration::from_secs(2);

/// Limits of an ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of TCP flows. Further connections wait in the listeners' queues.
    pub flows: usize,
    /// Maximum number of UDP flows. To make room, the flow that has been idle longest ends.
    pub udp_flows: usize,
    /// Time without a datagram after which a UDP flow ends (RFC 4787 section 4.3).
    pub udp_idle: Duration,
    /// Time for a client to request its target.
    pub handshake: Duration,
    /// Maximum number of early bytes, which a forwarded or transparent connection sends right
    /// after its request.
    pub early: usize,
    /// How to treat flows by the ports of their targets.
    pub classes: Classes,
}

/// The limit on a flow's early bytes when they are enabled.
pub const EARLY: usize = 16 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 16_384,
            udp_flows: 4_096,
            udp_idle: Duration::from_secs(120),
            handshake: Duration::from_secs(10),
            early: 0,
            classes: Classes::default(),
        }
    }
}

impl Limits {
    /// Returns the idle timeout of UDP flows to this port.
    fn udp_idle(&self, port: u16) -> Duration {
        self.classes.of(port).udp_idle.unwrap_or(self.udp_idle)
    }
}

counters! {
    /// Counters of an ingress.
    Counts {
        /// Accepted TCP connections.
        accepted,
        /// TCP flows that have ended for any reason.
        ended,
        /// Flows that could not be opened.
        refused,
        /// Flows that were refused because the proxy could not authenticate the client.
        unauthorized,
        /// TCP flows ended by a reset.
        reset,
        /// Clients whose request was invalid or late.
        bad_requests,
        /// Errors of accept(2) or recv(2), for example a lack of descriptors.
        accept_failures,
        /// UDP flows begun so far.
        udp_flows,
        /// Datagrams dropped because they were malformed or a limit was reached.
        dropped,
        /// Marks of the path that were lost because the datagram had no ECN.
        marks_refused,
        /// Bytes of TCP flows toward targets.
        up,
        /// Bytes of TCP flows from targets.
        down,
    }
}

impl Counters {
    /// Counts a flow that the proxy refuses for lack of authentication, logging one of every
    /// thousand.
    fn unauthorized(&self) {
        let before = self.unauthorized.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(1_000) {
            tracing::warn!(
                flows = before + 1,
                "the proxy knows neither the token nor the certificate: ask its operator for a URI"
            );
        }
    }

    /// Counts an error, logging one of every thousand.
    fn accept_failed(&self, error: &io::Error) {
        let before = self.accept_failures.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(1_000) {
            tracing::warn!(%error, failures = before + 1, "a listener has failed");
        }
    }
}

/// How a TCP listener serves its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// All connections go to one target.
    Forward(Target),
    /// Clients request targets using SOCKS version 5.
    Socks,
    /// Clients request targets using HTTP CONNECT.
    Http,
    /// The kernel redirects connections. Their local address is the original target.
    Transparent,
}

/// Joins local listeners to an outbound. Clones share limits and counters.
#[derive(Clone, Debug)]
pub struct Ingress<O> {
    outbound: O,
    limits: Arc<RwLock<Limits>>,
    counters: Arc<Counters>,
    flows: Flows,
    room: Arc<Semaphore>,
    udp: Arc<UdpFlows>,
    told: Arc<Told>,
}

/// Limits how often reaching a limit is logged.
#[derive(Debug, Default)]
struct Told {
    udp: OnceAMinute,
    busy: OnceAMinute,
}

impl<O: Outbound> Ingress<O> {
    /// Creates an ingress without listeners.
    pub fn new(outbound: O, limits: Limits) -> Self {
        let room = Arc::new(Semaphore::new(limits.flows));
        Self {
            outbound,
            limits: Arc::new(RwLock::new(limits)),
            counters: Arc::default(),
            flows: Flows::new(Side::Tunnel),
            room,
            udp: UdpFlows::new(),
            told: Arc::default(),
        }
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Returns the active flows.
    pub const fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Changes timeouts, early bytes and classes, but not the numbers of flows.
    pub fn change(&self, limits: Limits) {
        let mut now = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        *now = Limits {
            flows: now.flows,
            udp_flows: now.udp_flows,
            ..limits
        };
    }

    fn limits(&self) -> Limits {
        let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
        limits.clone()
    }

    /// Accepts connections for a service indefinitely.
    pub async fn serve(&self, listener: TcpListener, service: Service) {
        loop {
            let Ok(room) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            let (local, peer) = listen::accept(&listener, &self.counters).await;
            count(&self.counters.accepted);
            let (ingress, service) = (self.clone(), service.clone());
            if service == Service::Transparent
                && local.local_addr().ok() == listener.local_addr().ok()
            {
                // The client connected to the listener itself, which is not a target.
                count(&self.counters.bad_requests);
                continue;
            }
            tokio::spawn(async move {
                ingress.flow(local, peer, service, room).await;
            });
        }
    }

    /// Serves one connection until it ends.
    async fn flow(
        &self,
        local: TcpStream,
        peer: SocketAddr,
        service: Service,
        _room: OwnedSemaphorePermit,
    ) {
        match service {
            Service::Forward(target) => self.forward(local, "forward", &target).await,
            Service::Socks => self.socks(local).await,
            Service::Http => self.http(local).await,
            Service::Transparent => self.transparent(local).await,
        }
        tracing::trace!(%peer, "connection ended");
        count(&self.counters.ended);
    }

    /// Joins a connection to a flow to a target. If the flow is refused, the connection is
    /// reset, because it is already established.
    async fn forward(&self, local: TcpStream, by: &str, target: &Target) {
        splice::reset_on_close(&local);
        let listed = self.list(&local, by, target);
        let most = self.limits().early;
        let mut early = connect::Early::new(&local, most, &listed.up);
        let opened = self.open(&local, target, &mut early).await;
        let sent = listed.up.bytes();
        self.counters.up.fetch_add(sent, Ordering::Relaxed);
        if let Some(Ok((read, write))) = opened {
            self.join(local, Vec::new(), read, write, &listed).await;
        }
    }

    fn list(&self, local: &TcpStream, by: &str, target: &Target) -> Listed {
        let client = local.peer_addr().ok();
        self.flows.add(Kind::Tcp, by, client, target)
    }

    /// Opens a flow for a connection with its early bytes. Returns `None` if the connection is
    /// reset meanwhile.
    async fn open(
        &self,
        local: &TcpStream,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Option<Result<(O::Read, O::Write), Refusal>> {
        let opened = tokio::select! {
            opened = self.outbound.tcp_early(target, early) => opened,
            () = splice::broken(local) => {
                count(&self.counters.reset);
                return None;
            }
        };
        match &opened {
            Ok((_, write)) => write.set_weight(self.limits().classes.of(target.port).weight),
            Err(refusal) => self.refused(target, refusal),
        }
        Some(opened)
    }

    fn refused(&self, target: &Target, refusal: &Refusal) {
        count(&self.counters.refused);
        if *refusal == Refusal::Unauthorized {
            self.counters.unauthorized();
        }
        if *refusal == Refusal::Busy && self.told.busy.is_due() {
            tracing::warn!(%target, "the proxy refuses flows: a limit of flows is reached there");
        }
        tracing::debug!(%target, %refusal, "flow refused");
    }

    /// Returns a place for a UDP flow, or `None` if none are allowed.
    fn udp_place(&self) -> Option<UdpFlow> {
        let most = self.limits().udp_flows;
        if self.udp.count() >= most {
            if self.told.udp.is_due() {
                tracing::warn!(
                    most,
                    "the limit of UDP flows is reached: those idle longest end"
                );
            }
            if !self.udp.evict() {
                return None;
            }
        }
        Some(self.udp.add())
    }

    /// Sends a last answer, and waits for the client to end the connection. Closing it with
    /// unread bytes would reset it, and the answer would be lost.
    async fn farewell(&self, mut local: TcpStream, answer: &[u8]) {
        let mut ignored = [0; 512];
        let end = async {
            local.write_all(answer).await?;
            local.shutdown().await?;
            while local.read(&mut ignored).await? > 0 {}
            io::Result::Ok(())
        };
        // It no longer matters whether the client has received the answer.
        let _ = tokio::time::timeout(FAREWELL, end).await;
    }

    /// Ends a flow whose client left before it began.
    fn give_up(&self, mut read: O::Read, mut write: O::Write) {
        count(&self.counters.reset);
        read.abort();
        write.abort();
    }

    async fn join(
        &self,
        local: TcpStream,
        early: Vec<u8>,
        read: O::Read,
        write: O::Write,
        carried: &Carried,
    ) {
        if let Some(stall) = write.stall() {
            carried.set_stall(stall);
        }
        let traffic = splice::splice(local, early, read, write, carried).await;
        let Counters {
            up, down, reset, ..
        } = &*self.counters;
        up.fetch_add(traffic.up, Ordering::Relaxed);
        down.fetch_add(traffic.down, Ordering::Relaxed);
        reset.fetch_add(traffic.reset.into(), Ordering::Relaxed);
    }
}
