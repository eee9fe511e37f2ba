//! System calls: TUN devices, waiting, signals, privileges. The crate's only unsafe code.
#![allow(
    unsafe_code,
    reason = "system calls that the standard library does not wrap"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;

use pathmark_cc::Duration;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNGETIFF: libc::c_ulong = 0x8004_54d2;
const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;

const IFF_TUN: libc::c_short = 0x0001;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;

const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO: libc::c_ulong = 0x02 | 0x04 | 0x08;
/// Since Linux 6.2.
const TUN_F_USO: libc::c_ulong = 0x20 | 0x40;

/// Returns the last error if a call gave -1.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn ifreq(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "interface name too long",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Opens the TUN interface `name`, without packet information and with virtio-net headers; makes it
/// if there is none.
pub(crate) fn open_tun(name: &str) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) })?;
    Ok(file)
}

/// Takes over a descriptor that was passed to this process, if it is a TUN interface with the right
/// headers; returns the interface's name beside it.
pub(crate) fn adopt_tun(fd: RawFd) -> io::Result<(File, String)> {
    let mut request = ifreq("")?;
    // SAFETY: TUNGETIFF writes one `ifreq`, which outlives the call; other descriptors refuse it.
    check(unsafe { libc::ioctl(fd, TUNGETIFF as _, &mut request) })?;
    // SAFETY: the kernel filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if flags & (IFF_TUN | IFF_NO_PI | IFF_VNET_HDR) != IFF_TUN | IFF_NO_PI | IFF_VNET_HDR {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the descriptor is no TUN interface with IFF_NO_PI and IFF_VNET_HDR",
        ));
    }
    // SAFETY: F_GETFL and F_SETFL take and give an integer; the descriptor is open, as the ioctl
    // has shown.
    let status = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, status | libc::O_NONBLOCK) })?;
    // A copy of our own: the number stays valid for a later reload that names it again.
    // SAFETY: F_DUPFD_CLOEXEC gives a new descriptor that nobody else owns.
    let own = unsafe { OwnedFd::from_raw_fd(check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?) };
    let name = request.ifr_name.iter().take_while(|c| **c != 0);
    Ok((
        File::from(own),
        name.map(|c| char::from(*c as u8)).collect(),
    ))
}

/// Which offloads an interface got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Checksums and TCP segmentation.
    pub tcp: bool,
    /// UDP segmentation.
    pub udp: bool,
}

/// Asks for 10-byte virtio-net headers and all offloads that the kernel has.
pub(crate) fn set_offloads(tun: &File) -> io::Result<Offloads> {
    let fd = tun.as_raw_fd();
    let size: libc::c_int = 10;
    // SAFETY: TUNSETVNETHDRSZ reads one int, which outlives the call.
    check(unsafe { libc::ioctl(fd, TUNSETVNETHDRSZ as _, &size) })?;
    let attempts = [
        (TUN_F_CSUM | TUN_F_TSO | TUN_F_USO, true, true),
        (TUN_F_CSUM | TUN_F_TSO, true, false),
        (0, false, false),
    ];
    let mut last = Ok(Offloads::default());
    for (flags, tcp, udp) in attempts {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        match check(unsafe { libc::ioctl(fd, TUNSETOFFLOAD as _, flags) }) {
            Ok(_) => return Ok(Offloads { tcp, udp }),
            Err(error) => last = Err(error),
        }
    }
    last
}

/// What of an interface is not as it should be, and may not be changed by this process.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It has this MTU.
    Mtu(u32),
    /// It is down.
    Down,
    /// It cannot even be asked.
    Failed(io::Error),
}

/// Sees to it that an interface has this MTU and is up. What is so already takes no capability.
pub(crate) fn bring_up(name: &str, mtu: u32) -> Result<(), Unfit> {
    // SAFETY: a new descriptor that nobody else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(
            check(libc::socket(
                libc::AF_INET,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
                0,
            ))
            .map_err(Unfit::Failed)?,
        )
    };
    let call = |number: libc::c_ulong, request: &mut libc::ifreq| {
        // SAFETY: this call reads or writes one `ifreq`, which outlives it.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), number as _, request) })
    };
    let refused = |error: io::Error, unfit: Unfit| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => unfit,
        _ => Unfit::Failed(error),
    };
    let mut request = ifreq(name).map_err(Unfit::Failed)?;
    call(libc::SIOCGIFMTU as _, &mut request).map_err(Unfit::Failed)?;
    // SAFETY: the kernel filled in the MTU.
    let has = unsafe { request.ifr_ifru.ifru_mtu } as u32;
    if has != mtu {
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        call(libc::SIOCSIFMTU as _, &mut request)
            .map_err(|error| refused(error, Unfit::Mtu(has)))?;
    }
    let mut request = ifreq(name).map_err(Unfit::Failed)?;
    call(libc::SIOCGIFFLAGS as _, &mut request).map_err(Unfit::Failed)?;
    // SAFETY: the kernel filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if flags & libc::IFF_UP as libc::c_short == 0 {
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        call(libc::SIOCSIFFLAGS as _, &mut request).map_err(|error| refused(error, Unfit::Down))?;
    }
    Ok(())
}

/// Waits until a descriptor is readable, or `timeout` has passed (`None`: for ever). True in
/// `ready` for each that is readable, in the same order. A signal ends the wait early.
pub(crate) fn wait(fds: &mut Vec<libc::pollfd>, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
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

/// A set of descriptors to wait for.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) })
}

/// Adds a descriptor that is to be read from.
pub(crate) fn epoll_add(set: RawFd, fd: RawFd, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: token,
    };
    // SAFETY: the event outlives the call; a descriptor that is not open is refused.
    check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event) }).map(drop)
}

/// Takes a descriptor out.
pub(crate) fn epoll_remove(set: RawFd, fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers; a descriptor that is not in the set is refused.
    check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) }).map(drop)
}

/// Fills `events`, up to its capacity, with what is ready, waiting until something is or `timeout`
/// has passed (`None`: for ever). A signal ends the wait early.
pub(crate) fn epoll_wait(
    set: RawFd,
    events: &mut Vec<libc::epoll_event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let spec = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
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
        // Linux before 5.11: the same in two calls.
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
    // SAFETY: the kernel has written so many, and no more than the capacity.
    unsafe { events.set_len(usize::try_from(found).unwrap_or(0)) };
    Ok(())
}

/// Lets this process open as many descriptors as it may at all. Failure leaves the limit that there
/// was.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls read or write one `rlimit`, which outlives them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            let _ = libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// An entry for [`wait`].
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// The same for a descriptor that is to be written to.
pub(crate) fn writable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    }
}

/// An entry that is ready only once the other side has left altogether.
pub(crate) fn hung_up(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    }
}

/// Connects to a Unix stream socket without waiting: a listener whose queue is full gives
/// [`io::ErrorKind::WouldBlock`], a path on which nobody listens
/// [`io::ErrorKind::ConnectionRefused`].
pub(crate) fn try_connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = unix_socket(libc::SOCK_NONBLOCK)?;
    connect(&socket, path)?;
    Ok(socket)
}

/// Connects to a Unix stream socket, waiting at most so long (more than nothing) for a listener
/// whose queue is full: then [`io::ErrorKind::TimedOut`].
pub(crate) fn connect_within(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = UnixStream::from(unix_socket(0)?);
    // A connect waits as long as a write may (unix(7), SO_SNDTIMEO).
    socket.set_write_timeout(Some(patience))?;
    connect(&socket, path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })?;
    Ok(socket)
}

fn unix_socket(flags: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?) })
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

/// What lies at `path` itself, to be looked at and handed over, whatever is put in its place
/// meanwhile. A symbolic link is not followed.
pub(crate) fn place(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)
}

/// Changes the mode of a [`place`].
pub(crate) fn set_mode(place: &File, mode: u32) -> io::Result<()> {
    // The descriptor's own name, for fchmod(2) does not take such a descriptor.
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    std::fs::set_permissions(name, std::fs::Permissions::from_mode(mode))
}

/// Makes a [`place`] another user's.
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

/// The user that this process acts as.
pub(crate) fn effective_user() -> libc::uid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Sets how many connections may wait to be accepted.
#[cfg(test)]
pub(crate) fn set_backlog(listener: &impl AsRawFd, waiting: libc::c_int) -> io::Result<()> {
    // SAFETY: `listen` takes numbers.
    check(unsafe { libc::listen(listener.as_raw_fd(), waiting) }).map(drop)
}

/// `_IO(0x89, 0x4C)`: the network namespace of a socket, or of a TUN descriptor's interface.
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// The network namespace that a TUN descriptor's interface is in. Told to whoever may administer
/// it.
pub(crate) fn namespace_of(tun: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: SIOCGSKNS takes no argument and gives a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::ioctl(tun, SIOCGSKNS as _))?) })
}

/// A socket to ask about interfaces, in the given network namespace or this thread's own. An answer
/// that does not come is waited for a second.
pub(crate) fn route_socket(namespace: Option<OwnedFd>) -> io::Result<OwnedFd> {
    let Some(namespace) = namespace else {
        return own_route_socket();
    };
    // A thread that ends afterwards enters the namespace, so that no other thread is in a wrong
    // one.
    let thread = std::thread::Builder::new().name("namespace".to_owned());
    let inside = thread.spawn(move || {
        // SAFETY: `setns` takes a descriptor, which is open, and changes this thread alone.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
        own_route_socket()
    })?;
    let failed = |_| io::Error::other("the thread that was to open a socket failed");
    inside.join().map_err(failed)?
}

fn own_route_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: a new descriptor that nobody else owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(check(libc::socket(
            libc::AF_NETLINK,
            kind,
            libc::NETLINK_ROUTE,
        ))?)
    };
    let second = libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    };
    // SAFETY: the value outlives the call, and the length is its own.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            ptr::from_ref(&second).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    })?;
    Ok(socket)
}

/// Has the allocator pass memory that was freed on to the system, in a thread of its own: it may
/// take a while.
pub(crate) fn return_memory() {
    #[cfg(target_env = "gnu")]
    {
        let trim = || {
            // SAFETY: `malloc_trim` takes a number and may be called by any thread.
            let _ = unsafe { libc::malloc_trim(0) };
        };
        // Without a thread for it the memory merely comes back later.
        let _ = std::thread::Builder::new().spawn(trim);
    }
}

/// Lets this thread wake up on time to a microsecond, instead of the usual 50.
pub(crate) fn precise_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes a number. Failure leaves the default, which merely is
    // coarser.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000 as libc::c_ulong, 0, 0, 0) };
}

/// CLOCK_MONOTONIC in microseconds, as service managers compare it.
pub(crate) fn monotonic_micros() -> u64 {
    // SAFETY: `timespec` is plain data, for which all zeros is a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: writes one `timespec`, which outlives the call; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000 + part(time.tv_nsec) / 1_000
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// SIGTERM, SIGINT and SIGHUP as a descriptor to wait for.
#[derive(Debug)]
pub(crate) struct Signals(File);

impl Signals {
    /// Blocks the signals for this thread and those that it will start.
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

    /// The next signal that came, if any.
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

/// A user and a group by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: libc::uid_t,
    pub(crate) group: libc::gid_t,
}

/// What a name of the user database stands for; the other one is a user's own group.
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

/// The number of a group.
pub(crate) fn group(name: &str) -> Option<libc::gid_t> {
    let name = CString::new(name).ok()?;
    // SAFETY: as in `user`.
    Some(unsafe { libc::getgrnam(name.as_ptr()).as_ref() }?.gr_gid)
}

/// Looks names up in the user database. `None` for a name that is not there.
pub(crate) fn identity(user: &str, group: Option<&str>) -> Option<Identity> {
    let mut identity = self::user(user)?;
    if let Some(group) = group {
        identity.group = self::group(group)?;
    }
    Some(identity)
}

/// Becomes `identity`, if given, and gives up all capabilities, for good.
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
        // A service manager may have started us as this user already; then there is no right to
        // change it, and no need.
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
