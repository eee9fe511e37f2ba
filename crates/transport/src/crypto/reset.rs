//! Stateless reset tokens (RFC 9000 §10.3).

use core::fmt;
use core::hint::black_box;

use super::EndpointKey;

/// Length of a token.
pub const RESET_TOKEN_LEN: usize = 16;

/// Minimum size of a stateless reset, which looks like a packet with a short header and has 5
/// unpredictable bytes before the token (RFC 9000 §10.3).
pub const MIN_RESET_LEN: usize = 5 + RESET_TOKEN_LEN;

/// Sixteen bytes that close a connection if a datagram ends with them. Until used, only the two
/// endpoints know them.
///
/// Comparison takes constant time (RFC 9000 §10.3.1).
#[derive(Clone, Copy, Eq)]
pub struct ResetToken([u8; RESET_TOKEN_LEN]);

impl ResetToken {
    /// Creates a token from its bytes.
    pub const fn new(bytes: [u8; RESET_TOKEN_LEN]) -> Self {
        Self(bytes)
    }

    /// Derives the token of one of this endpoint's connection ids. It can therefore be computed
    /// again after all state was lost (RFC 9000 §10.3.2).
    pub fn derive(key: &dyn EndpointKey, cid: &[u8]) -> Self {
        // The label separates this use of the keyed hash from others.
        let mut input = [0u8; 6 + 20];
        let len = 6 + cid.len().min(20);
        let (label, id) = input.split_at_mut(6);
        label.copy_from_slice(b"reset:");
        id.iter_mut().zip(cid).for_each(|(to, from)| *to = *from);
        // [9000 10.3.2 guessed-token] [9000 10.3.2 token-per-id]
        let mac = key.mac(input.get(..len).unwrap_or(&[]));
        let mut token = [0; RESET_TOKEN_LEN];
        token.iter_mut().zip(mac).for_each(|(to, from)| *to = from);
        Self(token)
    }

    /// Returns the token at the end of a datagram that is long enough to be a stateless reset.
    pub fn at_end_of(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < MIN_RESET_LEN {
            return None;
        }
        datagram.last_chunk().copied().map(Self)
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; RESET_TOKEN_LEN] {
        &self.0
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            // [9000 10.3.1 constant-time]
            .fold(0u8, |acc, (a, b)| black_box(acc | (a ^ b)));
        black_box(difference) == 0
    }
}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::null::NullEndpointKey;

    #[test]
    fn token_depends_on_key_and_id() {
        // [9000 10.3.2 guessed-token] [9000 10.3.2 token-per-id]
        let derive = |n, id: &[u8]| ResetToken::derive(&NullEndpointKey::new(n), id);
        let token = derive(1, b"12345678");
        assert_eq!(token, derive(1, b"12345678"));
        assert_ne!(token, derive(1, b"12345679"));
        assert_ne!(token, derive(1, b"1234567"));
        assert_ne!(token, derive(2, b"12345678"));
    }

    #[test]
    fn every_bit_counts_in_comparison() {
        let token = ResetToken::new([0x5a; 16]);
        for bit in 0..128 {
            let mut bytes = [0x5a; 16];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(token, ResetToken::new(bytes));
        }
    }

    #[test]
    fn token_is_read_from_the_end_of_long_enough_datagrams() {
        let mut datagram = vec![0x40; 5];
        datagram.extend([7; 16]);
        let token = Some(ResetToken::new([7; 16]));
        assert_eq!(ResetToken::at_end_of(&datagram), token);
        assert_eq!(ResetToken::at_end_of(&datagram[1..]), None);
    }
}
