//! System calls: TUN devices, waiting, signals, privileges. The crate's only unsafe code.
#![allow(
    unsafe_code,
    reason = "system calls that the standard library does not wrap"
)]

mod interface;
mod process;
mod sockets;
mod wait;

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::{io, ptr};

pub(crate) use interface::{
    Offloads, Unfit, adopt_tun, bring_up, namespace_of, open_tun, set_offloads,
};
pub(crate) use process::{
    Identity, Signal, Signals, address_space, age_of_last, drop_privileges, effective_user,
    give_way, group, monotonic_micros, precise_timers, raise_descriptor_limit, random,
    return_memory, thread_seconds, user,
};
#[cfg(test)]
pub(crate) use sockets::set_backlog;
pub(crate) use sockets::{
    connect_within, filter_lists, give_to, place, route_events, route_socket, set_mode, try_connect,
};
pub(crate) use wait::{
    epoll, epoll_add, epoll_remove, epoll_wait, hung_up, readable, wait, writable,
};

/// The last error if a call returned -1.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Opens a socket that programs started later do not inherit.
fn socket(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::socket(domain, kind, protocol))?) })
}

/// Sets an option of a socket, whose value must have the type that the kernel expects.
fn set_option<T>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value).cast(), size_of::<T>());
    // SAFETY: the value outlives the call, and the length is its own.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value,
            len as libc::socklen_t,
        )
    })
    .map(drop)
}
