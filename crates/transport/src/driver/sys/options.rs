//! Options of a socket: what the kernel shall say beside each datagram, and the TTL of what is sent.

use std::ffi::c_int;
use std::io;
use std::os::fd::AsRawFd;

/// TTL or hop limit of packets sent: receivers compare with what is left of it, and routers' own counts with the difference.
pub(in super::super) const SENT_TTL: u8 = 64;

/// Has the kernel tell TTL, ECN field and destination of all that arrives, coalesce what belongs together, and send with
/// [`SENT_TTL`].
pub(in super::super) fn prepare(socket: &std::net::UdpSocket) -> io::Result<()> {
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
    // Nobody asks when datagrams arrived; quinn-udp switches it on.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
    Ok(())
}

fn set(socket: &impl AsRawFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    #[expect(unsafe_code, reason = "setsockopt(2) takes a pointer")]
    // SAFETY: the descriptor is open, since it is borrowed; the pointer is to as many bytes as the length says, which the
    // kernel reads during the call.
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
