//! Errors of sockets: of one datagram, or of the socket.

use std::io;

/// True for the ICMP error of an earlier datagram, which connected sockets tell: no reason to stop
/// listening.
pub(super) fn is_of_one_peer(error: &io::Error) -> bool {
    // Those of Linux without a kind (net/ipv4/icmp.c, net/ipv6/icmp.c): fragmentation needed, host
    // or protocol unknown, source route failed, host isolated, bad header.
    #[cfg(target_os = "linux")]
    let known = matches!(
        error.raw_os_error(),
        Some(
            libc::EMSGSIZE
                | libc::EHOSTDOWN
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::ENONET
                | libc::EPROTO
                | libc::EACCES
        )
    );
    #[cfg(not(target_os = "linux"))]
    let known = false;
    known
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
        )
}

/// Error numbers of the system that concern one datagram. Systems that are neither Unix
/// nor Windows have none.
mod numbers {
    #[cfg(unix)]
    pub(super) const UNSUPPORTED: &[i32] = &[libc::EIO, libc::EINVAL, libc::EOPNOTSUPP];
    #[cfg(unix)]
    pub(super) const TOO_LONG: &[i32] = &[libc::EMSGSIZE];
    /// WSAEINVAL and WSAEOPNOTSUPP (Windows Sockets Error Codes).
    #[cfg(windows)]
    pub(super) const UNSUPPORTED: &[i32] = &[10_022, 10_045];
    /// WSAEMSGSIZE.
    #[cfg(windows)]
    pub(super) const TOO_LONG: &[i32] = &[10_040];
    #[cfg(not(any(unix, windows)))]
    pub(super) const UNSUPPORTED: &[i32] = &[];
    #[cfg(not(any(unix, windows)))]
    pub(super) const TOO_LONG: &[i32] = &[];
}

/// Errors of kernels and interfaces without segmentation.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| numbers::UNSUPPORTED.contains(&number))
}

/// The datagram is larger than the interface carries.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| numbers::TOO_LONG.contains(&number))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// What Linux makes of ICMP (net/ipv4/icmp.c, net/ipv6/icmp.c) is an earlier datagram's error,
    /// that of the socket itself is not.
    #[test]
    fn errors_of_one_datagram_end_no_socket() {
        for number in [
            libc::ENETUNREACH,
            libc::EHOSTUNREACH,
            libc::ENOPROTOOPT,
            libc::ECONNREFUSED,
            libc::EMSGSIZE,
            libc::EOPNOTSUPP,
            libc::EHOSTDOWN,
            libc::ENONET,
            libc::EPROTO,
            libc::EACCES,
        ] {
            let error = io::Error::from_raw_os_error(number);
            assert!(is_of_one_peer(&error), "{error}");
        }
        for number in [libc::EBADF, libc::ENOTCONN, libc::ENOTSOCK, libc::EFAULT] {
            let error = io::Error::from_raw_os_error(number);
            assert!(!is_of_one_peer(&error), "{error}");
        }
    }
}
