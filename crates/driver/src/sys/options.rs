//! Options of a socket: what the kernel shall report on each datagram, and the TTL of what is
//! sent.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// TTL or hop limit of packets sent: receivers compare with what is left of it, and routers' own
/// counts with the difference.
pub(crate) const SENT_TTL: u8 = 64;

/// Has the kernel tell TTL, ECN field and destination of all that arrives, coalesce what belongs
/// together, and send with [`SENT_TTL`].
pub(crate) fn prepare(socket: &std::net::UdpSocket) -> io::Result<()> {
    let ttl = c_int::from(SENT_TTL);
    let ipv4 = [
        (libc::IP_RECVTOS, 1),
        (libc::IP_RECVTTL, 1),
        (libc::IP_TTL, ttl),
    ];
    let ipv6 = [
        (libc::IPV6_RECVPKTINFO, 1),
        (libc::IPV6_RECVTCLASS, 1),
        (libc::IPV6_RECVHOPLIMIT, 1),
        (libc::IPV6_UNICAST_HOPS, ttl),
    ];
    if socket.local_addr()?.is_ipv4() {
        set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        for (name, value) in ipv4 {
            set(socket, libc::IPPROTO_IP, name, value)?;
        }
    } else {
        for (name, value) in ipv6 {
            set(socket, libc::IPPROTO_IPV6, name, value)?;
        }
        // For IPv4 packets, if the socket takes any. Their addresses come as IPv6 ones.
        for (name, value) in ipv4 {
            let _ = set(socket, libc::IPPROTO_IP, name, value);
        }
    }
    // Without it, datagrams come one by one.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    // No code here uses the time of arrival; quinn-udp switches it on.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
    Ok(())
}

/// Bytes of the largest IP packet that the interface to `to` carries, or the path as far as the
/// kernel knows it, from the address `from` if that is known.
pub(crate) fn interface_mtu(to: SocketAddr, from: Option<IpAddr>) -> io::Result<u32> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((from.unwrap_or(any), 0))?;
    // Sends nothing: the kernel looks for the route.
    socket.connect(to)?;
    let mtu = if to.ip().to_canonical().is_ipv4() {
        get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?
    } else {
        get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?
    };
    u32::try_from(mtu).map_err(io::Error::other)
}

/// True for an IPv6 socket that takes no IPv4 packets.
pub(crate) fn is_ipv6_only(socket: &UdpSocket) -> io::Result<bool> {
    Ok(get(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)? != 0)
}

fn get(socket: &impl AsRawFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    #[expect(unsafe_code, reason = "getsockopt(2) takes pointers")]
    // SAFETY: the descriptor is open, since it is borrowed; the pointers are to a value of the
    // length that is passed, and to that length, both of which the kernel writes during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn set(
    socket: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    #[expect(unsafe_code, reason = "setsockopt(2) takes a pointer")]
    // SAFETY: the descriptor is open, since it is borrowed; the pointer is to as many bytes as the
    // length covers, which the kernel reads during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
