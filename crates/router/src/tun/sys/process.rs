//! This process: users, groups and privileges, signals, clock, memory and limits.

use std::ffi::CString;
use std::fs::File;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::{io, ptr};

use super::check;

/// `linux/sockios.h`: a `timespec` of the architecture.
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

/// The request that a signal makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// A descriptor that reports SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub(crate) struct Signals(File);

impl Signals {
    /// Blocks the signals for this thread and for threads that it starts later.
    pub(crate) fn take_over() -> io::Result<Self> {
        // SAFETY: `sigset_t` is plain data that `sigemptyset` initializes; the calls only read or
        // write it.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            check(libc::sigemptyset(&mut set))?;
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                check(libc::sigaddset(&mut set, signal))?;
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) {
                0 => {}
                error => return Err(io::Error::from_raw_os_error(error)),
            }
            let fd = check(libc::signalfd(
                -1,
                &set,
                libc::SFD_NONBLOCK | libc::SFD_CLOEXEC,
            ))?;
            Ok(Self(File::from_raw_fd(fd)))
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next pending signal, if any.
    pub(crate) fn next(&self) -> Option<Signal> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let read = io::Read::read(&mut &self.0, &mut info).ok()?;
        // The signal's number comes first.
        let number = info.get(..read)?.first_chunk::<4>()?;
        match i32::from_ne_bytes(*number) {
            libc::SIGHUP => Some(Signal::Reload),
            _ => Some(Signal::Stop),
        }
    }
}

/// Makes the allocator return freed memory to the system. Because this may take a while, it
/// happens in a separate thread.
pub(crate) fn return_memory() {
    #[cfg(target_env = "gnu")]
    {
        let trim = || {
            // SAFETY: `malloc_trim` takes a number and may be called by any thread.
            let _ = unsafe { libc::malloc_trim(0) };
        };
        // Without a thread, the memory is only returned later.
        let _ = std::thread::Builder::new().spawn(trim);
    }
}

/// Lowers the priority of this thread by ten levels of nice(2), so that it gets a tenth of a
/// busy core compared with a thread of normal priority. Do not use this in a thread that holds
/// locks of the packet thread, such as those of its heap. If the call fails, the priority stays
/// normal.
pub(crate) fn give_way() {
    // SAFETY: takes a number; Linux changes only the calling thread.
    let _ = unsafe { libc::nice(10) };
}

/// Makes this thread wake up within a microsecond of its timers, instead of the usual 50.
pub(crate) fn precise_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes a number. If it fails, only the coarser default remains.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong, 0, 0, 0) };
}

/// The limit of this process's address space in bytes (RLIMIT_AS), if there is one.
pub(crate) fn address_space() -> Option<u64> {
    let limit = limit(libc::RLIMIT_AS)?.rlim_cur;
    (limit != libc::RLIM_INFINITY).then_some(limit)
}

/// Fills `out` with unpredictable random numbers.
pub(crate) fn random(out: &mut [u8]) -> io::Result<()> {
    let mut rest = out;
    while !rest.is_empty() {
        // SAFETY: writes at most the length of `rest` to where it is.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => rest = rest.get_mut(got..).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// CLOCK_MONOTONIC in microseconds, which service managers compare.
pub(crate) fn monotonic_micros() -> u64 {
    let time = clock(libc::CLOCK_MONOTONIC);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000 + part(time.tv_nsec) / 1_000
}

/// Processor time of the calling thread, in seconds.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock(libc::CLOCK_THREAD_CPUTIME_ID);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// How long ago the kernel received the last packet that was read from a socket. The kernel only
/// notes this time after the first call, which fails.
pub(crate) fn age_of_last(socket: RawFd) -> io::Result<std::time::Duration> {
    // SAFETY: `timespec` is plain data, for which all zeros is a value.
    let mut received: libc::timespec = unsafe { zeroed() };
    // SAFETY: the request writes one `timespec`, which outlives the call.
    check(unsafe { libc::ioctl(socket, SIOCGSTAMPNS, &mut received) })?;
    let now = clock(libc::CLOCK_REALTIME);
    let nanos = (now.tv_sec - received.tv_sec) * 1_000_000_000 + now.tv_nsec - received.tv_nsec;
    // The clock may have been set in between.
    let nanos = u64::try_from(nanos).unwrap_or(0);
    Ok(std::time::Duration::from_nanos(nanos))
}

/// Reads a clock that always exists.
fn clock(clock: libc::clockid_t) -> libc::timespec {
    // SAFETY: `timespec` is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: writes one `timespec`, which outlives the call.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time
}

/// Raises this process's limit of open descriptors to the maximum. If this fails, the previous
/// limit remains.
pub(crate) fn raise_descriptor_limit() {
    if let Some(mut limit) = limit(libc::RLIMIT_NOFILE) {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: reads one `rlimit`, which outlives the call.
        let _ = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills in one `rlimit`, which outlives the call.
    let found = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    found.then_some(limit)
}

/// A numeric user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: libc::uid_t,
    pub(crate) group: libc::gid_t,
}

/// Looks up a user in the user database, with the user's own group. `None`: unknown name.
pub(crate) fn user(name: &str) -> Option<Identity> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string; the result points to static memory that is read before any
    // other lookup, and no other thread runs yet.
    let found = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
    Some(Identity {
        user: found.pw_uid,
        group: found.pw_gid,
    })
}

/// Looks up the number of a group. `None`: unknown name.
pub(crate) fn group(name: &str) -> Option<libc::gid_t> {
    let name = CString::new(name).ok()?;
    // SAFETY: as in `user`.
    Some(unsafe { libc::getgrnam(name.as_ptr()).as_ref() }?.gr_gid)
}

/// Switches to `identity`, if given, and permanently gives up all capabilities.
pub(crate) fn drop_privileges(identity: Option<Identity>) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    #[repr(C)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    // SAFETY: all calls take numbers, or pointers to values that outlive them.
    unsafe {
        let current = Identity {
            user: libc::geteuid(),
            group: libc::getegid(),
        };
        // A service manager may have started us as this user already. Changing the user is then
        // neither allowed nor necessary.
        if let Some(Identity { user, group }) = identity.filter(|wanted| *wanted != current) {
            check(libc::setgroups(0, ptr::null()))?;
            check(libc::setresgid(group, group, group))?;
            check(libc::setresuid(user, user, user))?;
        }
        check(libc::prctl(
            libc::PR_SET_NO_NEW_PRIVS,
            1 as libc::c_ulong,
            0,
            0,
            0,
        ))?;
        let header = Header {
            version: VERSION_3,
            pid: 0,
        };
        let none = [const {
            Data {
                effective: 0,
                permitted: 0,
                inheritable: 0,
            }
        }; 2];
        if libc::syscall(libc::SYS_capset, &header, none.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The user that this process acts as.
pub(crate) fn effective_user() -> libc::uid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
