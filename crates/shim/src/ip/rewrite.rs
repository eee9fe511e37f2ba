//! The fields that routers read and rewrite.

use super::walk::V4_HEADER;
use super::{Layout, Version};
use crate::checksum::{Delta, Sum};

impl Layout {
    /// TTL or hop limit.
    #[inline]
    pub fn ttl(&self, bytes: &[u8]) -> Option<u8> {
        bytes.get(self.ttl_offset()).copied()
    }

    pub(super) const fn ttl_offset(&self) -> usize {
        match self.version {
            Version::V4 => 8,
            Version::V6 => 7,
        }
    }

    /// Decrements the TTL or hop limit, updates IPv4's header checksum, and returns the new value.
    /// If it would be 0, returns `None` without changing anything, because the packet must not be
    /// forwarded (RFC 1812 §5.3.1).
    #[inline]
    pub fn decrement_ttl(&self, bytes: &mut [u8]) -> Option<u8> {
        let old = self.ttl(bytes)?;
        let new = old.checked_sub(1).filter(|&ttl| ttl > 0)?;
        *bytes.get_mut(self.ttl_offset())? = new;
        self.renew_v4_checksum(bytes, Delta::word(u16::from(old) << 8, u16::from(new) << 8));
        Some(new)
    }

    /// DSCP, 6 bits (RFC 2474).
    #[inline]
    pub fn dscp(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? >> 2)
    }

    /// ECN field, 2 bits (RFC 3168).
    #[inline]
    pub fn ecn(&self, bytes: &[u8]) -> Option<u8> {
        Some(self.traffic_class(bytes)? & 3)
    }

    /// Writes the low 6 bits of `dscp`. If the bytes are missing, returns false without changing
    /// anything.
    #[inline]
    pub fn set_dscp(&self, bytes: &mut [u8], dscp: u8) -> bool {
        self.update_traffic_class(bytes, |old| dscp << 2 | old & 3)
    }

    /// Writes the low 2 bits of `ecn`. If the bytes are missing, returns false without changing
    /// anything.
    #[inline]
    pub fn set_ecn(&self, bytes: &mut [u8], ecn: u8) -> bool {
        self.update_traffic_class(bytes, |old| old & !3 | ecn & 3)
    }

    /// DSCP and ECN field in one byte (IPv4 type of service, IPv6 traffic class).
    #[inline]
    pub fn traffic_class(&self, bytes: &[u8]) -> Option<u8> {
        let &[b0, b1] = bytes.first_chunk::<2>()?;
        Some(match self.version {
            Version::V4 => b1,
            Version::V6 => b0 << 4 | b1 >> 4,
        })
    }

    #[inline]
    fn update_traffic_class(&self, bytes: &mut [u8], update: impl FnOnce(u8) -> u8) -> bool {
        let Some(start @ &mut [b0, b1]) = bytes.first_chunk_mut::<2>() else {
            return false;
        };
        *start = match self.version {
            Version::V4 => [b0, update(b1)],
            Version::V6 => {
                let class = update(b0 << 4 | b1 >> 4);
                [b0 & 0xF0 | class >> 4, class << 4 | b1 & 0x0F]
            }
        };
        let change = Delta::word(u16::from_be_bytes([b0, b1]), u16::from_be_bytes(*start));
        self.renew_v4_checksum(bytes, change);
        true
    }

    #[inline]
    fn renew_v4_checksum(&self, bytes: &mut [u8], change: Delta) {
        if self.version == Version::V4
            && let Some(field) = bytes.get_mut(10..).and_then(|b| b.first_chunk_mut::<2>())
        {
            *field = change.apply(u16::from_be_bytes(*field)).to_be_bytes();
        }
    }

    /// Returns true if IPv4's header checksum is correct. IPv6 has none, so the result is always
    /// true.
    #[inline]
    pub fn header_checksum_ok(&self, bytes: &[u8]) -> bool {
        if self.version == Version::V6 {
            return true;
        }
        let header = bytes.first().map_or(0, |first| u16::from(first & 0x0F) * 4);
        if let (V4_HEADER, Some(header)) = (header, bytes.first_chunk::<{ V4_HEADER as usize }>()) {
            return Sum::new().bytes(header).finish() == 0;
        }
        bytes
            .get(..header.into())
            .is_some_and(|header| Sum::new().bytes(header).finish() == 0)
    }

    /// Returns true if the packet must not be fragmented on the way: IPv4's DF flag, always for
    /// IPv6.
    pub fn dont_fragment(&self, bytes: &[u8]) -> bool {
        self.version == Version::V6 || bytes.get(6).is_some_and(|flags| flags & 0x40 != 0)
    }
}
