//! Changes of this host's network, as the kernel reports them (rtnetlink(7)).

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

/// Interfaces, addresses and routes of both IP versions.
const GROUPS: i32 =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
/// A change is over after this time without a report …
const SETTLED: Duration = Duration::from_millis(100);
/// … or this long after its first one.
const LONGEST: Duration = Duration::from_secs(1);

/// Reports of the kernel. The socket is one of netlink, of which the runtime needs no more than
/// recv(2).
pub(super) struct Changes(Option<tokio::net::UdpSocket>);

impl Changes {
    /// Begins to listen. Without a socket there are no reports, which is logged.
    pub(super) fn new() -> Self {
        let opened = open();
        if let Err(error) = &opened {
            tracing::warn!(%error, "changes of the network are not reported");
        }
        Self(opened.ok())
    }

    /// Waits for a change and for its end.
    pub(super) async fn next(&self) {
        self.report().await;
        let end = async { while timeout(SETTLED, self.report()).await.is_ok() {} };
        // A host whose network changes all the time is looked at once a second.
        let _ = timeout(LONGEST, end).await;
    }

    /// Waits for a report.
    async fn report(&self) {
        let Some(socket) = &self.0 else {
            return std::future::pending().await;
        };
        // ENOBUFS means that reports were lost: a report as well.
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

/// The address from which packets leave for a peer. `None`: no route leads there.
pub(super) fn source(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
