//! Control messages (cmsg(3)), in which the kernel reports the properties of a datagram. Each has a
//! header of length, level and type, followed by data, both aligned to words. Levels, types and
//! data are those of Linux (ip(7), ipv6(7), udp(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::c_int;

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

#[cfg(test)]
mod tests {
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
