//! QUIC versions (RFC 9000 §15).

/// QUIC version 1.
pub const V1: u32 = 1;

/// The version field of a Version Negotiation packet.
pub const NEGOTIATION: u32 = 0;

/// Returns true for versions of the form 0x?a?a?a?a, which are reserved so that receivers
/// ignore them (RFC 9000 §15).
#[inline]
pub const fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Returns the reserved version that takes the high half of each byte from `entropy`.
#[inline]
pub const fn reserved(entropy: u32) -> u32 {
    entropy & 0xf0f0_f0f0 | 0x0a0a_0a0a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_versions_have_a_in_each_byte() {
        for version in [0x0a0a_0a0a, 0x1a2a_3a4a, 0xfafa_fafa] {
            assert!(is_reserved(version));
            assert_eq!(reserved(version), version);
        }
        assert!(!is_reserved(V1));
        assert!(!is_reserved(0x6b33_43cf)); // version 2
        assert!(is_reserved(reserved(0x1234_5678)));
    }
}
