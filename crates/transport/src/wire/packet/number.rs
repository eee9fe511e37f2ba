//! Packet numbers on the wire: their low 1 to 4 bytes (RFC 9000 §17.1, Appendix A.2 and A.3).

use crate::wire::varint;
use crate::wire::{Reader, UnexpectedEnd, WriteError, Writer};

/// The largest packet number, 2^62 − 1.
pub const MAX: u64 = varint::MAX;

/// The low bytes of a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedNumber {
    value: u32,
    len: u8,
}

impl TruncatedNumber {
    /// Truncates `full` to as many low bytes (at most 4) as the receiver needs if it might not
    /// have received any packet after `largest_acked` (Appendix A.2).
    #[inline]
    pub const fn new(full: u64, largest_acked: Option<u64>) -> Self {
        let unacked = match largest_acked {
            Some(acked) => full.saturating_sub(acked),
            // [9000 17.1 whole-number]
            None => full.saturating_add(1),
        };
        // One bit more than the binary logarithm, rounded up.
        let bits = match unacked {
            0 | 1 => 1,
            // [9000 17.1 number-range]
            n => (u64::BITS - (n - 1).leading_zeros()) + 1,
        };
        Self::with_len(full, bits.div_ceil(8))
    }

    /// Truncates `full` to its low `len` bytes (1 to 4, clamped).
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bytes are what is asked for"
    )]
    pub const fn with_len(full: u64, len: u32) -> Self {
        let len = match len {
            0 | 1 => 1,
            2 | 3 => len,
            _ => 4,
        };
        Self {
            value: full as u32 & (u32::MAX >> (32 - 8 * len)),
            len: len as u8,
        }
    }

    /// Returns the length in bytes, 1 to 4.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Returns the low bytes as a number.
    #[inline]
    pub const fn value(self) -> u32 {
        self.value
    }

    /// Returns the full number closest to `expected`, which is one more than the largest number
    /// received in an authentic packet so far, or 0 (Appendix A.3).
    #[inline]
    pub const fn expand(self, expected: u64) -> u64 {
        let window = 1u64 << (8 * self.len as u32);
        let half = window / 2;
        let candidate = (expected & !(window - 1)) | self.value as u64;
        if candidate.saturating_add(half) <= expected && candidate < (1 << 62) - window {
            candidate + window
        } else if (candidate > expected.saturating_add(half) || candidate > MAX)
            && candidate >= window
        {
            candidate - window
        } else {
            candidate
        }
    }

    /// Reads `len` bytes (1 to 4).
    ///
    /// # Errors
    /// [`UnexpectedEnd`] if fewer are left.
    #[inline]
    pub fn decode(r: &mut Reader<'_>, len: u8) -> Result<Self, UnexpectedEnd> {
        let len = len.clamp(1, 4);
        let value = r
            .get_slice(usize::from(len))?
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte));
        Ok(Self { value, len })
    }

    /// Writes the low bytes.
    ///
    /// # Errors
    /// [`WriteError::NoRoom`].
    #[inline]
    pub fn encode(self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let bytes = self.value.to_be_bytes();
        w.put_slice(bytes.get(4 - self.len()..).unwrap_or(&bytes))
    }

    /// Returns the two low bits of the first byte, which encode the length.
    #[inline]
    pub(super) const fn length_bits(self) -> u8 {
        self.len - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_rfc_9000_appendix_a() {
        // [9000 17.1 number-range]
        let n = TruncatedNumber::new(0xac_5c02, Some(0xab_e8b3));
        assert_eq!((n.len(), n.value()), (2, 0x5c02));
        let n = TruncatedNumber::new(0xac_e8fe, Some(0xab_e8b3));
        assert_eq!((n.len(), n.value()), (3, 0xac_e8fe));
        let n = TruncatedNumber::with_len(0x9b32, 2);
        assert_eq!(n.expand(0xa82f_30ea + 1), 0xa82f_9b32);
    }

    #[test]
    fn before_an_acknowledgement_numbers_are_whole() {
        // [9000 17.1 whole-number]
        for full in [0, 1, 127, 128, 255, 256, 65_535, 65_536, (1 << 31) - 2] {
            let number = TruncatedNumber::new(full, None);
            assert_eq!((u64::from(number.value()), number.expand(0)), (full, full));
        }
    }

    #[test]
    fn the_ends_of_the_number_space() {
        let lens = [0, 127, 128, MAX].map(|n| TruncatedNumber::new(n, None).len());
        assert_eq!(lens, [1, 1, 2, 4]);
        let expanded = |value, expected| TruncatedNumber::with_len(value, 1).expand(expected);
        assert_eq!(expanded(0xff, 0), 0xff);
        assert_eq!(expanded(0, MAX), MAX - 0xff);
        assert_eq!(expanded(0, MAX + 1), MAX + 1 - 256);
    }

    /// The candidate nearest to the expected number, searched instead of computed.
    fn nearest(value: u64, len: u32, expected: u64) -> u64 {
        let window = 1i128 << (8 * len);
        let base = i128::from(expected) / window * window + i128::from(value);
        [base - window, base, base + window]
            .into_iter()
            .filter(|c| (0..=i128::from(MAX)).contains(c))
            .min_by_key(|c| {
                let away = c - i128::from(expected);
                // Ties go up: the window is open below and closed above.
                (away.abs(), away < 0)
            })
            .unwrap() as u64
    }

    proptest! {
        #[test]
        fn expansion_is_the_nearest_number(
            value: u32,
            len in 1u32..=4,
            shift in 0u32..62,
            expected in 0..=MAX,
        ) {
            let expected = expected >> shift;
            let number = TruncatedNumber::with_len(u64::from(value), len);
            let nearest = nearest(u64::from(number.value()), len, expected);
            prop_assert_eq!(number.expand(expected), nearest);
        }

        #[test]
        fn a_receiver_between_acked_and_sent_recovers_the_number(
            acked in 0..MAX, ahead in 1u64..=1 << 31, heard in 0u64..=1 << 31,
        ) {
            // [9000 17.1 number-range]
            let full = (acked + ahead).min(MAX);
            let largest_heard = acked + heard.min(full - acked - 1);
            let number = TruncatedNumber::new(full, Some(acked));
            prop_assert_eq!(number.expand(largest_heard + 1), full);
        }

        #[test]
        fn bytes_round_trip(full in 0..=MAX, len in 1u32..=4) {
            let number = TruncatedNumber::with_len(full, len);
            let mut buffer = [0; 4];
            let mut w = Writer::new(&mut buffer);
            number.encode(&mut w).unwrap();
            prop_assert_eq!(w.position(), number.len());
            let mut r = Reader::new(w.written());
            prop_assert_eq!(TruncatedNumber::decode(&mut r, len as u8), Ok(number));
        }
    }
}
