//! System calls: a child enters or creates a namespace, does one thing there, and passes a
//! descriptor back.
//!
//! A process with threads cannot change its own user namespace, and its child can only call
//! async-signal-safe functions until it executes a program. Therefore each operation prepares
//! everything (strings, structures) before the child starts, which makes bare system calls and
//! exits.

#![allow(
    unsafe_code,
    reason = "namespaces, TUN and descriptor passing have no safe interface in std"
)]

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Bytes of stack of a child that makes a few system calls.
const CHILD_STACK: usize = 64 * 1024;
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_TUN: libc::c_short = 0x0001;
const IFF_NO_PI: libc::c_short = 0x1000;
const IFF_VNET_HDR: libc::c_short = 0x4000;

/// The namespaces to enter before an operation.
#[derive(Clone, Copy)]
pub(crate) struct Enter<'a> {
    pub(crate) user: BorrowedFd<'a>,
    pub(crate) net: Option<BorrowedFd<'a>>,
}

/// Descriptors that the new program needs before it runs.
pub(crate) struct Namespaces {
    pub(crate) user: OwnedFd,
    pub(crate) net: OwnedFd,
}

/// One operation in a child, which borrows everything it needs from its parent.
pub(crate) enum Operation<'a> {
    /// Create a user namespace whose root is this user, and return it.
    NewUserNamespace {
        uid_map: &'a [u8],
        gid_map: &'a [u8],
    },
    /// Create a network namespace, and return it.
    NewNetNamespace,
    /// Open a socket, and return it.
    Socket {
        domain: libc::c_int,
        kind: libc::c_int,
        protocol: libc::c_int,
    },
    /// Open a TUN interface with virtio-net headers, and return its queue.
    Tun { name: [u8; libc::IFNAMSIZ] },
    /// Write a file (a sysctl of the namespace), and return nothing.
    Write { path: &'a CStr, value: &'a [u8] },
}

pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: both calls have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Runs `operation` in a child that has entered `enter`.
pub(crate) fn run(
    enter: Option<Enter<'_>>,
    operation: &Operation<'_>,
) -> io::Result<Option<OwnedFd>> {
    let (ours, theirs) = socket_pair()?;
    let job = Job {
        enter,
        operation,
        reply: theirs.as_raw_fd(),
    };
    let mut stack = vec![0u128; CHILD_STACK / size_of::<u128>()];
    // A process that shares its memory cannot create a user namespace. Any other operation shares
    // it, because copying the page tables of a large test process takes 10 ms and more.
    let share = match operation {
        Operation::NewUserNamespace { .. } => 0,
        _ => libc::CLONE_VM | libc::CLONE_VFORK,
    };
    // SAFETY: the stack grows down from its end and outlives the child, because this thread waits
    // until the child has ended. The child only makes async-signal-safe system calls on memory
    // prepared before, and then exits.
    let pid = unsafe {
        libc::clone(
            child,
            stack.as_mut_ptr_range().end.cast(),
            share | libc::SIGCHLD,
            (&raw const job).cast_mut().cast(),
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(theirs);
    let reply = receive_reply(ours.as_raw_fd());
    reap(pid)?;
    reply
}

/// What a child does, and the socket that takes its reply.
struct Job<'a> {
    enter: Option<Enter<'a>>,
    operation: &'a Operation<'a>,
    reply: RawFd,
}

extern "C" fn child(job: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `run` passes a job that outlives the child.
    let job = unsafe { &*job.cast::<Job<'_>>() };
    send_reply(job.reply, perform(job.enter, job.operation));
    // SAFETY: ends the child without running destructors of the parent's state.
    unsafe { libc::_exit(0) }
}

/// Makes the child of `command` enter the namespaces, keep `inherit` open and die with this
/// process, before it runs its program.
pub(crate) fn before_exec(command: &mut Command, namespaces: Namespaces, inherit: Vec<RawFd>) {
    // SAFETY: the call has no arguments and cannot fail.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the closure only makes system calls, on memory and descriptors that it owns or that
    // the caller of `spawn` keeps open.
    unsafe {
        command.pre_exec(move || {
            let (user, net) = (namespaces.user.as_raw_fd(), namespaces.net.as_raw_fd());
            prepare_exec(user, net, &inherit, parent)
        });
    }
}

fn prepare_exec(user: RawFd, net: RawFd, inherit: &[RawFd], parent: libc::pid_t) -> io::Result<()> {
    // SAFETY: plain system calls on descriptors that are open until the program runs.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        check(libc::setns(user, libc::CLONE_NEWUSER))?;
        check(libc::setns(net, libc::CLONE_NEWNET))?;
        for fd in inherit {
            check(libc::fcntl(*fd, libc::F_SETFD, 0))?;
        }
        // Changing credentials clears the parent-death signal, so it must be set again.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
    }
    Ok(())
}

/// Returns the index of interface `name` in the namespace of `socket`.
pub(crate) fn interface_index(
    socket: BorrowedFd<'_>,
    name: &[u8; libc::IFNAMSIZ],
) -> io::Result<u32> {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    copy_name(&mut request, name);
    // SAFETY: `request` is a valid ifreq for the duration of the call.
    unsafe {
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFINDEX as _,
            &mut request,
        ))?;
        Ok(u32::try_from(request.ifr_ifru.ifru_ifindex).unwrap_or(0))
    }
}

pub(crate) fn bind_frames(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = libc::c_int::try_from(index).unwrap_or(0);
    // SAFETY: this is a structure of an address.
    unsafe { bind_raw(socket, &address) }
}

/// Binds a socket to an address, which must be one of the structures `sockaddr_*`.
unsafe fn bind_raw<T>(socket: BorrowedFd<'_>, address: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the address outlives the call, and the length matches it.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), length) };
    check(bound).map(drop)
}

/// Sends one datagram on a connected or netlink socket.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: `bytes` is readable for its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    usize::try_from(sent)
        .map(drop)
        .map_err(|_| io::Error::last_os_error())
}

/// Receives one datagram, and returns its number of bytes.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is writable for its length.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn bind(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    // SAFETY: each address structure is valid for the length that is passed with it.
    unsafe {
        match address {
            SocketAddr::V4(address) => {
                let mut raw: libc::sockaddr_in = std::mem::zeroed();
                raw.sin_family = libc::AF_INET as _;
                raw.sin_port = address.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                bind_raw(socket, &raw)
            }
            SocketAddr::V6(address) => {
                let mut raw: libc::sockaddr_in6 = std::mem::zeroed();
                raw.sin6_family = libc::AF_INET6 as _;
                raw.sin6_port = address.port().to_be();
                raw.sin6_addr.s6_addr = address.ip().octets();
                raw.sin6_scope_id = address.scope_id();
                bind_raw(socket, &raw)
            }
        }
    }
}

pub(crate) fn listen(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the arguments are plain numbers.
    unsafe { check(libc::listen(socket.as_raw_fd(), 1024)) }.map(|_| ())
}

/// Returns the numbers of the processors on which this thread may run.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is plain data, for which all zeros is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the call, and the length matches it.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) })?;
    let all = 0..8 * size_of::<libc::cpu_set_t>();
    // SAFETY: the number is below the size of a set.
    Ok(all
        .filter(|at| unsafe { libc::CPU_ISSET(*at, &set) })
        .collect())
}

/// Restricts this thread to one processor.
pub(crate) fn stay_on(processor: usize) -> io::Result<()> {
    if processor >= 8 * size_of::<libc::cpu_set_t>() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the size of a set.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set outlives the call, and the length matches it.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) }).map(drop)
}

/// Sends `signal` to a child that has not been reaped yet.
pub(crate) fn kill(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the arguments are plain numbers.
    unsafe { check(libc::kill(pid, signal)) }.map(|_| ())
}

fn perform(enter: Option<Enter<'_>>, operation: &Operation<'_>) -> Result<Option<RawFd>, i32> {
    // SAFETY (whole function): system calls on descriptors and buffers that outlive the call.
    unsafe {
        if let Some(enter) = enter {
            errno(libc::setns(enter.user.as_raw_fd(), libc::CLONE_NEWUSER))?;
            if let Some(net) = enter.net {
                errno(libc::setns(net.as_raw_fd(), libc::CLONE_NEWNET))?;
            }
        }
        match operation {
            Operation::NewUserNamespace { uid_map, gid_map } => {
                errno(libc::unshare(libc::CLONE_NEWUSER))?;
                // Without "deny", an unprivileged process can't map its group. Old kernels don't
                // have this file.
                let _ = write_file(c"/proc/self/setgroups", b"deny");
                write_file(c"/proc/self/uid_map", uid_map)?;
                write_file(c"/proc/self/gid_map", gid_map)?;
                open(c"/proc/self/ns/user", libc::O_RDONLY).map(Some)
            }
            Operation::NewNetNamespace => {
                errno(libc::unshare(libc::CLONE_NEWNET))?;
                open(c"/proc/self/ns/net", libc::O_RDONLY).map(Some)
            }
            Operation::Socket {
                domain,
                kind,
                protocol,
            } => errno(libc::socket(*domain, *kind | libc::SOCK_CLOEXEC, *protocol)).map(Some),
            Operation::Tun { name } => {
                let fd = open(c"/dev/net/tun", libc::O_RDWR | libc::O_NONBLOCK)?;
                let mut request: libc::ifreq = std::mem::zeroed();
                copy_name(&mut request, name);
                request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
                errno(libc::ioctl(fd, TUNSETIFF as _, &mut request))?;
                Ok(Some(fd))
            }
            Operation::Write { path, value } => write_file(path, value).map(|()| None),
        }
    }
}

fn copy_name(request: &mut libc::ifreq, name: &[u8; libc::IFNAMSIZ]) {
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
}

fn open(path: &CStr, flags: libc::c_int) -> Result<RawFd, i32> {
    // SAFETY: `path` is a C string.
    errno(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) })
}

fn write_file(path: &CStr, value: &[u8]) -> Result<(), i32> {
    let fd = open(path, libc::O_WRONLY)?;
    // SAFETY: `value` is readable for its length; `fd` is open and closed once.
    unsafe {
        let written = libc::write(fd, value.as_ptr().cast(), value.len());
        let failed = (written < 0).then(last_errno);
        libc::close(fd);
        failed.map_or(Ok(()), Err)
    }
}

fn last_errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

fn errno(result: libc::c_int) -> Result<libc::c_int, i32> {
    if result < 0 {
        Err(last_errno())
    } else {
        Ok(result)
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    errno(result).map_err(io::Error::from_raw_os_error)
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut pair = [0; 2];
    // SAFETY: `pair` has room for two descriptors, which are then only owned here.
    unsafe {
        check(libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            pair.as_mut_ptr(),
        ))?;
        Ok((OwnedFd::from_raw_fd(pair[0]), OwnedFd::from_raw_fd(pair[1])))
    }
}

/// Room for one descriptor as ancillary data, with the alignment that the kernel requires.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

const FD_BYTES: libc::c_uint = size_of::<RawFd>() as libc::c_uint;

fn send_reply(socket: RawFd, reply: Result<Option<RawFd>, i32>) {
    let mut code = reply.err().unwrap_or(0).to_ne_bytes();
    let mut vector = libc::iovec {
        iov_base: code.as_mut_ptr().cast(),
        iov_len: code.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    // SAFETY: the message points to locals that outlive the call, and the control buffer holds one
    // descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        if let Ok(Some(fd)) = reply {
            message.msg_control = ancillary.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(FD_BYTES) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(FD_BYTES) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        }
        libc::sendmsg(socket, &message, 0);
    }
}

fn receive_reply(socket: RawFd) -> io::Result<Option<OwnedFd>> {
    let mut code = [0u8; 4];
    let mut vector = libc::iovec {
        iov_base: code.as_mut_ptr().cast(),
        iov_len: code.len(),
    };
    let mut ancillary = Ancillary([0; 64]);
    // SAFETY: the message points to locals that outlive the call; a received descriptor is only
    // owned here.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.0.as_mut_ptr().cast();
        message.msg_controllen = ancillary.0.len() as _;
        let got = loop {
            let got = libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC);
            if got >= 0 || last_errno() != libc::EINTR {
                break got;
            }
        };
        if got != 4 {
            return Err(io::Error::other("the child that prepares namespaces died"));
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        let fd = (!header.is_null()).then(|| {
            let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            OwnedFd::from_raw_fd(fd)
        });
        match i32::from_ne_bytes(code) {
            0 => Ok(fd),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn reap(pid: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: waits for our own child, for which no other code waits.
        let result = unsafe { libc::waitpid(pid, &mut status, 0) };
        if result == pid {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
