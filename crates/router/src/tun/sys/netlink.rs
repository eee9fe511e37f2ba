//! Rtnetlink sockets that report events or filter lists.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use super::check;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV4_RULE`, `RTMGRP_IPV6_ROUTE`, and the bit of
/// `RTNLGRP_IPV6_RULE` (19), which has no name.
const GROUPS: u32 = 0x1 | 0x40 | 0x80 | 0x400 | 1 << 18;

/// Opens a socket in this thread's network namespace that becomes readable when a link, a rule
/// or a route changes. Reading it requires no capability and does not block.
pub(crate) fn route_events() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a new descriptor that nothing else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(check(libc::socket(
            libc::AF_NETLINK,
            kind,
            libc::NETLINK_ROUTE,
        ))?)
    };
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
    // SAFETY: the value outlives the call, and the length is its own. Without this option, lists
    // are longer, but the reader filters them again.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_NETLINK,
            libc::NETLINK_GET_STRICT_CHK,
            ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}
