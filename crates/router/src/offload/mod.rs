//! Segmentation and checksums, which a TUN interface with offloads leaves to its reader.
//!
//! The kernel puts a virtio-net header (virtio 1.2 §5.1.6) in front of each packet
//! ([`VnetHeader`]). It can then hand over packets of up to 64 KiB, which a network card would cut
//! into segments (TSO for TCP, USO for UDP). Their checksum fields hold only the sum of the
//! pseudo-header. [`Super`] cuts such a packet, and [`Coalescer`] coalesces segments again on
//! departure. A fast path therefore handles few large packets, whereas a slow one has no bursts.

mod segments;
#[cfg(test)]
mod tests;

pub use segments::{BadSuper, Coalescer, Super};

/// Length of the header (without `num_buffers`, which TUN omits).
pub const VNET_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Flag in the type field: a TCP super-packet in which only the first segment carries CWR.
const GSO_ECN: u8 = 0x80;

/// The header as bytes.
pub type VnetHeader = [u8; VNET_LEN];

/// A checksum that still has to be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where summing starts: offset of the upper-layer header from the start of the packet.
    pub start: u16,
    /// Where the checksum belongs, in bytes from `start`. This place holds the pseudo-header's
    /// sum.
    pub offset: u16,
}

/// The kind of a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either.
    Udp,
}

/// How a super-packet should be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Its kind.
    pub kind: GsoKind,
    /// Payload bytes of each segment except the last; not 0.
    pub size: u16,
    /// TCP: the first segment carries CWR (RFC 3168).
    pub ecn: bool,
}

/// Work that offload leaves to be done in one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Its partial checksum, or with `gso`, those of its segments.
    pub checksum: Option<Partial>,
    /// Its segmentation.
    pub gso: Option<Gso>,
}

/// An invalid virtio-net header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadVnet {
    /// A type of segmentation that was not requested.
    #[error("unknown kind of super-packet")]
    Kind,
    /// Segments without payload.
    #[error("super-packet with segments of size 0")]
    Size,
    /// A super-packet with complete checksums, which the kernel never makes.
    #[error("super-packet without checksum offload")]
    Checksum,
}

impl Offload {
    /// Parses the header.
    ///
    /// # Errors
    /// [`BadVnet`]. Offsets are checked later, where they are used.
    pub fn parse(header: &VnetHeader) -> Result<Self, BadVnet> {
        let &[flags, kind, _, _, s0, s1, c0, c1, o0, o1] = header;
        let checksum = (flags & NEEDS_CHECKSUM != 0).then_some(Partial {
            start: u16::from_ne_bytes([c0, c1]),
            offset: u16::from_ne_bytes([o0, o1]),
        });
        let gso = match kind & !GSO_ECN {
            GSO_NONE => {
                return Ok(Self {
                    checksum,
                    gso: None,
                });
            }
            GSO_TCP_V4 => GsoKind::TcpV4,
            GSO_TCP_V6 => GsoKind::TcpV6,
            GSO_UDP_L4 => GsoKind::Udp,
            _ => return Err(BadVnet::Kind),
        };
        let size = u16::from_ne_bytes([s0, s1]);
        if size == 0 {
            return Err(BadVnet::Size);
        }
        if checksum.is_none() {
            return Err(BadVnet::Checksum);
        }
        Ok(Self {
            checksum,
            gso: Some(Gso {
                kind: gso,
                size,
                ecn: kind & GSO_ECN != 0,
            }),
        })
    }

    /// Returns the header for a packet whose IP and upper-layer headers have `header_len` bytes.
    pub fn emit(&self, header_len: u16) -> VnetHeader {
        let mut header = [0; VNET_LEN];
        let [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1] = &mut header;
        if let Some(Partial { start, offset }) = self.checksum {
            *flags = NEEDS_CHECKSUM;
            [*c0, *c1] = start.to_ne_bytes();
            [*o0, *o1] = offset.to_ne_bytes();
        }
        if let Some(gso) = self.gso {
            *kind = match gso.kind {
                GsoKind::TcpV4 => GSO_TCP_V4,
                GsoKind::TcpV6 => GSO_TCP_V6,
                GsoKind::Udp => GSO_UDP_L4,
            };
            if gso.ecn {
                *kind |= GSO_ECN;
            }
            [*h0, *h1] = header_len.to_ne_bytes();
            [*s0, *s1] = gso.size.to_ne_bytes();
        }
        header
    }
}
