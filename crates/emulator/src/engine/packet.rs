//! Packets in flight, and their pool.
//!
//! Because emulated applications send zeros, the pool stores a datagram without them. A packet
//! in flight thus takes about 200 bytes regardless of its size, and gigabits over long paths fit
//! into a cache. A datagram without such a run of zeros is stored completely. In both cases, the
//! receiver gets every byte back.

use std::net::{IpAddr, Ipv4Addr};

use pathmark_cc::{Answer, Arrival, Carried};
use pathmark_link::{DropCause, Owner};
use pathmark_protocols::ecn;
use pathmark_protocols::shim::{self, Identity};
use pathmark_transport::Ecn;

/// Bytes of IPv4 and UDP header in front of each datagram.
pub(crate) const IP_UDP_HEADER: u32 = 28;
/// Initial TTL of packets.
const TTL: u8 = 64;
/// Bytes stored from the front of a datagram: shim, header, and frames before the data.
const HEAD: usize = 128;
/// Bytes stored from its end: the tag.
const TAIL: usize = 16;

/// Identifies a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketId(u32);

/// A packet's properties besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    /// The endpoint that it is sent to.
    pub(super) to: u32,
    /// Number of links that it has entered.
    pub(super) hop: u16,
    /// IP ECN field.
    pub(super) ecn: Ecn,
    /// True if the ECN field carries VCP's code.
    pub(super) ecn_is_code: bool,
    /// A hash that distinguishes flows.
    pub(super) flow_hash: u32,
    /// The sending host's address.
    pub(super) source: Ipv4Addr,
}

/// A packet in the pool. Most data packets only need the first two cache lines, and thousands of
/// packets are in flight, so the fields are ordered by their use.
#[derive(Debug)]
#[repr(C, align(64))]
struct Packet {
    label: Label,
    len: u32,
    /// Bytes of `head` in use, or [`WHOLE`].
    head_len: u16,
    tail: [u8; TAIL],
    head: [u8; HEAD],
}

/// Marks a packet that is not zeros between head and tail, and is therefore stored completely
/// elsewhere.
const WHOLE: u16 = u16::MAX;

/// All packets in the network. Slots are reused, so that memory is proportional to the maximum
/// number of packets in flight.
#[derive(Debug, Default)]
pub(super) struct Pool {
    packets: Vec<Packet>,
    /// All bytes of [`WHOLE`] packets. Allocations stay with the slot.
    wholes: Vec<Vec<u8>>,
    free: Vec<u32>,
    entered: u64,
}

impl Pool {
    /// Stores a datagram.
    pub(super) fn insert(&mut self, label: Label, datagram: &[u8]) -> PacketId {
        self.entered += 1;
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.grow(label),
        };
        if let Some(packet) = self.packets.get_mut(id as usize) {
            packet.label = label;
            if !packet.keep(datagram)
                && let Some(whole) = self.wholes.get_mut(id as usize)
            {
                whole.clear();
                whole.extend_from_slice(datagram);
            }
        }
        PacketId(id)
    }

    #[cold]
    fn grow(&mut self, label: Label) -> u32 {
        let id = u32::try_from(self.packets.len()).unwrap_or(u32::MAX);
        self.packets.push(Packet {
            label,
            len: 0,
            head_len: 0,
            tail: [0; TAIL],
            head: [0; HEAD],
        });
        self.wholes.push(Vec::new());
        id
    }

    /// Number of packets that have entered the network.
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }

    /// The endpoint that a packet is sent to, and the number of links that it has entered.
    pub(super) fn heading(&self, id: PacketId) -> Option<(u32, u16)> {
        let label = &self.packets.get(id.0 as usize)?.label;
        Some((label.to, label.hop))
    }

    /// Counts one more link for a packet.
    pub(super) fn enter_link(&mut self, id: PacketId) {
        if let Some(packet) = self.packets.get_mut(id.0 as usize) {
            packet.label.hop = packet.label.hop.saturating_add(1);
        }
    }

    /// A packet's description for a port. The fields for control laws are only set if `read` is.
    pub(super) fn arrival(&self, id: PacketId, read: bool) -> Arrival {
        let Some(packet) = self.packets.get(id.0 as usize) else {
            return Arrival {
                bytes: 0,
                flow_hash: 0,
                carried: Carried::Foreign,
            };
        };
        let bytes = ip_bytes(packet.len as usize);
        let carried = match (read, packet.label.ecn_is_code) {
            (false, _) => Carried::Foreign,
            (true, true) => ecn::read(packet.label.ecn as u8),
            // Each flow counts as a separate source.
            (true, false) => shim::read(self.front(id, packet), bytes, packet),
        };
        Arrival {
            bytes,
            flow_hash: packet.label.flow_hash,
            carried,
        }
    }

    /// The front of the datagram, which may contain a shim.
    fn front<'a>(&'a self, id: PacketId, packet: &'a Packet) -> &'a [u8] {
        if packet.head_len == WHOLE {
            self.wholes.get(id.0 as usize).map_or(&[], Vec::as_slice)
        } else {
            let used = usize::from(packet.head_len);
            packet.head.get(..used).unwrap_or(&[])
        }
    }

    /// Removes a packet and writes its datagram to the front of `buffer`. The buffer must
    /// contain zeros, and should be wiped afterwards. `None` if there is no such packet or not
    /// enough room.
    pub(super) fn take(&mut self, id: PacketId, buffer: &mut [u8]) -> Option<Taken> {
        let (_, taken) = self.copy(id, buffer)?;
        self.free.push(id.0);
        Some(taken)
    }

    /// Like [`take`](Self::take), but the packet stays in the pool. Also returns the endpoint
    /// that it is sent to.
    pub(super) fn copy(&self, id: PacketId, buffer: &mut [u8]) -> Option<(u32, Taken)> {
        let packet = self.packets.get(id.0 as usize)?;
        let out = buffer.get_mut(..packet.len as usize)?;
        if packet.head_len == WHOLE {
            let whole = self.wholes.get(id.0 as usize)?;
            out.get_mut(..whole.len())?.copy_from_slice(whole);
        } else {
            packet.restore(out);
        }
        Some((packet.label.to, packet.taken()))
    }

    fn mark(&mut self, id: PacketId, answer: &Answer, router: &Identity) {
        let Some(packet) = self.packets.get_mut(id.0 as usize) else {
            return;
        };
        if packet.label.ecn_is_code {
            packet.label.ecn = Ecn::from_bits(ecn::marked(packet.label.ecn as u8, answer));
            return;
        }
        let bytes = ip_bytes(packet.len as usize);
        let front = if packet.head_len == WHOLE {
            self.wholes.get_mut(id.0 as usize).map(Vec::as_mut_slice)
        } else {
            packet.head.get_mut(..usize::from(packet.head_len))
        };
        // A host sends with the full TTL, and each node behind it subtracts one.
        let hops = u8::from(packet.label.hop > 1);
        let router = Identity { hops, ..*router };
        shim::write(front.unwrap_or(&mut []), answer, bytes, &router);
    }

    fn release(&mut self, id: PacketId) {
        self.free.push(id.0);
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Bytes of the datagram.
    pub(super) len: usize,
    /// Bytes at its front that may be nonzero.
    head: usize,
    /// IP ECN field as it arrived.
    pub(super) ecn: Ecn,
    /// IP TTL as it arrived.
    pub(super) ttl: u8,
}

impl Taken {
    /// Zeroes the datagram in `buffer` again. The bytes between head and tail are still zero,
    /// because they are application data, and opening a packet without a cipher changes no byte.
    pub(super) fn wipe(&self, buffer: &mut [u8]) {
        let tail = self.len.saturating_sub(TAIL);
        for range in [0..self.head.min(self.len), tail..self.len] {
            if let Some(part) = buffer.get_mut(range) {
                part.fill(0);
            }
        }
    }
}

impl shim::Outer for Packet {
    fn source_hash(&self) -> u32 {
        self.label.flow_hash
    }

    fn source(&self) -> Option<IpAddr> {
        Some(self.label.source.into())
    }

    /// None at a host's own port, which does not decrement the TTL.
    fn ttl(&self) -> Option<u8> {
        (self.label.hop > 1).then(|| self.taken().ttl)
    }
}

impl Packet {
    fn taken(&self) -> Taken {
        let forwarded = self.label.hop.saturating_sub(1);
        Taken {
            len: self.len as usize,
            head: if self.head_len == WHOLE {
                self.len as usize
            } else {
                usize::from(self.head_len)
            },
            ecn: self.label.ecn,
            // Hosts only send; every node in between forwards.
            ttl: TTL.saturating_sub(u8::try_from(forwarded).unwrap_or(TTL)),
        }
    }

    /// Stores a datagram without its zeros. Returns false if it must be stored completely.
    fn keep(&mut self, datagram: &[u8]) -> bool {
        self.len = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
        if let Some((body, tail)) = datagram.split_last_chunk::<TAIL>() {
            let used = used(body);
            if let (Some(to), Some(from)) = (self.head.get_mut(..used), body.get(..used)) {
                to.copy_from_slice(from);
                self.head_len = u16::try_from(used).unwrap_or(0);
                self.tail = *tail;
                return true;
            }
        }
        self.head_len = WHOLE;
        false
    }

    fn restore(&self, out: &mut [u8]) {
        if let Some((body, tail)) = out.split_last_chunk_mut::<TAIL>() {
            *tail = self.tail;
            let used = usize::from(self.head_len);
            if let (Some(to), Some(from)) = (body.get_mut(..used), self.head.get(..used)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// Length of the IP packet around a datagram.
fn ip_bytes(datagram: usize) -> u32 {
    u32::try_from(datagram)
        .unwrap_or(u32::MAX)
        .saturating_add(IP_UDP_HEADER)
}

/// Length without trailing zeros, rounded up to words of 32 bytes.
fn used(body: &[u8]) -> usize {
    let (words, rest) = body.as_chunks::<32>();
    if rest.iter().any(|byte| *byte != 0) {
        return body.len();
    }
    let mut words = words;
    // Eight words at a time, because most of a datagram is zeros.
    while let Some((front, block)) = words.split_last_chunk::<8>()
        && block.as_flattened() == [0; 256]
    {
        words = front;
    }
    let zeros = words.iter().rev().take_while(|word| **word == [0; 32]);
    (words.len() - zeros.count()) * 32
}

/// The pool as the owner of packets at a router's ports.
pub(super) struct Marking<'a> {
    /// The packets.
    pub(super) pool: &'a mut Pool,
    /// The router's identity.
    pub(super) router: &'a Identity,
}

impl Owner<PacketId> for Marking<'_> {
    fn mark(&mut self, id: &mut PacketId, answer: &Answer) {
        self.pool.mark(*id, answer, self.router);
    }

    fn ecn(&self, id: &PacketId) -> Ecn {
        let packet = self.pool.packets.get(id.0 as usize);
        let label = packet.map(|packet| packet.label);
        label
            .filter(|label| !label.ecn_is_code)
            .map_or(Ecn::NotEct, |label| label.ecn)
    }

    fn mark_ce(&mut self, id: &mut PacketId) {
        if let Some(packet) = self.pool.packets.get_mut(id.0 as usize) {
            packet.label.ecn = Ecn::Ce;
        }
    }

    fn dropped(&mut self, id: PacketId, _cause: DropCause) {
        self.pool.release(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn label(to: u32) -> Label {
        Label {
            to,
            hop: 1,
            ecn: Ecn::Ect0,
            ecn_is_code: false,
            flow_hash: 0,
            source: Ipv4Addr::UNSPECIFIED,
        }
    }

    #[test]
    fn a_datagram_of_zeros_is_kept_without_them() {
        let mut datagram = vec![0; 1472];
        datagram[..40].fill(7);
        datagram[1456..].fill(9);
        let mut pool = Pool::default();
        let id = pool.insert(label(0), &datagram);
        assert_ne!(pool.packets[0].head_len, WHOLE);
        assert_eq!(pool.arrival(id, true).bytes, 1500);
        let mut buffer = vec![0; 2000];
        assert_eq!(pool.take(id, &mut buffer).unwrap().len, 1472);
        assert_eq!(buffer[..1472], datagram);
    }

    #[test]
    fn shims_are_marked_in_place() {
        let shim = vcp_proto::Repr::initial(&pathmark_cc::Request::default(), true).emit();
        for filler in [0, 5] {
            let mut datagram = vec![filler; 1472];
            datagram[..16].copy_from_slice(&shim);
            let mut pool = Pool::default();
            let mut id = pool.insert(label(0), &datagram);
            let answer = Answer::Vcp(pathmark_cc::VcpAnswer {
                code: pathmark_cc::VcpCode::Over,
                ..pathmark_cc::VcpAnswer::default()
            });
            Marking {
                pool: &mut pool,
                router: &Identity::new(3),
            }
            .mark(&mut id, &answer);
            let Carried::Vcp(carried) = pool.arrival(id, true).carried else {
                panic!("VCP")
            };
            assert_eq!(carried.code, pathmark_cc::VcpCode::Over);
            let mut buffer = vec![0; 1472];
            pool.take(id, &mut buffer).unwrap();
            let packet = vcp_proto::Packet::parse(&buffer).unwrap();
            assert_eq!((packet.router(), packet.hops()), (3, 1));
            assert_eq!(buffer[16..], datagram[16..]);
        }
    }

    proptest! {
        /// Every inserted datagram comes out unchanged, even from slots that held something else
        /// before.
        #[test]
        fn datagrams_come_back(
            pieces in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..200), 0usize..1400), 1..6,
            )
        ) {
            let mut pool = Pool::default();
            let mut buffer = vec![0; 2000];
            for (bytes, zeros) in pieces {
                let mut datagram = bytes.clone();
                datagram.resize(bytes.len() + zeros, 0);
                datagram.extend(bytes.iter().take(16));
                let id = pool.insert(label(1), &datagram);
                let taken = pool.take(id, &mut buffer).unwrap();
                prop_assert_eq!(&buffer[..taken.len], &datagram[..]);
                taken.wipe(&mut buffer);
                prop_assert!(buffer.iter().all(|byte| *byte == 0));
            }
            prop_assert_eq!(pool.packets.len(), 1);
        }
    }
}
