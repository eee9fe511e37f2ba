//! Reassembly of fragments for the router itself (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! A router does not reassemble packets for other hosts. Because remote hosts can create its
//! state, this state is bounded in datagrams, fragments per datagram, total bytes, and time.

use std::net::IpAddr;

use pathmark_cc::{Duration, Instant};

use crate::field::{get, put};

/// Maximum number of incomplete datagrams.
const DATAGRAMS: usize = 16;
/// Maximum number of fragments per datagram.
const PIECES: usize = 64;
/// Maximum bytes of all datagrams together.
const BYTES: usize = 256 * 1024;
/// Maximum time that a datagram may stay incomplete.
const PATIENCE: Duration = Duration::from_secs(15);
/// Largest IP packet.
const LARGEST: usize = 65_535;

/// A fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece<'a> {
    key: Key,
    /// The header in front of the fragment data, as it will precede the reassembled packet.
    header: &'a [u8],
    offset: usize,
    more: bool,
    body: &'a [u8],
    /// Offset of an IPv6 header's field that names the next header.
    next_at: usize,
}

/// Fields that all fragments of a datagram share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    from: IpAddr,
    to: IpAddr,
    id: u32,
    protocol: u8,
}

#[derive(Debug)]
struct Incomplete {
    key: Key,
    since: Instant,
    header: Vec<u8>,
    data: Vec<u8>,
    /// Start and end of each received fragment, in order.
    known: Vec<(usize, usize)>,
    end: Option<usize>,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub struct Reassembly {
    incomplete: Vec<Incomplete>,
}

impl Reassembly {
    /// Adds a fragment. If this completes a packet, returns it with a header as if it had never
    /// been fragmented.
    pub fn insert(&mut self, now: Instant, packet: &[u8]) -> Option<Vec<u8>> {
        self.incomplete
            .retain(|datagram| now.saturating_since(datagram.since) < PATIENCE);
        let piece = piece(packet)?;
        let found = self.incomplete.iter().position(|d| d.key == piece.key);
        let index = found.unwrap_or_else(|| {
            if self.incomplete.len() >= DATAGRAMS {
                self.incomplete.remove(0);
            }
            self.incomplete.push(Incomplete {
                key: piece.key,
                since: now,
                header: Vec::new(),
                data: Vec::new(),
                known: Vec::new(),
                end: None,
            });
            self.incomplete.len() - 1
        });
        let fits = self.incomplete.get_mut(index)?.add(&piece);
        if fits.is_none() {
            // Contradictory fragments discard the whole datagram (RFC 5722).
            self.incomplete.remove(index);
            return None;
        }
        if self.incomplete.get(index)?.is_complete() {
            return self.incomplete.remove(index).finish(piece.key.from);
        }
        while self.held() > BYTES {
            self.incomplete.remove(0);
        }
        None
    }

    /// Returns the bytes in memory.
    pub fn held(&self) -> usize {
        let sizes = self.incomplete.iter();
        sizes.map(|d| d.data.len() + d.header.len()).sum()
    }
}

impl Incomplete {
    /// Adds a fragment; `None` if it contradicts earlier ones.
    fn add(&mut self, piece: &Piece<'_>) -> Option<()> {
        let (start, end) = (piece.offset, piece.offset + piece.body.len());
        let whole_units = piece.body.len().is_multiple_of(8);
        if end + piece.header.len() > LARGEST || (piece.more && !whole_units) {
            return None;
        }
        if self.known.contains(&(start, end)) {
            // A duplicate, which networks may deliver.
            return (self.data.get(start..end)? == piece.body).then_some(());
        }
        let overlaps = self.known.iter().any(|(a, b)| start < *b && *a < end);
        if overlaps || piece.body.is_empty() || self.known.len() >= PIECES {
            return None;
        }
        if !piece.more && self.end.replace(end).is_some() {
            return None;
        }
        if self.end.is_some_and(|last| end > last)
            || self.end.is_some_and(|last| self.data.len() > last)
        {
            return None;
        }
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data.get_mut(start..end)?.copy_from_slice(piece.body);
        let at = self.known.partition_point(|(known, _)| *known < start);
        self.known.insert(at, (start, end));
        if start == 0 {
            self.header = piece.header.to_vec();
            if let Some(next) = self.header.get_mut(piece.next_at)
                && piece.key.from.is_ipv6()
            {
                *next = piece.key.protocol;
            }
        }
        Some(())
    }

    fn is_complete(&self) -> bool {
        let bytes: usize = self.known.iter().map(|(start, end)| end - start).sum();
        self.end == Some(bytes)
    }

    /// The packet. Its IPv4 checksum is not updated, because no later step checks it.
    fn finish(mut self, from: IpAddr) -> Option<Vec<u8>> {
        let total = self.header.len() + self.data.len();
        match from {
            IpAddr::V4(_) => {
                put(&mut self.header, 2, u16::try_from(total).ok()?);
                put(&mut self.header, 6, 0);
            }
            IpAddr::V6(_) => put(&mut self.header, 4, u16::try_from(total - 40).ok()?),
        }
        self.header.append(&mut self.data);
        Some(self.header)
    }
}

/// Parses a fragment; `None` if the packet is not one.
fn piece(packet: &[u8]) -> Option<Piece<'_>> {
    match packet.first()? >> 4 {
        4 => piece_v4(packet),
        6 => piece_v6(packet),
        _ => None,
    }
}

fn piece_v4(packet: &[u8]) -> Option<Piece<'_>> {
    let words = usize::from(packet.first()? & 0x0F);
    let total = usize::from(get(packet, 2)?);
    let (header, body) = packet.get(..total)?.split_at_checked(words * 4)?;
    let field = get(header, 6)?;
    let offset = usize::from(field & 0x1FFF) * 8;
    let more = field & 0x2000 != 0;
    (more || offset > 0).then_some(Piece {
        key: Key {
            from: IpAddr::from(*header.get(12..)?.first_chunk::<4>()?),
            to: IpAddr::from(*header.get(16..)?.first_chunk::<4>()?),
            id: get(header, 4)?.into(),
            protocol: *header.get(9)?,
        },
        header,
        offset,
        more,
        body,
        next_at: 9,
    })
}

fn piece_v6(packet: &[u8]) -> Option<Piece<'_>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let total = 40 + usize::from(get(packet, 4)?);
    let packet = packet.get(..total)?;
    let (mut at, mut next_at) = (40, 6);
    let mut next = *packet.get(next_at)?;
    while matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
        next_at = at;
        let len = 8 + 8 * usize::from(*packet.get(at + 1)?);
        next = *packet.get(at)?;
        at += len;
    }
    if next != FRAGMENT {
        return None;
    }
    let fragment = packet.get(at..)?.first_chunk::<8>()?;
    let field = get(fragment, 2)?;
    let [.., a, b, c, d] = *fragment;
    Some(Piece {
        key: Key {
            from: IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?),
            to: IpAddr::from(*packet.get(24..)?.first_chunk::<16>()?),
            id: u32::from_be_bytes([a, b, c, d]),
            protocol: *fragment.first()?,
        },
        header: packet.get(..at)?,
        offset: usize::from(field & 0xFFF8),
        more: field & 1 != 0,
        body: packet.get(at + 8..)?,
        next_at,
    })
}

/// Fragments an IPv6 packet of this router for a link of `mtu` bytes, passing each fragment to
/// `send`. The packet must not have extension headers.
pub fn cut_v6(packet: &[u8], mtu: usize, id: u32, mut send: impl FnMut(&[u8])) {
    const FRAGMENT: u8 = 44;
    let Some((header, body)) = packet.split_first_chunk::<40>() else {
        return;
    };
    let size = mtu.saturating_sub(48) & !7;
    if size == 0 {
        return;
    }
    let last = body.len().div_ceil(size).saturating_sub(1);
    for (index, part) in body.chunks(size).enumerate() {
        let mut piece = header.to_vec();
        let protocol = piece.get(6).copied().unwrap_or(0);
        if let Some(next) = piece.get_mut(6) {
            *next = FRAGMENT;
        }
        let len = u16::try_from(8 + part.len()).unwrap_or(0);
        put(&mut piece, 4, len);
        let offset = u16::try_from(index * size).unwrap_or(0);
        let [high, low] = (offset | u16::from(index < last)).to_be_bytes();
        piece.extend([protocol, 0, high, low]);
        piece.extend(id.to_be_bytes());
        piece.extend(part);
        send(&piece);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ip::Fragments;

    fn v4(len: usize) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 1, 2, 0, 0, 64, 1, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend((0..len).map(|i| (i % 251) as u8));
        put(&mut bytes, 2, (20 + len) as u16);
        bytes
    }

    fn pieces_v4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut fragments = Fragments::new(packet, mtu).unwrap();
        let mut out = [0; 2_000];
        std::iter::from_fn(|| fragments.next_into(&mut out).map(|len| out[..len].to_vec()))
            .collect()
    }

    fn v6(len: usize) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 58, 64];
        bytes.extend([0xFD; 32]);
        bytes.extend((0..len).map(|i| (i % 251) as u8));
        put(&mut bytes, 4, len as u16);
        bytes
    }

    proptest! {
        /// In any order, and with duplicates, the last new fragment completes the packet.
        #[test]
        fn pieces_make_the_packet(
            len in 1_400usize..20_000,
            mtu in 600usize..1_400,
            sixth: bool,
            order in prop::collection::vec(any::<u32>(), 100),
        ) {
            let packet = if sixth { v6(len) } else { v4(len) };
            let mut pieces = Vec::new();
            if sixth {
                cut_v6(&packet, mtu, 7, |piece| pieces.push(piece.to_vec()));
            } else {
                pieces = pieces_v4(&packet, mtu);
            }
            prop_assert!(pieces.iter().all(|piece| piece.len() <= mtu));
            let mut places: Vec<_> = (0..pieces.len()).collect();
            places.sort_by_key(|place| order[*place % order.len()]);
            let mut reassembly = Reassembly::default();
            let (last, others) = places.split_last().unwrap();
            for place in others.iter().chain(others) {
                prop_assert_eq!(reassembly.insert(Instant::ZERO, &pieces[*place]), None);
            }
            let whole = reassembly.insert(Instant::ZERO, &pieces[*last]).unwrap();
            let from = if sixth { 0 } else { 20 };
            prop_assert_eq!(&whole[from..], &packet[from..]);
            prop_assert_eq!(&whole[..4], &packet[..4]);
            prop_assert_eq!(reassembly.held(), 0);
        }

        /// Whatever arrives, the state stays within its bounds.
        #[test]
        fn any_pieces_are_bounded(
            inputs in prop::collection::vec(
                (any::<u16>(), 0u16..0x2000, any::<bool>(), 0usize..1_480), 0..400,
            ),
        ) {
            let mut reassembly = Reassembly::default();
            for (id, offset, more, len) in inputs {
                let mut packet = v4(len);
                put(&mut packet, 4, id % 40);
                put(&mut packet, 6, offset | if more { 0x2000 } else { 0 });
                let _ = reassembly.insert(Instant::ZERO, &packet);
                prop_assert!(reassembly.held() <= BYTES);
                prop_assert!(reassembly.incomplete.len() <= DATAGRAMS);
                prop_assert!(reassembly.incomplete.iter().all(|d| d.known.len() <= PIECES));
            }
        }
    }

    #[test]
    fn pieces_that_contradict_each_other_make_nothing() {
        let packet = v4(4_000);
        let pieces = pieces_v4(&packet, 1_500);
        let mut reassembly = Reassembly::default();
        for piece in &pieces[..2] {
            assert_eq!(reassembly.insert(Instant::ZERO, piece), None);
        }
        // Overlaps an earlier fragment.
        let mut liar = pieces[1].clone();
        put(&mut liar, 6, 0x2000 | 10);
        assert_eq!(reassembly.insert(Instant::ZERO, &liar), None);
        assert_eq!(reassembly.held(), 0, "all of it is forgotten");
        assert_eq!(reassembly.insert(Instant::ZERO, &pieces[2]), None);
        // Incomplete datagrams expire.
        assert!(reassembly.held() > 0);
        let late = Instant::ZERO + PATIENCE;
        assert_eq!(reassembly.insert(late, &v4(10)), None);
        assert_eq!(reassembly.held(), 0);
    }
}
