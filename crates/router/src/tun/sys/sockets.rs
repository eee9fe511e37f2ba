//! Rtnetlink and Unix sockets, and the files at the paths of the latter.

use std::fs::File;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::{io, ptr};

use pathmark_cc::Duration;

use super::{Identity, check, set_option, socket};

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

/// Connects to a Unix stream socket without waiting. The error is [`io::ErrorKind::WouldBlock`]
/// if the listener's queue is full, and [`io::ErrorKind::ConnectionRefused`] if there is no
/// listener.
pub(crate) fn try_connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    connect(&socket, path)?;
    Ok(socket)
}

/// Connects to a Unix stream socket. If the listener's queue stays full for `patience`, which
/// must not be zero, the error is [`io::ErrorKind::TimedOut`].
pub(crate) fn connect_within(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = UnixStream::from(socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?);
    // Connecting uses the timeout for writes (unix(7), SO_SNDTIMEO).
    socket.set_write_timeout(Some(patience))?;
    connect(&socket, path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })?;
    Ok(socket)
}

fn connect(socket: &impl AsRawFd, path: &Path) -> io::Result<()> {
    // SAFETY: `sockaddr_un` is plain data, for which all zeros is a value.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the address outlives the call, and the length is its own.
    check(unsafe {
        libc::connect(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_un>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Opens the file at `path` itself, so that it can be examined and handed over even if another
/// file replaces it meanwhile. Symbolic links are not followed.
pub(crate) fn place(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)
}

/// Changes the mode of a [`place`].
pub(crate) fn set_mode(place: &File, mode: u32) -> io::Result<()> {
    // Uses the descriptor's name, because fchmod(2) does not support such descriptors.
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    std::fs::set_permissions(name, std::fs::Permissions::from_mode(mode))
}

/// Changes the owner of a [`place`].
pub(crate) fn give_to(place: &File, identity: Identity) -> io::Result<()> {
    let Identity { user, group } = identity;
    // SAFETY: the empty path is a C string and means the descriptor, which is open.
    check(unsafe {
        libc::fchownat(
            place.as_raw_fd(),
            c"".as_ptr(),
            user,
            group,
            libc::AT_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Sets how many connections may wait to be accepted.
#[cfg(test)]
pub(crate) fn set_backlog(listener: &impl AsRawFd, waiting: libc::c_int) -> io::Result<()> {
    // SAFETY: `listen` takes numbers.
    check(unsafe { libc::listen(listener.as_raw_fd(), waiting) }).map(drop)
}
