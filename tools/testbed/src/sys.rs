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
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::set_parent_process_death_signal as die_with_parent;
use rustix::process::{Pid, Signal, WaitOptions, getpid, getppid, waitpid};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space, sched_getaffinity,
    sched_setaffinity, unshare_unsafe,
};

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
    Tun { name: &'a str },
    /// Write a file (a sysctl of the namespace), and return nothing.
    Write { path: &'a CStr, value: &'a [u8] },
}

/// Runs `operation` in a child that has entered `enter`.
pub(crate) fn run(
    enter: Option<Enter<'_>>,
    operation: &Operation<'_>,
) -> io::Result<Option<OwnedFd>> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    let job = Job {
        enter,
        operation,
        reply: theirs.as_fd(),
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
    let pid = Pid::from_raw(check(pid)?);
    drop(theirs);
    let reply = receive_reply(&ours);
    // No other code waits for this child.
    retry_on_intr(|| waitpid(pid, WaitOptions::empty()))?;
    reply
}

/// What a child does, and the socket that takes its reply.
struct Job<'a> {
    enter: Option<Enter<'a>>,
    operation: &'a Operation<'a>,
    reply: BorrowedFd<'a>,
}

extern "C" fn child(job: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `run` passes a job that outlives the child.
    let job = unsafe { &*job.cast::<Job<'_>>() };
    let entered = job
        .enter
        .map_or(Ok(()), |names| enter(names.user, names.net));
    send_reply(job.reply, &entered.and_then(|()| perform(job.operation)));
    // SAFETY: ends the child without running destructors of the parent's state.
    unsafe { libc::_exit(0) }
}

/// Makes the child of `command` enter the namespaces, keep `inherit` open and die with this
/// process, before it runs its program.
pub(crate) fn before_exec(command: &mut Command, namespaces: Namespaces, inherit: Vec<RawFd>) {
    let parent = getpid();
    // SAFETY: the closure only makes system calls, on memory and descriptors that it owns or that
    // the caller of `spawn` keeps open.
    unsafe {
        command.pre_exec(move || prepare_exec(&namespaces, &inherit, parent));
    }
}

fn prepare_exec(namespaces: &Namespaces, inherit: &[RawFd], parent: Pid) -> io::Result<()> {
    die_with_parent(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Err(Errno::SRCH.into());
    }
    enter(namespaces.user.as_fd(), Some(namespaces.net.as_fd()))?;
    for fd in inherit {
        // SAFETY: the call takes numbers; the caller of `spawn` keeps the descriptor open.
        check(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) })?;
    }
    // Changing credentials clears the parent-death signal, so it must be set again.
    Ok(die_with_parent(Some(Signal::KILL))?)
}

fn enter(user: BorrowedFd<'_>, net: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    move_into_link_name_space(user, Some(LinkNameSpaceType::User))?;
    net.map_or(Ok(()), |net| {
        move_into_link_name_space(net, Some(LinkNameSpaceType::Network))
    })
}

pub(crate) fn bind_frames(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = libc::c_int::try_from(index).unwrap_or(0);
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address outlives the call, and the length matches it.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    check(bound).map(drop)
}

/// One more than the largest number of a processor in a set.
const PROCESSORS: usize = 8 * size_of::<CpuSet>();

/// Returns the numbers of the processors on which this thread may run.
pub(crate) fn processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..PROCESSORS).filter(|at| set.is_set(*at)).collect())
}

/// Restricts this thread to one processor.
pub(crate) fn stay_on(processor: usize) -> io::Result<()> {
    if processor >= PROCESSORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

fn perform(operation: &Operation<'_>) -> Result<Option<OwnedFd>, Errno> {
    match operation {
        Operation::NewUserNamespace { uid_map, gid_map } => {
            // SAFETY: the child is the only thread of its process.
            unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
            // Without "deny", an unprivileged process can't map its group. Old kernels don't
            // have this file.
            let _ = write_file(c"/proc/self/setgroups", b"deny");
            write_file(c"/proc/self/uid_map", uid_map)?;
            write_file(c"/proc/self/gid_map", gid_map)?;
            open_file(c"/proc/self/ns/user", OFlags::RDONLY).map(Some)
        }
        Operation::NewNetNamespace => {
            // SAFETY: as above; other namespaces and descriptors are not concerned.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            open_file(c"/proc/self/ns/net", OFlags::RDONLY).map(Some)
        }
        Operation::Socket {
            domain,
            kind,
            protocol,
        } => {
            let kind = *kind | libc::SOCK_CLOEXEC;
            // SAFETY: the call takes numbers, and gives a new descriptor without another owner.
            unsafe {
                let fd = errno(libc::socket(*domain, kind, *protocol))?;
                Ok(Some(OwnedFd::from_raw_fd(fd)))
            }
        }
        Operation::Tun { name } => {
            let fd = open_file(c"/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK)?;
            // SAFETY: an all-zero ifreq is valid.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
            // SAFETY: `request` is a valid ifreq for the duration of the call.
            errno(unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF as _, &mut request) })?;
            Ok(Some(fd))
        }
        Operation::Write { path, value } => write_file(path, value).map(|()| None),
    }
}

fn open_file(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

fn write_file(path: &CStr, value: &[u8]) -> Result<(), Errno> {
    rustix::io::write(open_file(path, OFlags::WRONLY)?, value).map(drop)
}

fn errno(result: libc::c_int) -> Result<libc::c_int, Errno> {
    let failed = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    if result < 0 {
        Err(failed())
    } else {
        Ok(result)
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    Ok(errno(result)?)
}

/// Bytes of a descriptor as ancillary data.
const ONE_FD: usize = rustix::cmsg_space!(ScmRights(1));

fn send_reply(socket: BorrowedFd<'_>, reply: &Result<Option<OwnedFd>, Errno>) {
    let code = reply
        .as_ref()
        .map_or_else(|error| error.raw_os_error(), |_| 0);
    let fd = reply.as_ref().ok().and_then(Option::as_ref);
    let fds = fd.map(|fd| [fd.as_fd()]);
    let mut space = [MaybeUninit::uninit(); ONE_FD];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let bytes = code.to_ne_bytes();
    let _ = sendmsg(
        socket,
        &[IoSlice::new(&bytes)],
        &mut ancillary,
        SendFlags::empty(),
    );
}

fn receive_reply(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut code = [0; 4];
    let mut space = [MaybeUninit::uninit(); ONE_FD];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = retry_on_intr(|| {
        let parts = &mut [IoSliceMut::new(&mut code)];
        recvmsg(socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes != 4 {
        return Err(io::Error::other("the child that prepares namespaces died"));
    }
    let fds = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match i32::from_ne_bytes(code) {
        0 => Ok(fds),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
