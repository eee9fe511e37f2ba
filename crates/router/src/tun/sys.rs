//! System calls: TUN devices, waiting for descriptors, signals, privileges. The crate's only unsafe
//! code.

#![allow(
    unsafe_code,
    reason = "system calls that the standard library does not wrap"
)]

mod interface;
mod process;
mod sockets;

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{io, ptr};

use pathmark_cc::Duration;

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

/// Waits until a descriptor is ready, or `timeout` has passed (`None`: forever). Sets `revents`
/// of each entry. A signal ends the wait early.
pub(crate) fn wait(fds: &mut Vec<libc::pollfd>, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the array and the time outlive the call, and the count is the array's.
    let result = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            timeout,
            ptr::null(),
        )
    };
    match check(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Creates an epoll set.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) })
}

/// Adds a descriptor for reading.
pub(crate) fn epoll_add(set: RawFd, fd: RawFd, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: token,
    };
    // SAFETY: the event outlives the call; a descriptor that is not open is refused.
    check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event) }).map(drop)
}

/// Removes a descriptor.
pub(crate) fn epoll_remove(set: RawFd, fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers; a descriptor that is not in the set is refused.
    check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) }).map(drop)
}

/// Waits until a descriptor is ready, or `timeout` has passed (`None`: forever), and fills
/// `events`, up to its capacity. A signal ends the wait early.
pub(crate) fn epoll_wait(
    set: RawFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let spec = timeout.map(timespec);
    let spec = spec.as_ref().map_or(ptr::null(), ptr::from_ref);
    let room = libc::c_int::try_from(events.capacity()).unwrap_or(libc::c_int::MAX);
    events.clear();
    // SAFETY: the kernel writes no more events than there is room for; array and time outlive the
    // call; no signal mask.
    let found = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set,
            events.as_mut_ptr(),
            room,
            spec,
            ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    let found = match libc::c_int::try_from(found).map(check) {
        Ok(Ok(found)) => found,
        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => 0,
        // Linux before 5.11 requires two calls.
        Ok(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            wait(&mut vec![readable(set)], timeout)?;
            // SAFETY: as above.
            match check(unsafe { libc::epoll_wait(set, events.as_mut_ptr(), room, 0) }) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            }
        }
        Ok(Err(error)) => return Err(error),
        Err(_) => 0,
    };
    // SAFETY: the kernel has written `found` events, and no more than the capacity.
    unsafe { events.set_len(usize::try_from(found).unwrap_or(0)) };
    Ok(())
}

/// An entry for [`wait`] that is ready for reading.
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    entry(fd, libc::POLLIN)
}

/// An entry that is ready for writing.
pub(crate) fn writable(fd: RawFd) -> libc::pollfd {
    entry(fd, libc::POLLOUT)
}

/// An entry that is ready only once the other side has closed completely.
pub(crate) fn hung_up(fd: RawFd) -> libc::pollfd {
    entry(fd, 0)
}

fn entry(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}
