//! Reports changes of this host's network by the kernel (rtnetlink(7)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::libc::{
    RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE, RTMGRP_LINK,
};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
};
use tokio::time::{sleep, timeout};

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
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
