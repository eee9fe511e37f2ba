//! Sending one datagram, or several of the same size, by one system call: sendmsg(2).

use std::ffi::c_int;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a word, to which control messages are aligned.
const WORD: usize = size_of::<usize>();
/// Bytes of a control message's header: length, level, type (cmsg(3)).
const HEADER: usize = WORD + 2 * size_of::<c_int>();
/// Bytes of `in6_pktinfo`, the longest control message.
const LONGEST: usize = 20;
/// Room for three control messages: type of service, segment size, source address.
const ROOM: usize = 3 * (HEADER + LONGEST.next_multiple_of(WORD));

/// The arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) to: SocketAddr,
    /// Source address; if `None`, the kernel chooses.
    pub(crate) from: Option<IpAddr>,
    /// Type of service or traffic class: DSCP in the upper six bits (RFC 2474), ECN in the lower
    /// two (RFC 3168).
    pub(crate) tos: u8,
    pub(crate) bytes: &'a [u8],
    /// If there are several datagrams, the bytes of each except for the last.
    pub(crate) segment: Option<u16>,
}

/// Sends everything or nothing, without waiting.
///
/// # Errors
/// Those of sendmsg(2). EMSGSIZE, or EINVAL with segments, means that the interface carries no
/// datagrams of this size.
pub(crate) fn send(socket: BorrowedFd<'_>, outgoing: &Outgoing<'_>) -> io::Result<()> {
    let mut control = Control::new();
    control.write(outgoing);
    let (mut name, name_len) = name(&outgoing.to);
    let mut part = libc::iovec {
        // sendmsg(2) only reads this memory.
        iov_base: outgoing.bytes.as_ptr().cast_mut().cast(),
        iov_len: outgoing.bytes.len(),
    };
    #[expect(unsafe_code, reason = "a C structure that is zero at first")]
    // SAFETY: all fields are integers and pointers, for which zero is a valid value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.0.as_mut_ptr().cast();
    header.msg_namelen = name_len;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.as_mut_ptr().cast();
    header.msg_controllen = control.len as _;
    loop {
        #[expect(unsafe_code, reason = "sendmsg(2) takes pointers")]
        // SAFETY: the descriptor is open because it is borrowed. Each pointer refers to a buffer
        // with the length in the same field that lives until the call returns; the kernel only
        // reads them.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Control messages for sending.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; ROOM],
    len: usize,
}

impl Control {
    const fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            len: 0,
        }
    }

    /// Writes the control messages that `outgoing` needs. For IPv4-mapped addresses, an IPv6 socket
    /// uses the messages of IPv4.
    fn write(&mut self, outgoing: &Outgoing<'_>) {
        let tos = c_int::from(outgoing.tos).to_ne_bytes();
        if outgoing.to.ip().to_canonical().is_ipv4() {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, &tos);
        } else {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &tos);
        }
        if let Some(segment) = outgoing.segment {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match outgoing.from {
            None => {}
            Some(IpAddr::V4(from)) => {
                // in_pktinfo: the interface index, the source address, and an address that isn't
                // read.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&from.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(from)) => {
                // in6_pktinfo: the source address and the interface index.
                let mut info = [0; LONGEST];
                info[..16].copy_from_slice(&from.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
    }

    fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let length = HEADER + data.len();
        let end = self.len + length.next_multiple_of(WORD);
        let Some(room) = self.bytes.get_mut(self.len..end) else {
            return;
        };
        let (head, rest) = room.split_at_mut(HEADER);
        let fields = [
            &length.to_ne_bytes()[..],
            &level.to_ne_bytes(),
            &kind.to_ne_bytes(),
        ];
        let bytes = fields.into_iter().flatten();
        head.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        rest.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        self.len = end;
    }
}

/// Room for a `sockaddr_in6`.
#[repr(C, align(8))]
struct Name([u8; 28]);

/// Returns a `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)) and its length.
fn name(address: &SocketAddr) -> (Name, libc::socklen_t) {
    let mut name = Name([0; 28]);
    let family = |family: c_int| u16::try_from(family).unwrap_or(0).to_ne_bytes();
    let port = address.port().to_be_bytes();
    let mut fill = |fields: &[&[u8]]| {
        let bytes = fields.iter().copied().flatten();
        name.0
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
    };
    let length = match address {
        SocketAddr::V4(v4) => {
            fill(&[&family(libc::AF_INET), &port, &v4.ip().octets()]);
            16
        }
        SocketAddr::V6(v6) => {
            fill(&[
                &family(libc::AF_INET6),
                &port,
                &v6.flowinfo().to_ne_bytes(),
                &v6.ip().octets(),
                &v6.scope_id().to_ne_bytes(),
            ]);
            28
        }
    };
    (name, length)
}

#[cfg(test)]
mod tests {
    use super::super::messages::Control as Read;
    use super::*;

    #[test]
    fn what_is_written_is_read_by_the_other_side() {
        for (to, from) in [
            ("192.0.2.1:5", Some("192.0.2.9")),
            ("[2001:db8::1]:5", Some("2001:db8::9")),
            ("[::ffff:192.0.2.1]:5", Some("::ffff:192.0.2.9")),
            ("192.0.2.1:5", None),
        ] {
            let mut control = Control::new();
            let from = from.map(|from| from.parse::<IpAddr>().unwrap());
            control.write(&Outgoing {
                to: to.parse().unwrap(),
                from,
                tos: 46 << 2 | 2,
                bytes: &[],
                segment: Some(1200),
            });
            let read = Read::read(&control.bytes[..control.len]);
            assert_eq!(read.tos, Some(46 << 2 | 2), "{to}");
            // Linux reports a datagram's destination in the same kind of message that sets a
            // source; only IPv4 has a different layout.
            if let Some(IpAddr::V6(_)) = from {
                assert_eq!(read.to, from);
            }
            assert!(control.len <= ROOM);
        }
    }
}
