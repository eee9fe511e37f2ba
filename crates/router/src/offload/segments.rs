//! Cuts a super-packet into its packets, and coalesces consecutive packets of a flow into a
//! super-packet (GRO).

use std::ops::Range;

use pathmark_shim::checksum::Sum;
use pathmark_shim::ip::{Fragment, Layout, Version, protocol};

use super::{Gso, GsoKind, Offload, Partial};
use crate::field::{get, put_low, renew_v4};

const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
/// FIN and PSH, which only the last segment carries.
const TCP_LAST_FLAGS: u8 = 0x09;
/// CWR, which only the first segment carries.
const TCP_FIRST_FLAGS: u8 = 0x80;
const TCP_FLAGS_AT: usize = 13;
const TCP_CHECKSUM_AT: u16 = 16;
const UDP_CHECKSUM_AT: u16 = 6;

/// A super-packet that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSuper {
    /// Its protocol differs from that in its virtio-net header, or it is a fragment.
    #[error("a super-packet of another kind than its virtio-net header says")]
    Kind,
    /// Its headers have impossible lengths.
    #[error("a super-packet with impossible headers")]
    Header,
}

/// A super-packet whose headers were checked, ready to be cut.
#[derive(Clone, Copy, Debug)]
pub struct Super {
    layout: Layout,
    gso: Gso,
    /// Offset of the payload.
    header: usize,
    checksum_at: u16,
    /// Pseudo-header sums of a full segment and of the last one.
    sums: (u16, u16),
}

impl Super {
    /// Checks the headers of a super-packet.
    ///
    /// # Errors
    /// [`BadSuper`].
    pub fn new(bytes: &[u8], layout: &Layout, gso: Gso) -> Result<Self, BadSuper> {
        let wanted = match gso.kind {
            GsoKind::TcpV4 => layout.version() == Version::V4 && layout.protocol() == protocol::TCP,
            GsoKind::TcpV6 => layout.version() == Version::V6 && layout.protocol() == protocol::TCP,
            GsoKind::Udp => layout.protocol() == protocol::UDP,
        };
        if !wanted || layout.fragment() != Fragment::Whole || gso.size == 0 {
            return Err(BadSuper::Kind);
        }
        let upper = layout.upper(bytes);
        let (own, checksum_at) = if gso.kind == GsoKind::Udp {
            (UDP_HEADER, UDP_CHECKSUM_AT)
        } else {
            let words = upper.get(12).map_or(0, |byte| byte >> 4);
            (usize::from(words) * 4, TCP_CHECKSUM_AT)
        };
        let least = if gso.kind == GsoKind::Udp {
            UDP_HEADER
        } else {
            TCP_HEADER
        };
        if own < least || upper.len() < own {
            return Err(BadSuper::Header);
        }
        let mut this = Self {
            layout: *layout,
            gso,
            header: layout.upper_offset() + own,
            checksum_at,
            sums: (0, 0),
        };
        let sum = |payload: usize| {
            let length = u32::try_from(own + payload).unwrap_or(u32::MAX);
            layout.pseudo_header(bytes, length).fold()
        };
        this.sums = (sum(usize::from(gso.size)), sum(this.last_payload()));
        Ok(this)
    }

    /// Number of packets in it, at least 1.
    pub fn segments(&self) -> usize {
        self.payload().div_ceil(usize::from(self.gso.size)).max(1)
    }

    /// Length of the largest packet, in bytes.
    pub fn largest(&self) -> usize {
        self.header + self.payload().min(usize::from(self.gso.size))
    }

    /// Total bytes of all packets.
    pub fn total(&self) -> usize {
        self.segments() * self.header + self.payload()
    }

    fn payload(&self) -> usize {
        self.layout.len() - self.header
    }

    fn last_payload(&self) -> usize {
        self.payload() - (self.segments() - 1) * usize::from(self.gso.size)
    }

    /// Returns the UDP or TCP payload of packet `index`.
    pub fn segment_payload<'b>(&self, bytes: &'b [u8], index: usize) -> &'b [u8] {
        let size = usize::from(self.gso.size);
        let rest = self
            .header
            .checked_add(index.saturating_mul(size))
            .and_then(|start| bytes.get(start..self.layout.len()))
            .unwrap_or(&[]);
        rest.get(..size).unwrap_or(rest)
    }

    /// Returns true if it consists of UDP datagrams.
    pub const fn is_udp(&self) -> bool {
        matches!(self.gso.kind, GsoKind::Udp)
    }

    /// Length of packet `index`, in bytes.
    pub fn segment_len(&self, index: usize) -> usize {
        self.header
            + if index + 1 < self.segments() {
                usize::from(self.gso.size)
            } else {
                self.last_payload()
            }
    }

    /// Writes packet `index` of the super-packet `bytes` to the front of `out`. Returns its
    /// length and its offload: the checksum is still partial. `None` if there is no such packet
    /// or `out` is too short.
    pub fn segment(&self, bytes: &[u8], index: usize, out: &mut [u8]) -> Option<(usize, Offload)> {
        let last = self.segments() - 1;
        if index > last {
            return None;
        }
        let size = usize::from(self.gso.size);
        let len = self.segment_len(index);
        let from = self.header + index * size;
        let payload = bytes.get(from..from + len - self.header)?;
        let out = out.get_mut(..len)?;
        let (header, body) = out.split_at_mut_checked(self.header)?;
        header.copy_from_slice(bytes.get(..self.header)?);
        body.copy_from_slice(payload);
        self.fix_ip(header, index, len);
        let upper = header.get_mut(self.layout.upper_offset()..)?;
        if self.gso.kind == GsoKind::Udp {
            put_low(upper, 4, len - self.layout.upper_offset());
        } else {
            fix_tcp(upper, index * size, index == 0, index == last)?;
        }
        let sum = if index == last {
            self.sums.1
        } else {
            self.sums.0
        };
        put_low(upper, usize::from(self.checksum_at), usize::from(sum));
        let start = u16::try_from(self.layout.upper_offset()).ok()?;
        let checksum = Some(Partial {
            start,
            offset: self.checksum_at,
        });
        Some((
            len,
            Offload {
                checksum,
                gso: None,
            },
        ))
    }

    fn fix_ip(&self, header: &mut [u8], index: usize, len: usize) {
        match self.layout.version() {
            Version::V6 => put_low(header, 4, len - 40),
            Version::V4 => {
                put_low(header, 2, len);
                // Consecutive, as in segmentation by a network card.
                let first = get(header, 4).map_or(0, usize::from);
                put_low(header, 4, first.wrapping_add(index));
                renew_v4(header);
            }
        }
    }
}

fn fix_tcp(tcp: &mut [u8], offset: usize, first: bool, last: bool) -> Option<()> {
    let sequence = tcp.get_mut(4..)?.first_chunk_mut::<4>()?;
    let offset = u32::try_from(offset).ok()?;
    *sequence = u32::from_be_bytes(*sequence)
        .wrapping_add(offset)
        .to_be_bytes();
    let flags = tcp.get_mut(TCP_FLAGS_AT)?;
    if !last {
        *flags &= !TCP_LAST_FLAGS;
    }
    if !first {
        *flags &= !TCP_FIRST_FLAGS;
    }
    Some(())
}

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// Flags of a TCP segment that can be coalesced: ACK, and PSH, which ends the super-packet.
const TCP_ACK: u8 = 0x10;
const TCP_PSH: u8 = 0x08;
/// Maximum length of a super-packet: an IPv4 total length, or an IPv6 payload length plus its
/// header.
const MAX_SUPER: usize = 65_535;
/// Maximum packets per super-packet, which also bounds the slices of one vectored write.
const MAX_SEGMENTS: usize = 64;
/// Maximum header length: IPv6, and TCP with all its options.
const MAX_HEADER: usize = 100;

/// Collects packets that can leave as one super-packet. Their headers differ only in fields that
/// segmentation changes, and their payload sizes are equal, except that the last may be shorter.
/// All their checksums must be partial, so that no complete checksum is replaced.
#[derive(Debug)]
pub struct Coalescer {
    first: Header,
    /// Header of the super-packet.
    bytes: [u8; MAX_HEADER],
    /// Payload bytes of the first packet.
    size: usize,
    payload: usize,
    segments: usize,
    offload: Offload,
    /// TCP: the last segment carries PSH.
    push: bool,
    closed: bool,
}

/// Header offsets of a packet that can be coalesced.
#[derive(Clone, Copy, Debug)]
struct Header {
    kind: GsoKind,
    /// Start of TCP or UDP.
    upper: usize,
    /// Start of the payload.
    len: usize,
}

impl Header {
    /// Returns `None` if the packet cannot be coalesced.
    fn find(bytes: &[u8], offload: Offload) -> Option<Self> {
        let partial = offload.checksum?;
        if offload.gso.is_some() {
            return None;
        }
        let (upper, protocol) = match bytes {
            // No options, and not a fragment: flags other than DF, and the offset, are zero.
            [0x45, _, _, _, _, _, f0, 0, _, protocol, ..] if f0 & 0xBF == 0 => (20, *protocol),
            [first, _, _, _, _, _, next, ..] if first >> 4 == 6 => (40, *next),
            _ => return None,
        };
        if usize::from(partial.start) != upper {
            return None;
        }
        let (kind, len) = match protocol {
            PROTOCOL_UDP if partial.offset == 6 => (GsoKind::Udp, upper + 8),
            PROTOCOL_TCP if partial.offset == 16 => {
                let words = usize::from(bytes.get(upper + 12)? >> 4);
                let flags = bytes.get(upper + 13)?;
                if flags & !TCP_PSH != TCP_ACK {
                    return None;
                }
                let kind = if upper == 20 {
                    GsoKind::TcpV4
                } else {
                    GsoKind::TcpV6
                };
                (kind, upper + words.max(5) * 4)
            }
            _ => return None,
        };
        (bytes.len() > len && len <= MAX_HEADER).then_some(Self { kind, upper, len })
    }
}

impl Coalescer {
    /// Starts with a packet, or returns `None` if it cannot be coalesced.
    pub fn start(bytes: &[u8], offload: Offload) -> Option<Self> {
        let first = Header::find(bytes, offload)?;
        let size = bytes.len() - first.len;
        let mut header = [0; MAX_HEADER];
        header
            .get_mut(..first.len)?
            .copy_from_slice(bytes.get(..first.len)?);
        let push = first.kind != GsoKind::Udp && bytes.get(first.upper + 13)? & TCP_PSH != 0;
        Some(Self {
            first,
            bytes: header,
            size,
            payload: size,
            segments: 1,
            offload,
            push,
            closed: push,
        })
    }

    /// Appends the next packet if it continues the last one; otherwise returns false.
    pub fn append(&mut self, bytes: &[u8], offload: Offload) -> bool {
        if self.closed || self.segments == MAX_SEGMENTS || offload != self.offload {
            return false;
        }
        let len = self.first.len;
        let Some(payload) = bytes
            .len()
            .checked_sub(len)
            .filter(|p| (1..=self.size).contains(p))
        else {
            return false;
        };
        if len + self.payload + payload > MAX_SUPER {
            return false;
        }
        let (Some(mine), Some(theirs)) = (self.bytes.get(..len), bytes.get(..len)) else {
            return false;
        };
        if !self.continues(mine, theirs) {
            return false;
        }
        if self.first.kind != GsoKind::Udp {
            self.push = theirs
                .get(self.first.upper + 13)
                .is_some_and(|f| f & TCP_PSH != 0);
        }
        self.closed = payload < self.size || self.push;
        self.payload += payload;
        self.segments += 1;
        true
    }

    /// Whether segmenting a super-packet with header `first` would produce header `next` here.
    fn continues(&self, first: &[u8], next: &[u8]) -> bool {
        let Header { kind, upper, .. } = self.first;
        let (Some((ip, rest)), Some((next_ip, next_rest))) =
            (first.split_at_checked(upper), next.split_at_checked(upper))
        else {
            return false;
        };
        let same = |at: Range<usize>| ip.get(at.clone()) == next_ip.get(at);
        let same_ip = match upper {
            // Compares version, type of service, flags, TTL, protocol and addresses, but not
            // length and checksum. The identification increases by 1 per packet. It is compared
            // only without DF (RFC 6864).
            20 => {
                let id = get(ip, 4).map(|first| first.wrapping_add(self.segments as u16));
                let has_df = ip.get(6).is_some_and(|flags| flags & 0x40 != 0);
                let continues = has_df || id == get(next_ip, 4);
                same(0..2) && same(6..10) && same(12..20) && continues
            }
            // All fields except the payload length.
            _ => same(0..4) && same(6..40),
        };
        if !same_ip {
            return false;
        }
        if kind == GsoKind::Udp {
            // Ports only, because length and checksum differ.
            return rest.get(..4) == next_rest.get(..4);
        }
        let same = |at: Range<usize>| rest.get(at.clone()) == next_rest.get(at);
        let sequence = |tcp: &[u8]| Some(u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?));
        let expected = sequence(rest).map(|first| first.wrapping_add(self.payload as u32));
        let flags = |tcp: &[u8]| tcp.get(13).map(|flags| flags | TCP_PSH);
        // Everything except the checksum.
        same(0..4)
            && expected == sequence(next_rest)
            && same(8..13)
            && flags(rest) == flags(next_rest)
            && same(14..16)
            && same(18..rest.len())
    }

    /// Returns the kind of the super-packet.
    pub fn kind(&self) -> GsoKind {
        self.first.kind
    }

    /// Number of packets so far.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Length of the header in front of each packet's payload.
    pub fn header_len(&self) -> usize {
        self.first.len
    }

    /// Returns the super-packet's header, which the payloads of all packets should follow, and
    /// its offloads. `None` for a single packet, which leaves unchanged.
    pub fn finish(&mut self) -> Option<(&[u8], Offload)> {
        if self.segments < 2 {
            return None;
        }
        let Header { kind, upper, len } = self.first;
        let total = len + self.payload;
        let header = self.bytes.get_mut(..len)?;
        let upper_len = total - upper;
        if upper == 20 {
            put_low(header, 2, total);
            renew_v4(header);
        } else {
            put_low(header, 4, total - 40);
        }
        let addresses = if upper == 20 { 12..20 } else { 8..40 };
        let protocol = if kind == GsoKind::Udp {
            PROTOCOL_UDP
        } else {
            PROTOCOL_TCP
        };
        let sum = Sum::new()
            .bytes(header.get(addresses)?)
            .number(u32::from(protocol))
            .number(u32::try_from(upper_len).ok()?)
            .fold();
        if kind == GsoKind::Udp {
            put_low(header, upper + 4, upper_len);
            put_low(header, upper + 6, usize::from(sum));
        } else {
            put_low(header, upper + 16, usize::from(sum));
            let flags = header.get_mut(upper + 13)?;
            *flags = TCP_ACK | if self.push { TCP_PSH } else { 0 };
        }
        let gso = Gso {
            kind,
            size: u16::try_from(self.size).ok()?,
            ecn: false,
        };
        let offload = Offload {
            gso: Some(gso),
            ..self.offload
        };
        Some((header, offload))
    }
}
