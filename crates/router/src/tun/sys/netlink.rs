//! Rtnetlink sockets.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::{check, set_option, socket};

/// `RTMGRP_LINK`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV4_RULE`, `RTMGRP_IPV6_ROUTE`, and the bit of
/// `RTNLGRP_IPV6_RULE` (19), which has no name.
const GROUPS: u32 = 0x1 | 0x40 | 0x80 | 0x400 | 1 << 18;

/// Opens a socket for queries about interfaces, in the given network namespace or this thread's
/// own. Waiting for an answer times out after a second.
pub(crate) fn route_socket(namespace: Option<OwnedFd>) -> io::Result<OwnedFd> {
    let Some(namespace) = namespace else {
        return own_route_socket();
    };
    // A temporary thread enters the namespace, so that no other thread is in a wrong one.
    let thread = std::thread::Builder::new().name("namespace".to_owned());
    let inside = thread.spawn(move || {
        // SAFETY: `setns` takes a descriptor, which is open, and changes only this thread.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
        own_route_socket()
    })?;
    let failed = |_| io::Error::other("the thread that was to open a socket failed");
    inside.join().map_err(failed)?
}

fn own_route_socket() -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    let second = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &second)?;
    Ok(socket)
}

/// Opens a socket in this thread's network namespace that becomes readable when a link, a rule
/// or a route changes. Reading it requires no capability and does not block.
pub(crate) fn route_events() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
    let socket = socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
    // SAFETY: `sockaddr_nl` is plain data, for which all zeros is a value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = GROUPS;
    // SAFETY: the address outlives the call, and the length is its own.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_nl>() as libc::socklen_t,
        )
    })?;
    Ok(socket)
}

/// Makes the kernel list only the entries that a request selects (Linux 4.20 and later; others
/// list everything).
pub(crate) fn filter_lists(socket: &impl AsRawFd) {
    let on: libc::c_int = 1;
    // Without this option, lists are longer, but the reader filters them again.
    let _ = set_option(socket, libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, &on);
}
