//! Cuts a super-packet into its packets.

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
    #[inline]
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
    #[inline]
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
    #[inline]
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
