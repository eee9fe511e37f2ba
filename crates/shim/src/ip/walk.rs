//! Walks an IP packet from its first byte to its upper layer.

use core::{error, fmt};

use super::{Fragment, Layout, Version, protocol};

pub(super) const V4_HEADER: u16 = 20;
const V6_HEADER: u16 = 40;
/// Maximum number of IPv6 extension headers; a packet with more is forwarded without reading them.
const MAX_EXTENSIONS: usize = 8;

/// The reason why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkError {
    /// There is no byte at all, or the version is neither 4 nor 6.
    Version,
    /// There are fewer bytes than a header, or than the packet's own length field states.
    Truncated,
    /// The IPv4 header length is below 20 bytes, or exceeds the packet's total length.
    HeaderLength,
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "neither IPv4 nor IPv6",
            Self::Truncated => "IP packet cut short",
            Self::HeaderLength => "impossible IPv4 header length",
        })
    }
}

impl error::Error for WalkError {}

impl Layout {
    /// Checks the IP header, options and extension headers at the start of `bytes`. Bytes after the
    /// packet's own length (a link's padding) are ignored. The IPv4 header checksum is not
    /// verified, see [`header_checksum_ok`](Self::header_checksum_ok).
    ///
    /// # Errors
    /// [`WalkError`]. IPv6 extension headers that are truncated, unknown or too many are not
    /// errors: such a packet has no accessible upper layer, but can be forwarded.
    #[inline]
    pub fn walk(bytes: &[u8]) -> Result<Self, WalkError> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => Self::walk_v4(bytes),
            Some(6) => Self::walk_v6(bytes),
            _ => Err(WalkError::Version),
        }
    }

    #[inline]
    fn walk_v4(bytes: &[u8]) -> Result<Self, WalkError> {
        let &[first, _, l0, l1, _, _, f0, f1, _, protocol, ..] = bytes
            .first_chunk::<{ V4_HEADER as usize }>()
            .ok_or(WalkError::Truncated)?;
        let header = u32::from(first & 0x0F) * 4;
        let end = u32::from(u16::from_be_bytes([l0, l1]));
        if header < u32::from(V4_HEADER) || header > end {
            return Err(WalkError::HeaderLength);
        }
        if end as usize > bytes.len() {
            return Err(WalkError::Truncated);
        }
        let field = u16::from_be_bytes([f0, f1]);
        let fragment = fragment_kind(field & 0x1FFF, field & 0x2000 != 0);
        let layout = Self {
            upper: if fragment == Fragment::Later {
                end
            } else {
                header
            },
            end,
            protocol,
            version: Version::V4,
            fragment,
            authenticated: false,
        };
        if protocol == protocol::AUTHENTICATION && fragment != Fragment::Later {
            return Ok(layout.extensions(bytes, protocol));
        }
        Ok(layout)
    }

    #[inline]
    fn walk_v6(bytes: &[u8]) -> Result<Self, WalkError> {
        let &[_, _, _, _, l0, l1, next, ..] = bytes
            .first_chunk::<{ V6_HEADER as usize }>()
            .ok_or(WalkError::Truncated)?;
        let end = u32::from(V6_HEADER) + u32::from(u16::from_be_bytes([l0, l1]));
        if end as usize > bytes.len() {
            return Err(WalkError::Truncated);
        }
        let layout = Self {
            upper: V6_HEADER.into(),
            end,
            protocol: next,
            version: Version::V6,
            fragment: Fragment::Whole,
            authenticated: false,
        };
        if is_extension(next) {
            return Ok(layout.extensions(bytes, next));
        }
        Ok(layout)
    }

    /// Walks extension headers (RFC 8200 §4), starting at `self.upper`. Takes and returns the
    /// layout by value, so that packets without extension headers do not have to write theirs to
    /// memory.
    #[cold]
    fn extensions(mut self, bytes: &[u8], mut next: u8) -> Self {
        let mut at = self.upper;
        for _ in 0..MAX_EXTENSIONS {
            self.protocol = next;
            if !is_extension(next) {
                // If the last header is longer than the packet, nothing follows it.
                self.upper = at.min(self.end);
                return self;
            }
            let Some(&[following, length, b2, b3]) = bytes
                .get(at as usize..self.end as usize)
                .and_then(|header| header.first_chunk::<4>())
            else {
                break;
            };
            at += match next {
                protocol::FRAGMENT => {
                    let field = u16::from_be_bytes([b2, b3]);
                    self.fragment = fragment_kind(field >> 3, field & 1 != 0);
                    if self.fragment == Fragment::Later {
                        self.protocol = following;
                        break;
                    }
                    8
                }
                protocol::AUTHENTICATION => {
                    self.authenticated = true;
                    (u32::from(length) + 2) * 4
                }
                _ => (u32::from(length) + 1) * 8,
            };
            next = following;
        }
        self.upper = self.end;
        self
    }
}

#[inline]
const fn fragment_kind(offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    }
}

#[inline]
const fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION
            | protocol::MOBILITY
    )
}
