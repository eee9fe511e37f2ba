//! Packets for captures at the far end of a link: the datagram's bytes with IPv4 and UDP
//! headers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::packet::{IP_UDP_HEADER, Taken};

const HEADER: usize = IP_UDP_HEADER as usize;
const PROTOCOL_UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;

/// A buffer for assembling packets.
#[derive(Debug)]
pub(super) struct Frame(Box<[u8]>);

impl Frame {
    /// Creates a buffer for packets of `packet` bytes, including headers.
    pub(super) fn new(packet: usize) -> Self {
        Self(vec![0; packet.max(HEADER)].into_boxed_slice())
    }

    /// The place for the datagram, zeroed.
    pub(super) fn datagram(&mut self) -> &mut [u8] {
        self.0.fill(0);
        self.0.get_mut(HEADER..).unwrap_or(&mut [])
    }

    /// The packet with the datagram that was written here.
    pub(super) fn packet(&mut self, taken: Taken, from: SocketAddr, to: SocketAddr) -> &[u8] {
        let udp_len = u16::try_from(taken.len + 8).unwrap_or(u16::MAX);
        let ip_len = u16::try_from(taken.len + HEADER).unwrap_or(u16::MAX);
        let mut ip = [0u8; 20];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(to) = ip.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        // RFC 791: version 4, five words.
        put(0, &[0x45, taken.ecn as u8]);
        put(2, &ip_len.to_be_bytes());
        put(6, &DONT_FRAGMENT.to_be_bytes());
        put(8, &[taken.ttl, PROTOCOL_UDP]);
        put(12, &v4(from).octets());
        put(16, &v4(to).octets());
        let sum = checksum(&ip).to_be_bytes();
        if let Some(to) = ip.get_mut(10..12) {
            to.copy_from_slice(&sum);
        }
        // RFC 768; a checksum of 0 means that there is none.
        let mut udp = [0u8; 8];
        let words = [from.port(), to.port(), udp_len, 0];
        for (to, word) in udp.chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        if let Some((front, rest)) = self.0.split_first_chunk_mut::<20>() {
            *front = ip;
            if let Some(front) = rest.first_chunk_mut::<8>() {
                *front = udp;
            }
        }
        self.0.get(..usize::from(ip_len)).unwrap_or(&[])
    }
}

fn v4(address: SocketAddr) -> Ipv4Addr {
    match address.ip() {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// RFC 1071, over a header whose checksum is 0.
fn checksum(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}
