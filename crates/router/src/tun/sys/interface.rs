//! TUN interfaces.

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{check, socket};

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

/// Opens the TUN interface `name`, without packet information and with virtio-net headers.
/// Creates it if it does not exist.
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

/// Adopts a descriptor that was passed to this process, if it is a TUN interface with the right
/// headers. Returns it with the interface's name.
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
    // A duplicate, so that the number stays valid for a later reload that uses it again. SAFETY:
    // F_DUPFD_CLOEXEC gives a new descriptor without another owner.
    let own = unsafe { OwnedFd::from_raw_fd(check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?) };
    let name = request.ifr_name.iter().take_while(|c| **c != 0);
    Ok((
        File::from(own),
        name.map(|c| char::from(*c as u8)).collect(),
    ))
}

/// The offloads that an interface supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Checksums and TCP segmentation.
    pub tcp: bool,
    /// UDP segmentation.
    pub udp: bool,
}

/// Requests 10-byte virtio-net headers and all offloads that the kernel supports.
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

/// An interface's property that is wrong and that this process may not change.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It has this MTU.
    Mtu(u32),
    /// It is down.
    Down,
    /// It cannot be queried.
    Failed(io::Error),
}

/// Sets an interface's MTU and brings it up. This needs no capability if both are already set.
pub(crate) fn bring_up(name: &str, mtu: u32) -> Result<(), Unfit> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(Unfit::Failed)?;
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

/// `_IO(0x89, 0x4C)`: the network namespace of a socket, or of a TUN descriptor's interface.
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// The network namespace of a TUN descriptor's interface. The kernel only allows this to a
/// process that may administer the namespace.
pub(crate) fn namespace_of(tun: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: SIOCGSKNS takes no argument and gives a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(check(libc::ioctl(tun, SIOCGSKNS as _))?) })
}
