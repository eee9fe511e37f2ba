//! Waits for descriptors.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use pathmark_cc::Duration;

use super::check;

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
