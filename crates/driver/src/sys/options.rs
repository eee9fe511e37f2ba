//! Socket options: the fields that the kernel reports for each datagram, and the TTL for sending.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// TTL or hop limit of sent packets. Receivers compare it with the remaining TTL, and routers
/// compare their own counts with the difference.
pub(crate) const SENT_TTL: u8 = 64;

/// Requests TTL, ECN field and destination of arriving datagrams, lets the kernel coalesce
/// datagrams that belong together, and sends with [`SENT_TTL`].
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
        // These are for IPv4 packets, if the socket accepts them. It reports their addresses as
        // IPv6.
        for (name, value) in ipv4 {
            let _ = set(socket, libc::IPPROTO_IP, name, value);
        }
    }
    // Without this option, datagrams arrive one by one.
    let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    // quinn-udp switches on timestamps, but no code here uses them.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
    Ok(())
}

/// Returns the bytes of the largest IP packet for the interface to `to`, or for the path as far as
/// the kernel knows it, from the address `from` if known.
pub(crate) fn interface_mtu(to: SocketAddr, from: Option<IpAddr>) -> io::Result<u32> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((from.unwrap_or(any), 0))?;
    // This sends nothing, but makes the kernel look up the route.
    socket.connect(to)?;
    let mtu = if to.ip().to_canonical().is_ipv4() {
        get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?
    } else {
        get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?
    };
    u32::try_from(mtu).map_err(io::Error::other)
}

fn get(socket: &impl AsRawFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    #[expect(unsafe_code, reason = "getsockopt(2) takes pointers")]
    // SAFETY: the descriptor is open because it is borrowed. The pointers refer to a value with the
    // given length, and to this length, both of which the kernel writes during the call.
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
    // SAFETY: the descriptor is open because it is borrowed. The pointer refers to as many bytes as
    // the length says, which the kernel reads during the call.
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
