//! Errors of sockets, which concern either one datagram or the whole socket.

use std::io;

/// Returns true for the ICMP error of an earlier datagram. Connected sockets report these errors,
/// which are no reason to stop receiving.
pub(super) fn is_of_one_peer(error: &io::Error) -> bool {
    // Linux errors without an `ErrorKind` (net/ipv4/icmp.c, net/ipv6/icmp.c): fragmentation needed,
    // host or protocol unknown, source route failed, host isolated, bad header.
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

/// The system's error numbers for a single datagram. Systems that are neither Unix nor Windows have
/// none.
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

/// Returns true for errors of kernels and interfaces that don't support segmentation offload.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| numbers::UNSUPPORTED.contains(&number))
}

/// Returns true if the datagram is too large for the interface.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| numbers::TOO_LONG.contains(&number))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Errors that Linux derives from ICMP (net/ipv4/icmp.c, net/ipv6/icmp.c) belong to an earlier
    /// datagram, whereas others belong to the socket itself.
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
