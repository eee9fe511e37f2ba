//! Carries packets from an endpoint to its first link, from link to link, and to the other
//! endpoint, and assembles those that are captured.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pathmark_cc::Instant;

use super::packet::{IP_UDP_HEADER, Label, PacketId, Taken};
use super::{Engine, RunError};
use crate::observe::Observer;

impl Engine {
    /// Passes a packet that has left a link to the observer.
    #[cold]
    pub(super) fn capture(&mut self, link: u32, packet: PacketId, observer: &mut dyn Observer) {
        let Some((to, taken)) = self.pool.copy(packet, self.captured.datagram()) else {
            return;
        };
        if let Some(endpoint) = self.endpoints.get(to as usize) {
            let (from, to) = endpoint.addresses();
            let packet = self.captured.packet(taken, from, to);
            observer.packet(
                &self.scenario,
                link as usize,
                self.now - Instant::ZERO,
                packet,
            );
        }
    }

    /// Hands a packet to the next link on its way, or to its endpoint.
    pub(super) fn forward(&mut self, packet: PacketId) -> Result<(), RunError> {
        let Some((to, hop)) = self.pool.heading(packet) else {
            return Ok(());
        };
        let way = self.ways.get(to as usize).map_or(&[][..], Vec::as_slice);
        let next = way.get(usize::from(hop)).copied();
        if !self.stalls.is_empty()
            && let Some(node) = self.place(to, next)
            && self.stalls.hold(self.now, node, packet)
        {
            return Ok(());
        }
        let Some(index) = next else {
            return self.deliver(to, packet);
        };
        if let Some(link) = self.links.get_mut(index as usize) {
            self.pool.enter_link(packet);
            link.arrive(self.now, packet, &mut self.pool);
            self.note_link(index);
        }
        Ok(())
    }

    /// The node that holds a packet for `to` before link `next`.
    fn place(&self, to: u32, next: Option<u32>) -> Option<usize> {
        match next {
            Some(link) => Some(self.scenario.links.get(link as usize)?.from),
            None => self.home(to),
        }
    }

    /// The node of an endpoint. `None`: it is a router that measures a cloud.
    pub(super) fn home(&self, endpoint: u32) -> Option<usize> {
        let flow = self.scenario.flows.get(endpoint as usize / 2)?;
        Some(if endpoint.is_multiple_of(2) {
            flow.from
        } else {
            flow.to
        })
    }

    /// Resumes nodes whose stalls have ended, with the packets that arrived meanwhile.
    pub(super) fn end_stalls(&mut self) -> Result<(), RunError> {
        while let Some(held) = self.stalls.poll(self.now) {
            for packet in held {
                self.forward(packet)?;
            }
            self.answer();
        }
        Ok(())
    }

    /// Lets endpoints that received datagrams react.
    pub(super) fn answer(&mut self) {
        while let Some(endpoint) = self.touched.pop() {
            if let Some(end) = self.endpoints.get_mut(endpoint as usize) {
                end.react(self.now);
            }
            self.flush(endpoint);
        }
    }

    fn deliver(&mut self, to: u32, packet: PacketId) -> Result<(), RunError> {
        let Some(taken) = self.pool.take(packet, &mut self.incoming) else {
            return Ok(());
        };
        let Some(datagram) = self.incoming.get_mut(..taken.len) else {
            return Ok(());
        };
        let Some(endpoint) = self.endpoints.get_mut(to as usize) else {
            self.edges.deliver(self.now, to, datagram, &self.links);
            taken.wipe(datagram);
            self.note_clouds();
            return Ok(());
        };
        let handled = endpoint.handle_datagram(self.now, taken, datagram);
        taken.wipe(datagram);
        handled.map_err(|source| self.connect_error(to, source))?;
        if !self.touched.contains(&to) {
            self.touched.push(to);
        }
        Ok(())
    }

    /// Sends an endpoint's pending packets, and updates its deadline.
    pub(super) fn flush(&mut self, index: u32) {
        let Some(label) = self.labels.get(index as usize).copied() else {
            return;
        };
        let mut shared = None;
        while let Some(endpoint) = self.endpoints.get_mut(index as usize)
            && let Some(transmit) = endpoint.poll_transmit(self.now, &mut self.outgoing)
        {
            let label = Label {
                flow_hash: endpoint.flow_hash(self.now, label.flow_hash),
                ..label
            };
            let batch = self.outgoing.get(..transmit.len).unwrap_or(&[]);
            for datagram in batch.chunks(transmit.segment_size.max(1)) {
                let label = Label {
                    ecn: transmit.ecn,
                    hop: 1,
                    ..label
                };
                let packet = self.pool.insert(label, datagram);
                let way = self.ways.get(label.to as usize);
                if let Some(&first) = way.and_then(|way| way.first())
                    && let Some(link) = self.links.get_mut(first as usize)
                {
                    link.arrive(self.now, packet, &mut self.pool);
                    self.agenda.set(first + 1, link.deadline());
                    shared = link.medium();
                }
            }
        }
        if let Some(medium) = shared {
            self.note_medium(medium);
        }
        if let Some(endpoint) = self.endpoints.get_mut(index as usize) {
            endpoint.settle(self.now);
        }
        self.note_finished(index);
        self.note_endpoint(index);
    }
}

const HEADER: usize = IP_UDP_HEADER as usize;
const PROTOCOL_UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;

/// A buffer for assembling packets for captures at the far end of a link: the datagram's bytes
/// with IPv4 and UDP headers.
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
