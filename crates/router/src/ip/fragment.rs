//! IPv4 fragmentation in transit (RFC 791 §3.2), for packets without DF that exceed the next
//! link's MTU; and reassembly of fragments for the router itself (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! A router does not reassemble packets for other hosts. Because remote hosts can create its
//! state, this state is bounded in datagrams, fragments per datagram, total bytes, and time.

use std::net::IpAddr;

use pathmark_cc::{Duration, Instant};

use crate::field::{get, put, renew_v4};

const MORE: u16 = 0x2000;
const DONT: u16 = 0x4000;
const OFFSET: u16 = 0x1FFF;

/// The reason why a packet cannot be fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFragment {
    /// DF is set.
    #[error("the packet must not be fragmented")]
    DontFragment,
    /// Not an IPv4 packet with a plausible header and length.
    #[error("not an IPv4 packet")]
    Header,
    /// The link cannot even carry a header and 8 bytes.
    #[error("the link's MTU is too small for any fragment")]
    Mtu,
}

/// The fragments of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragments<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    /// Payload bytes of each fragment except the last.
    size: usize,
    /// Flags and offset of the original packet.
    field: u16,
    next: usize,
}

impl<'a> Fragments<'a> {
    /// Prepares to fragment `packet` for a link of `mtu` bytes. Its checksums must be complete.
    ///
    /// # Errors
    /// [`BadFragment`].
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, BadFragment> {
        let &[first, _, l0, l1, _, _, f0, f1] =
            packet.first_chunk::<8>().ok_or(BadFragment::Header)?;
        let header_len = usize::from(first & 0x0F) * 4;
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let field = u16::from_be_bytes([f0, f1]);
        if first >> 4 != 4 || header_len < 20 {
            return Err(BadFragment::Header);
        }
        if field & DONT != 0 {
            return Err(BadFragment::DontFragment);
        }
        let (header, payload) = packet
            .get(..total)
            .and_then(|packet| packet.split_at_checked(header_len))
            .ok_or(BadFragment::Header)?;
        let size = mtu.saturating_sub(header_len) & !7;
        if size == 0 {
            return Err(BadFragment::Mtu);
        }
        Ok(Self {
            header,
            payload,
            size,
            field,
            next: 0,
        })
    }

    /// Writes the next fragment to the front of `out` and returns its length. Returns `None`
    /// after the last one, or if `out` is too short.
    pub fn next_into(&mut self, out: &mut [u8]) -> Option<usize> {
        let start = self.next;
        if start >= self.payload.len() {
            return None;
        }
        let end = (start + self.size).min(self.payload.len());
        let body = self.payload.get(start..end)?;
        let len = self.header.len() + body.len();
        let out = out.get_mut(..len)?;
        let (header, rest) = out.split_at_mut_checked(self.header.len())?;
        header.copy_from_slice(self.header);
        rest.copy_from_slice(body);
        if start > 0 {
            keep_copied_options(header);
        }
        let more = if end < self.payload.len() {
            MORE
        } else {
            self.field & MORE
        };
        let offset = (self.field & OFFSET).wrapping_add(u16::try_from(start / 8).ok()?);
        put(header, 2, u16::try_from(len).ok()?);
        put(header, 6, more | offset & OFFSET);
        renew_v4(header);
        self.next = end;
        Some(len)
    }
}

/// Keeps only options with the "copied" flag, which later fragments must repeat. The others
/// become no-operations, so that the header's length stays the same.
fn keep_copied_options(header: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    let mut at = 20;
    while let Some(&kind) = header.get(at) {
        let length = match kind {
            END => return,
            NO_OPERATION => 1,
            _ => header.get(at + 1).map_or(0, |l| usize::from(*l)),
        };
        let Some(option) = header.get_mut(at..at + length).filter(|o| !o.is_empty()) else {
            return;
        };
        if kind & 0x80 == 0 {
            option.fill(NO_OPERATION);
        }
        at += length;
    }
}

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
#[path = "fragment_tests.rs"]
mod tests;
