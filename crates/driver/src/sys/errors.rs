//! The error queue of a socket: reports by ICMP and the kernel about datagrams that were sent
//! (ip(7) and ipv6(7) under `IP_RECVERR`).

use std::ffi::c_int;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::messages::address;
use super::messages::each;
use super::options::set;

/// Room for a `sockaddr_in6`.
const NAME: usize = 28;
/// Room for `sock_extended_err` (16 bytes), the address of its sender, and the control messages
/// that [`prepare`](super::prepare) requests.
const CONTROL: usize = 512;
/// Room for the part of the datagram that a report quotes: a shim and the header of a QUIC packet.
const QUOTE: usize = 128;

/// An entry of the error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedError {
    /// Destination of the datagram that caused the error.
    pub(crate) to: Option<SocketAddr>,
    /// `ee_errno`.
    pub(crate) number: c_int,
    /// True if a router or the destination reported it by ICMP, and false if this host's kernel
    /// did.
    pub(crate) by_icmp: bool,
    /// The beginning of the datagram's payload, as far as the report contains it.
    pub(crate) quote: Vec<u8>,
}

/// Switches the error queue on, or switches it off and empties it.
pub(crate) fn queue_errors(socket: &impl AsRawFd, on: bool) -> io::Result<()> {
    let value = c_int::from(on);
    let ipv6 = set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, value);
    // An IPv6 socket accepts both options, an IPv4 socket only the second.
    set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, value).or(ipv6)
}

/// Takes the next entry of the error queue. Returns `WouldBlock` if it is empty.
pub(crate) fn take_error(socket: &impl AsFd) -> io::Result<QueuedError> {
    #[repr(C, align(8))]
    struct Aligned<const N: usize>([u8; N]);
    let mut name = Aligned([0; NAME]);
    let mut control = Aligned([0; CONTROL]);
    let mut quote = [0; QUOTE];
    let mut part = libc::iovec {
        iov_base: quote.as_mut_ptr().cast(),
        iov_len: QUOTE,
    };
    #[expect(unsafe_code, reason = "a C structure that is zero at first")]
    // SAFETY: all fields are integers and pointers, for which zero is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.0.as_mut_ptr().cast();
    header.msg_namelen = libc::socklen_t::try_from(NAME).unwrap_or(0);
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let quoted = loop {
        #[expect(unsafe_code, reason = "recvmsg(2) takes pointers")]
        // SAFETY: the descriptor is open because it is borrowed. The pointers refer to buffers with
        // the given lengths, which live until the call returns and which nothing else uses.
        let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
        if let Ok(got) = usize::try_from(got) {
            break got;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    #[allow(
        clippy::unnecessary_cast,
        reason = "C libraries differ in the type of lengths"
    )]
    let (name_len, control_len) = (header.msg_namelen as usize, header.msg_controllen as usize);
    let to = name.0.get(..name_len).and_then(address);
    let (mut number, mut by_icmp) = (0, false);
    each(
        control.0.get(..control_len).unwrap_or(&[]),
        |level, kind, data| {
            let is_error = matches!(
                (level, kind),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            );
            // `sock_extended_err` begins with the number in 4 bytes and the origin in one byte.
            if let (true, Some((code, rest))) = (is_error, data.split_first_chunk()) {
                number = c_int::from_ne_bytes(*code);
                by_icmp = matches!(
                    rest.first(),
                    Some(&(libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6))
                );
            }
        },
    );
    Ok(QueuedError {
        to,
        number,
        by_icmp,
        quote: quote.get(..quoted).unwrap_or(&[]).to_vec(),
    })
}
