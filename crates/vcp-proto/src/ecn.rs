//! VCP in the IP ECN field, for paths that preserve nothing else (a tunnel that copies only DSCP
//! and ECN).
//!
//! | field | RFC 3168 | here |
//! |---|---|---|
//! | 00 | Not-ECT | not VCP |
//! | 01 | ECT(1) | LOW |
//! | 10 | ECT(0) | HIGH |
//! | 11 | CE | OVER |
//!
//! Because this redefines a field with a standard meaning (RFC 3168, RFC 9331), it is only
//! suitable for networks under one administration: both ends must choose it, and a router's
//! configuration must select the packets that use it by DSCP, port or prefix. The functions here
//! trust this classification and must not be called for other packets. There is no hop count, so
//! an unchanged 01 counts as LOW.

use pathmark_cc::VcpCode;
use pathmark_shim::ip::Layout;

use crate::mark::Outcome;

/// The code in a packet's ECN field.
#[inline]
pub fn read(bytes: &[u8], ip: &Layout) -> VcpCode {
    ip.ecn(bytes).map_or(VcpCode::None, VcpCode::from_bits)
}

/// Raises the code in a packet's ECN field to at least `code`, and updates IPv4's header
/// checksum. 00 stays 00.
#[inline]
pub fn mark(bytes: &mut [u8], ip: &Layout, code: VcpCode) -> Outcome {
    match read(bytes, ip) {
        VcpCode::None => Outcome::Untouched,
        found if found >= code => Outcome::Marked,
        _ if ip.set_ecn(bytes, code as u8) => Outcome::Marked,
        _ => Outcome::Untouched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pairs() {
        for found in 0..4u8 {
            for mine in 0..4u8 {
                let mut packet = [0u8; 20];
                packet[0] = 0x45;
                packet[1] = 0xB8 | found;
                packet[3] = 20;
                packet[10..12]
                    .copy_from_slice(&(!(0x45B8u16 + u16::from(found) + 20)).to_be_bytes());
                let ip = Layout::walk(&packet).unwrap();
                assert!(ip.header_checksum_ok(&packet));
                let outcome = mark(&mut packet, &ip, VcpCode::from_bits(mine));
                let expected = if found == 0 { 0 } else { found.max(mine) };
                assert_eq!(packet[1], 0xB8 | expected);
                assert_eq!(outcome == Outcome::Marked, found != 0);
                assert!(ip.header_checksum_ok(&packet));
            }
        }
    }
}
