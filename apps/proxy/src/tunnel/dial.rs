//! Connects to a proxy, and reports changes of this host's network by the kernel (rtnetlink(7)).

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::libc::{
    RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE, RTMGRP_LINK,
};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
};
use pathmark_driver::{ClientConfig, Connection, Endpoint};
use socket2::SockRef;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use crate::UNREAD;
use crate::ingress::transparent::rules::OWN;
use crate::target::{Host, Target, race, unspecified};

/// Time limit for resolving a name.
const RESOLVING: Duration = Duration::from_secs(3);
/// Time limit for an attempt. The next one resolves the name again.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Connects to a proxy, resolving its name each time.
#[derive(Clone, Debug)]
pub struct Dialer {
    server: Target,
    config: ClientConfig,
    /// The addresses from the last resolution.
    last: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Dialer {
    /// Creates a dialer for `server` with the application protocol
    /// [`ALPN`](pathmark_http3::wire::ALPN), which `config` must offer.
    pub fn new(server: Target, config: ClientConfig) -> Self {
        Self {
            server,
            config,
            last: Arc::default(),
        }
    }

    pub(super) const fn server(&self) -> &Target {
        &self.server
    }

    /// Connects and completes the handshake with the address that answers first, or returns the
    /// reason for failing.
    pub(super) async fn dial(&self) -> Result<Connection, String> {
        let dialed = tokio::time::timeout(ATTEMPT, self.race()).await;
        dialed.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    /// Resolves the name. If this fails, returns the last known addresses, because the resolver
    /// might only be reachable through the tunnel.
    async fn resolve(&self, host: &str) -> Result<Vec<SocketAddr>, String> {
        let found = lookup_host((host, self.server.port));
        let found = match tokio::time::timeout(RESOLVING, found).await {
            Ok(Ok(found)) => Ok(found.collect::<Vec<_>>()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                if !last.is_empty() && found.iter().any(|address| !last.contains(address)) {
                    tracing::info!(host, addresses = ?found, "the name has other addresses");
                }
                last.clone_from(&found);
                Ok(found)
            }
            Err(why) if last.is_empty() => Err(format!("the name {host} has no address: {why}")),
            Err(why) => {
                tracing::warn!(
                    host,
                    why,
                    "the name has no address; the last ones are tried"
                );
                Ok(last.clone())
            }
        }
    }

    async fn race(&self) -> Result<Connection, String> {
        let host = match &self.server.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let dial = |address| attempt(self.config.clone(), address, host.clone());
        let dialed = race(self.resolve(&host).await?, dial).await;
        dialed.map_err(|failed| failed.join("; "))
    }
}

async fn attempt(
    config: ClientConfig,
    address: SocketAddr,
    host: String,
) -> Result<Connection, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{address}: {error}");
    let endpoint = UdpSocket::bind(unspecified(address)).and_then(|socket| {
        // The rules of a transparent listener let marked packets pass. Setting a mark requires
        // the same privileges as setting rules, so failing is harmless.
        let _ = SockRef::from(&socket).set_mark(OWN);
        Endpoint::from_socket(socket, None)
    });
    let endpoint = endpoint.map_err(|error| failed(&error))?;
    endpoint.set_unread_memory(UNREAD);
    let connecting = endpoint.connect_with(config, address, &host);
    let connecting = connecting.map_err(|error| failed(&error))?;
    connecting.await.map_err(|error| failed(&error))
}

/// Interfaces, addresses and routes for both IP versions.
const GROUPS: i32 =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
/// Time without reports after which a change is complete …
const SETTLED: Duration = Duration::from_millis(100);
/// … or time since its first report, whichever is earlier.
const LONGEST: Duration = Duration::from_secs(1);

/// Receives reports from the kernel. This is a netlink socket, from which the runtime only needs
/// recv(2).
pub(super) struct Changes(Option<tokio::net::UdpSocket>);

impl Changes {
    /// Starts listening. If this fails, it is logged, and there are no reports.
    pub(super) fn new() -> Self {
        let opened = open();
        if let Err(error) = &opened {
            tracing::warn!(%error, "changes of the network are not reported");
        }
        Self(opened.ok())
    }

    /// Waits for a change to complete.
    pub(super) async fn next(&self) {
        self.report().await;
        let end = async { while timeout(SETTLED, self.report()).await.is_ok() {} };
        // If a host's network changes constantly, it is checked once per second.
        let _ = timeout(LONGEST, end).await;
    }

    async fn report(&self) {
        let Some(socket) = &self.0 else {
            return std::future::pending().await;
        };
        // ENOBUFS means that reports were lost, which is also treated as a report.
        if socket.recv(&mut [0; 8192]).await.is_err() {
            sleep(SETTLED).await;
        }
    }
}

fn open() -> io::Result<tokio::net::UdpSocket> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    bind(
        socket.as_raw_fd(),
        &NetlinkAddr::new(0, GROUPS.unsigned_abs()),
    )?;
    tokio::net::UdpSocket::from_std(UdpSocket::from(socket))
}

/// Returns the source address of packets to a peer, or `None` if there is no route.
pub(super) fn source(peer: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(unspecified(peer)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
