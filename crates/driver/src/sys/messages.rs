//! Receiving many datagrams by one system call (recvmmsg(2)), with everything that the kernel
//! reports about them, and the error queue of a socket, with reports by ICMP and the kernel about
//! datagrams that were sent (ip(7) and ipv6(7) under `IP_RECVERR`).
//!
//! Both consist of control messages (cmsg(3)). Each has a header of length, level and type,
//! followed by data, both aligned to words. Levels, types and data are those of Linux (ip(7),
//! ipv6(7), udp(7)).

use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::{array, io, ptr};

use super::options::set;

/// Bytes of control messages per message. The options that this library sets need 176 on a socket
/// for both IP versions; the rest is for options that an application has set on its own socket.
pub(crate) const CONTROL: usize = 512;
/// Largest number of messages per call.
const BATCH: usize = 32;

/// Buffers for the messages of one call: addresses, control messages and `size` bytes of data each.
pub(crate) struct Messages {
    /// Pages that the kernel has never written are never touched, so unused buffers need no memory.
    data: Box<[MaybeUninit<u8>]>,
    size: usize,
    names: Box<[Name; BATCH]>,
    control: Box<[ControlData; BATCH]>,
    /// Bytes of each control buffer that the kernel may use.
    control_room: usize,
    /// Results of the latest call.
    received: Vec<Received>,
}

/// The result of a call for one message.
#[derive(Clone, Copy, Debug)]
struct Received {
    len: usize,
    name_len: usize,
    control_len: usize,
    flags: libc::c_int,
}

/// A message as received: one datagram, or several from one sender that were coalesced.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) control: Control,
    /// There was not enough room for all of its control messages.
    pub(crate) is_control_cut: bool,
    pub(crate) bytes: &'a mut [u8],
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name([u8; size_of::<libc::sockaddr_storage>()]);

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlData([u8; CONTROL]);

impl Messages {
    /// Creates buffers for messages of `size` bytes, each with `control_room` bytes of control
    /// messages, up to [`CONTROL`].
    pub(crate) fn new(size: usize, control_room: usize) -> Self {
        Self {
            data: Box::new_uninit_slice(BATCH * size),
            size,
            names: Box::new([Name([0; _]); BATCH]),
            control: Box::new([ControlData([0; _]); BATCH]),
            control_room: control_room.min(CONTROL),
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Receives datagrams that have arrived at a socket, without waiting.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.received.clear();
        let mut rooms = self.data.chunks_exact_mut(self.size.max(1));
        let mut parts: [libc::iovec; BATCH] = array::from_fn(|_| {
            let room = rooms.next().unwrap_or(&mut []);
            libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            }
        });
        #[expect(unsafe_code, reason = "C structures that are zero at first")]
        // SAFETY: all fields are integers and pointers, for which zero is a valid value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        let buffers = parts
            .iter_mut()
            .zip(&mut *self.names)
            .zip(&mut *self.control);
        for (header, ((part, name), control)) in headers.iter_mut().zip(buffers) {
            let header = &mut header.msg_hdr;
            header.msg_name = name.0.as_mut_ptr().cast();
            header.msg_namelen = socklen(name.0.len());
            header.msg_iov = part;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = self.control_room as _;
        }
        let count = loop {
            #[expect(unsafe_code, reason = "recvmmsg(2) takes pointers")]
            // SAFETY: the descriptor is open because it is borrowed. Each pointer refers to a
            // buffer with the length in the same entry. These buffers live in this function or in
            // `self`, which is mutably borrowed, and nothing else uses them during the call.
            let count = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    BATCH as _,
                    libc::MSG_DONTWAIT as _,
                    ptr::null_mut(),
                )
            };
            match usize::try_from(count) {
                Ok(count) => break count,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        };
        #[allow(
            clippy::unnecessary_cast,
            reason = "C libraries differ in the type of lengths"
        )]
        let received = headers.iter().take(count).map(|header| Received {
            len: header.msg_len as usize,
            name_len: header.msg_hdr.msg_namelen as usize,
            control_len: header.msg_hdr.msg_controllen as usize,
            flags: header.msg_hdr.msg_flags,
        });
        self.received.extend(received);
        Ok(())
    }

    /// Returns true if the latest call emptied the socket, because it had room for more.
    pub(crate) fn is_last(&self) -> bool {
        self.received.len() < BATCH
    }

    /// Returns how many messages of the latest call had their control messages cut off.
    pub(crate) fn cut_off(&self) -> usize {
        let is_cut = |received: &&Received| received.flags & libc::MSG_CTRUNC != 0;
        self.received.iter().filter(is_cut).count()
    }

    /// Iterates over the messages of the latest call in order of arrival, skipping those that are
    /// longer than their buffer or don't have an IP address as their source.
    pub(crate) fn iter(&mut self) -> impl Iterator<Item = Message<'_>> {
        let rooms = self.data.chunks_exact_mut(self.size.max(1));
        let buffers = rooms.zip(&*self.names).zip(&*self.control);
        self.received
            .iter()
            .zip(buffers)
            .filter_map(|(received, ((room, name), control))| {
                if received.flags & libc::MSG_TRUNC != 0 {
                    return None;
                }
                let control = control.0.get(..received.control_len)?;
                let bytes = room.get_mut(..received.len)?;
                #[expect(unsafe_code, reason = "the kernel writes into memory of the program's")]
                // SAFETY: `receive` let the kernel write `len` bytes to the beginning of this
                // buffer, and no other call has changed it since.
                let bytes = unsafe { bytes.assume_init_mut() };
                Some(Message {
                    from: address(name.0.get(..received.name_len)?)?,
                    control: Control::read(control),
                    is_control_cut: received.flags & libc::MSG_CTRUNC != 0,
                    bytes,
                })
            })
    }
}

fn socklen(length: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(length).unwrap_or(0)
}

/// Reads a `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)).
pub(super) fn address(name: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = name.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    match libc::c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let octets = rest.first_chunk::<4>()?;
            Some(SocketAddr::from((Ipv4Addr::from(*octets), port)))
        }
        libc::AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk()?;
            let (octets, rest) = rest.split_first_chunk::<16>()?;
            let scope = rest.first_chunk()?;
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(*octets),
                port,
                u32::from_ne_bytes(*flow),
                u32::from_ne_bytes(*scope),
            )))
        }
        _ => None,
    }
}

/// Bytes of a word, to which control messages are aligned.
const WORD: usize = size_of::<usize>();
/// Bytes of a control message's header.
const HEADER: usize = WORD + 2 * size_of::<c_int>();

/// The known properties of a message. A field that the kernel didn't report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// Destination address.
    pub(crate) to: Option<IpAddr>,
    /// Type of service or traffic class, whose low two bits are ECN.
    pub(crate) tos: Option<u8>,
    /// TTL or hop limit at arrival.
    pub(crate) ttl: Option<u8>,
    /// If there are several datagrams, the bytes of each except for the last.
    pub(crate) segment: Option<u16>,
}

impl Control {
    /// Reads control messages up to the end, or up to the first that is cut off. Unknown messages
    /// are skipped.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut control = Self::default();
        each(bytes, |level, kind, data| control.note(level, kind, data));
        control
    }

    fn note(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment = int(data).and_then(|size| u16::try_from(size).ok());
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => self.tos = data.first().copied(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.tos = byte(data),
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = byte(data);
            }
            // The interface index and the local address precede the address in the packet.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let address = data.get(8..).and_then(|rest| rest.first_chunk::<4>());
                self.to = address.map(|octets| Ipv4Addr::from(*octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = data.first_chunk::<16>();
                self.to = address.map(|octets| Ipv6Addr::from(*octets).into());
            }
            _ => {}
        }
    }
}

/// Calls `note` with the level, type and data of each control message up to the end, or up to the
/// first that is cut off.
pub(super) fn each(mut bytes: &[u8], mut note: impl FnMut(c_int, c_int, &[u8])) {
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from_ne_bytes(*length);
        let Some((level, kind)) = rest.split_first_chunk().and_then(|(level, rest)| {
            let (kind, _) = rest.split_first_chunk()?;
            Some((c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind)))
        }) else {
            break;
        };
        let Some(data) = bytes.get(HEADER..length) else {
            break;
        };
        note(level, kind, data);
        let Some(rest) = bytes.get(length.next_multiple_of(WORD)..) else {
            break;
        };
        bytes = rest;
    }
}

fn int(data: &[u8]) -> Option<c_int> {
    data.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes))
}

fn byte(data: &[u8]) -> Option<u8> {
    int(data).and_then(|value| u8::try_from(value).ok())
}

/// Room for a `sockaddr_in6`.
const NAME: usize = 28;
/// Room for `sock_extended_err` (16 bytes), the address of its sender, and the control messages
/// that [`prepare`](super::prepare) requests.
const ERROR_CONTROL: usize = 512;
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
    let mut control = Aligned([0; ERROR_CONTROL]);
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
    header.msg_controllen = ERROR_CONTROL as _;
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

#[cfg(test)]
mod control_tests {
    use proptest::prelude::*;

    use super::*;

    fn message((level, kind): (c_int, c_int), data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn all() -> Vec<u8> {
        let to = [0, 0, 0, 7, 10, 0, 0, 1, 192, 0, 2, 9];
        let messages = [
            message((libc::SOL_UDP, libc::UDP_GRO), &1200i32.to_ne_bytes()),
            message((libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS), &[1; 16]),
            message((libc::IPPROTO_IP, libc::IP_TTL), &63i32.to_ne_bytes()),
            message((libc::IPPROTO_IP, libc::IP_TOS), &[2]),
            message((libc::IPPROTO_IP, libc::IP_PKTINFO), &to),
        ];
        messages.concat()
    }

    const ALL: Control = Control {
        to: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9))),
        tos: Some(2),
        ttl: Some(63),
        segment: Some(1200),
    };

    #[test]
    fn messages_are_read_in_any_number() {
        assert_eq!(Control::read(&all()), ALL);
        assert_eq!(Control::read(&[]), Control::default());
        let of = |kind, data: &[u8]| message((libc::IPPROTO_IPV6, kind), data);
        let six = [
            of(libc::IPV6_PKTINFO, &[7; 20]),
            of(libc::IPV6_HOPLIMIT, &9i32.to_ne_bytes()),
            of(libc::IPV6_TCLASS, &3i32.to_ne_bytes()),
        ];
        let six = six.concat();
        let expected = Control {
            to: Some(Ipv6Addr::from([7; 16]).into()),
            tos: Some(3),
            ttl: Some(9),
            segment: None,
        };
        assert_eq!(Control::read(&six), expected);
    }

    #[test]
    fn what_is_cut_off_is_not_known() {
        let all = all();
        for cut in 0..all.len() {
            let known = Control::read(&all[..cut]);
            assert!(known.segment == ALL.segment || known.segment.is_none() && cut < 24);
            assert!(known.ttl == ALL.ttl || known.ttl.is_none());
            assert!(known.tos == ALL.tos || known.tos.is_none());
            assert!(known.to == ALL.to || known.to.is_none() && cut < all.len());
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_there_is_read_to_an_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            length in any::<usize>(),
        ) {
            Control::read(&bytes);
            let mut bytes = bytes;
            bytes.splice(..0, length.to_ne_bytes());
            Control::read(&bytes);
            Control::read(&[all(), bytes].concat());
        }
    }
}
